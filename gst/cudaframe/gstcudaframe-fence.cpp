// SPDX-License-Identifier: LGPL-2.1-or-later
#include "gst/cudaframe/gstcudaframe-fence.h"

#include "gst/cudaframe/gstcudaframe-debug.h"

#undef GST_CAT_DEFAULT
#define GST_CAT_DEFAULT gst_cuda_frame_debug_category()

using cudaframe::Result;
using cudaframe::Status;
using cudaframe::cuda::Event;
using cudaframe::cuda::Stream;
using cudaframe::cuda::StreamPtr;
using cudaframe::memory::Fence;

gboolean gst_cuda_fence_succeeded(const Status& status, const char* what) {
  if (status.ok()) return TRUE;
  GST_WARNING("%s: %s", what, status.dump().c_str());
  return FALSE;
}

gboolean gst_cuda_fence_is_ready(const Fence& fence) {
  const Result<bool> ready = fence.is_ready();
  if (!ready.ok()) return gst_cuda_fence_succeeded(ready.status(), "asking for a frame");
  return *ready;
}

gboolean gst_cuda_fence_record_stream(Fence& fence, CUstream stream) {
  Result<StreamPtr> wrapped = Stream::wrap(fence.context(), stream);
  if (!wrapped.ok()) return gst_cuda_fence_succeeded(wrapped.status(), "recording a stream");
  return gst_cuda_fence_succeeded(fence.record_stream(std::move(*wrapped)), "recording a stream");
}

gboolean gst_cuda_fence_record_write(Fence& fence, CUstream stream) {
  Result<StreamPtr> wrapped = Stream::wrap(fence.context(), stream);
  if (!wrapped.ok()) return gst_cuda_fence_succeeded(wrapped.status(), "recording a write");
  return gst_cuda_fence_succeeded(fence.record_write(*wrapped), "recording a write");
}

gboolean gst_cuda_fence_add_reader(Fence& fence, CUevent event) {
  g_return_val_if_fail(event != nullptr, FALSE);
  return gst_cuda_fence_succeeded(fence.add_reader({Event::adopt(fence.context(), event), nullptr}),
                                  "adding a reader");
}
