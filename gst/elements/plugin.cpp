// SPDX-License-Identifier: LGPL-2.1-or-later
// The plugin "cudaframe": registers the elements, touches no driver.

#include <gst/gst.h>

#include "elements/gstcudaerror.h"

GST_ELEMENT_REGISTER_DECLARE(cudademux)
GST_ELEMENT_REGISTER_DECLARE(cudapacketdec)
GST_ELEMENT_REGISTER_DECLARE(cudacolorconvert)

static gboolean plugin_init(GstPlugin* plugin) {
  gst_cuda_install_log_sink();
  gboolean any = FALSE;
  any |= GST_ELEMENT_REGISTER(cudademux, plugin);
  any |= GST_ELEMENT_REGISTER(cudapacketdec, plugin);
  any |= GST_ELEMENT_REGISTER(cudacolorconvert, plugin);
  return any;
}

GST_PLUGIN_DEFINE(GST_VERSION_MAJOR, GST_VERSION_MINOR, cudaframe,
                  "Demux, decode and convert video on NVIDIA GPUs, in stream order", plugin_init,
                  PACKAGE_VERSION, "LGPL", "gst-cudaframe", GST_PACKAGE_ORIGIN)
