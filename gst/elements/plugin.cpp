// SPDX-License-Identifier: LGPL-2.1-or-later
// The plugin "cudaframe": registers the elements, touches no driver.

#include <gst/gst.h>

#include "elements/gstcudaerror.h"

#ifdef HAVE_CUDADEMUX
GST_ELEMENT_REGISTER_DECLARE(cudademux)
#endif
#ifdef HAVE_CUDAPACKETDEC
GST_ELEMENT_REGISTER_DECLARE(cudapacketdec)
#endif
#ifdef HAVE_CUDACOLORCONVERT
GST_ELEMENT_REGISTER_DECLARE(cudacolorconvert)
#endif

static gboolean plugin_init([[maybe_unused]] GstPlugin* plugin) {
  gst_cuda_install_log_sink();
  gboolean any = FALSE;
#ifdef HAVE_CUDADEMUX
  any |= GST_ELEMENT_REGISTER(cudademux, plugin);
#endif
#ifdef HAVE_CUDAPACKETDEC
  any |= GST_ELEMENT_REGISTER(cudapacketdec, plugin);
#endif
#ifdef HAVE_CUDACOLORCONVERT
  any |= GST_ELEMENT_REGISTER(cudacolorconvert, plugin);
#endif
  return any;
}

GST_PLUGIN_DEFINE(GST_VERSION_MAJOR, GST_VERSION_MINOR, cudaframe,
                  "Demux, decode and convert video on NVIDIA GPUs, in stream order", plugin_init,
                  PACKAGE_VERSION, "LGPL", "gst-cudaframe", GST_PACKAGE_ORIGIN)
