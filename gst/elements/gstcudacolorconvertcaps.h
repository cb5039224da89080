// SPDX-License-Identifier: LGPL-2.1-or-later
// What cudacolorconvert can make of which caps, and what it picks.
#pragma once

#include <gst/base/gstbasetransform.h>

/// Pixel formats of both pads, as caps strings.
#define GST_CUDA_COLOR_CONVERT_FORMATS "{ NV12, RGB, BGR, RGBA, BGRA, RGBx, BGRx, RGBP, GBR }"

/// (transfer full): everything that `caps` on one pad allows on the other. `direction`: of the pad
/// that `caps` are on.
GstCaps* gst_cuda_color_convert_transform_caps(GstPadDirection direction, const GstCaps* caps);

/// (transfer full): one of `candidates` for input `caps`, fixed: frames in CUDA memory before
/// system memory, then the input's own format, then the first that the candidates name.
GstCaps* gst_cuda_color_convert_fixate_output(const GstCaps* input, GstCaps* candidates);
