// SPDX-License-Identifier: LGPL-2.1-or-later
// The library's debug category, `cudaframe`. Not installed.
#pragma once

#include <gst/gst.h>

GstDebugCategory* gst_cuda_frame_debug_category();

/// GStreamer's own category for what costs speed: a copy to the CPU, a host wait.
GstDebugCategory* gst_cuda_frame_performance_category();
