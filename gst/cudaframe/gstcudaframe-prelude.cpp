// SPDX-License-Identifier: LGPL-2.1-or-later
#include "gst/cudaframe/gstcudaframe-prelude.h"

GType gst_cuda_frame_reuse_policy_get_type(void) {
  static const GEnumValue values[] = {
      {GST_CUDA_FRAME_REUSE_RECORD_STREAM,
       "Withhold memory until its readers are done; never stalls, memory grows with their lag",
       "record-stream"},
      {GST_CUDA_FRAME_REUSE_BOUNDED_POOL,
       "At most max-frames frames; the next write waits on the device for the readers",
       "bounded-pool"},
      {0, nullptr, nullptr}};
  static const GType type = g_enum_register_static("GstCudaFrameReusePolicy", values);
  return type;
}
