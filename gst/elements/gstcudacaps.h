// SPDX-License-Identifier: LGPL-2.1-or-later
// Between caps and the core's media types.
#pragma once

#include <gst/video/video.h>

#include "base/media_types.h"
#include "base/result.h"
#include "memory/frame_layout.h"

/// Whether the first features of `caps` are exactly memory:CUDAFrame.
bool gst_cuda_caps_has_frame_feature(const GstCaps* caps);

/// (transfer full): `caps` with memory:CUDAFrame (true) or system memory (false) as only feature.
GstCaps* gst_cuda_caps_with_memory(const GstCaps* caps, bool cuda_frame);

/// gst_video_info_from_caps(), but a chroma-site without colorimetry counts too.
bool gst_cuda_video_info_from_caps(GstVideoInfo* info, const GstCaps* caps);

/// The core's format; not_supported names the one that it doesn't have.
cudaframe::Result<cudaframe::PixelFormat> gst_cuda_format_of(const GstVideoInfo& info);

/// The layout that GStreamer's video info describes: what plain system memory looks like.
cudaframe::Result<cudaframe::memory::FrameLayout> gst_cuda_host_layout(const GstVideoInfo& info);

/// The layout of device frames of this format and size.
cudaframe::Result<cudaframe::memory::FrameLayout> gst_cuda_device_layout(const GstVideoInfo& info);

/// Matrix, range and chroma siting of YCbCr caps. not_supported names a matrix that is not handled.
/// gst_video_info_from_caps() has already filled in GStreamer's defaults for what caps don't say;
/// an unset chroma-site means left (MPEG-2 and H.264's default; ITU-T H.264, E.2.1).
cudaframe::Result<cudaframe::ColorDescription> gst_cuda_color_of(const GstVideoInfo& info);
