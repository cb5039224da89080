// SPDX-License-Identifier: LGPL-2.1-or-later
// cudademux: containers to packets, by libavformat.
#pragma once

#include <gst/gst.h>

G_BEGIN_DECLS

#define GST_TYPE_CUDA_DEMUX (gst_cuda_demux_get_type())
G_DECLARE_FINAL_TYPE(GstCudaDemux, gst_cuda_demux, GST, CUDA_DEMUX, GstElement)

GST_ELEMENT_REGISTER_DECLARE(cudademux)

G_END_DECLS
