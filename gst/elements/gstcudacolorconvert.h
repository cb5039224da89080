// SPDX-License-Identifier: LGPL-2.1-or-later
// cudacolorconvert: colour conversion with CUDA kernels, on a stream of its own.
#pragma once

#include <gst/base/gstbasetransform.h>

G_BEGIN_DECLS

#define GST_TYPE_CUDA_COLOR_CONVERT (gst_cuda_color_convert_get_type())
G_DECLARE_FINAL_TYPE(GstCudaColorConvert, gst_cuda_color_convert, GST, CUDA_COLOR_CONVERT,
                     GstBaseTransform)

GST_ELEMENT_REGISTER_DECLARE(cudacolorconvert)

G_END_DECLS
