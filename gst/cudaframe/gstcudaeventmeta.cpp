// SPDX-License-Identifier: LGPL-2.1-or-later
#include "gst/cudaframe/gstcudaeventmeta.h"

#include "gst/cudaframe/gstcudaframe-fence.h"
#include "gst/cudaframe/gstcudaframe-private.h"

using FencePtr = std::shared_ptr<cudaframe::memory::Fence>;

static FencePtr* fence_of(GstCudaEventMeta* meta) {
  return static_cast<FencePtr*>(meta->fence);
}

static gboolean meta_init(GstMeta* meta, gpointer, GstBuffer*) {
  reinterpret_cast<GstCudaEventMeta*>(meta)->fence = nullptr;
  return TRUE;
}

static void meta_free(GstMeta* meta, GstBuffer*) {
  delete fence_of(reinterpret_cast<GstCudaEventMeta*>(meta));
}

static GstCudaEventMeta* add_meta(GstBuffer* buffer, const FencePtr& fence) {
  auto* meta = reinterpret_cast<GstCudaEventMeta*>(
      gst_buffer_add_meta(buffer, GST_CUDA_EVENT_META_INFO, nullptr));
  meta->fence = new FencePtr(fence);
  return meta;
}

static gboolean meta_transform(GstBuffer* target, GstMeta* meta, GstBuffer*, GQuark type,
                               gpointer) {
  // Copies that share the memory; GStreamer drops memory-reference metas from deep ones itself.
  if (!GST_META_TRANSFORM_IS_COPY(type)) return FALSE;
  if (!gst_buffer_get_cuda_event_meta(target)) {
    add_meta(target, *fence_of(reinterpret_cast<GstCudaEventMeta*>(meta)));
  }
  return TRUE;
}

GType gst_cuda_event_meta_api_get_type(void) {
  static const gchar* tags[] = {GST_META_TAG_MEMORY_REFERENCE_STR, nullptr};
  static const GType type = gst_meta_api_type_register("GstCudaEventMetaAPI", tags);
  return type;
}

const GstMetaInfo* gst_cuda_event_meta_get_info(void) {
  static const GstMetaInfo* const info =
      gst_meta_register(GST_CUDA_EVENT_META_API_TYPE, "GstCudaEventMeta", sizeof(GstCudaEventMeta),
                        meta_init, meta_free, meta_transform);
  return info;
}

GstCudaEventMeta* gst_buffer_get_cuda_event_meta(GstBuffer* buffer) {
  return reinterpret_cast<GstCudaEventMeta*>(
      gst_buffer_get_meta(buffer, GST_CUDA_EVENT_META_API_TYPE));
}

GstCudaEventMeta* gst_buffer_add_cuda_event_meta(GstBuffer* buffer, GstMemory* mem) {
  g_return_val_if_fail(GST_IS_BUFFER(buffer), nullptr);
  if (!gst_is_cuda_frame_memory(mem)) return nullptr;
  return add_meta(buffer, gst_cuda_frame_memory_get_frame(mem)->shared_fence());
}

gboolean gst_cuda_event_meta_wait(GstCudaEventMeta* meta, CUstream stream) {
  g_return_val_if_fail(meta != nullptr, FALSE);
  return gst_cuda_fence_succeeded((*fence_of(meta))->wait(stream), "waiting for a frame");
}

gboolean gst_cuda_event_meta_synchronize(GstCudaEventMeta* meta) {
  g_return_val_if_fail(meta != nullptr, FALSE);
  return gst_cuda_fence_succeeded((*fence_of(meta))->synchronize(), "waiting for a frame");
}

gboolean gst_cuda_event_meta_is_ready(GstCudaEventMeta* meta) {
  g_return_val_if_fail(meta != nullptr, FALSE);
  return gst_cuda_fence_is_ready(**fence_of(meta));
}

gboolean gst_cuda_event_meta_record_stream(GstCudaEventMeta* meta, CUstream stream) {
  g_return_val_if_fail(meta != nullptr, FALSE);
  return gst_cuda_fence_record_stream(**fence_of(meta), stream);
}

gboolean gst_cuda_event_meta_add_reader(GstCudaEventMeta* meta, CUevent event) {
  g_return_val_if_fail(meta != nullptr, FALSE);
  return gst_cuda_fence_add_reader(**fence_of(meta), event);
}
