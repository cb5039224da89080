// SPDX-License-Identifier: LGPL-2.1-or-later
#include "gst/cudaframe/gstcudaframe-debug.h"

GstDebugCategory* gst_cuda_frame_debug_category() {
  static GstDebugCategory* const category =
      _gst_debug_category_new("cudaframe", 0, "CUDA frames: memory, events, allocation");
  return category;
}

GstDebugCategory* gst_cuda_frame_performance_category() {
  static GstDebugCategory* const category = _gst_debug_get_category("GST_PERFORMANCE");
  return category;
}
