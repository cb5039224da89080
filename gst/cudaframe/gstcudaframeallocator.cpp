// SPDX-License-Identifier: LGPL-2.1-or-later
#include "gst/cudaframe/gstcudaframeallocator.h"

#include "gst/cudaframe/gstcudaframe-fence.h"
#include "gst/cudaframe/gstcudaframeallocator-private.h"

#include "gst/cudaframe/gstcudaframe-debug.h"

#undef GST_CAT_DEFAULT
#define GST_CAT_DEFAULT gst_cuda_frame_debug_category()

using cudaframe::MutexLock;
using cudaframe::PixelFormat;
using cudaframe::Result;
using cudaframe::cuda::Context;
using cudaframe::cuda::Stream;
using cudaframe::cuda::StreamPtr;
using cudaframe::download::Transfer;
using cudaframe::memory::FrameLayout;
using cudaframe::memory::FramePtr;
using cudaframe::memory::MemoryKind;
using cudaframe::memory::MemoryPolicy;
using cudaframe::memory::PolicyStats;
using cudaframe::memory::ReusePolicy;

namespace {

struct State {
  std::shared_ptr<MemoryPolicy> policy;
  cudaframe::Mutex mutex;
  std::unique_ptr<Transfer> transfer GUARDED_BY(mutex);
};

/// Indexed by PixelFormat.
constexpr GstVideoFormat kVideoFormats[] = {
    GST_VIDEO_FORMAT_NV12, GST_VIDEO_FORMAT_RGB,  GST_VIDEO_FORMAT_BGR,
    GST_VIDEO_FORMAT_RGBA, GST_VIDEO_FORMAT_BGRA, GST_VIDEO_FORMAT_RGBx,
    GST_VIDEO_FORMAT_BGRx, GST_VIDEO_FORMAT_RGBP, GST_VIDEO_FORMAT_GBR,
};

}  // namespace

struct _GstCudaFrameAllocator {
  GstAllocator parent;
  State* state;
};

G_DEFINE_FINAL_TYPE(GstCudaFrameAllocator, gst_cuda_frame_allocator, GST_TYPE_ALLOCATOR)

bool gst_cuda_frame_format_from_video(GstVideoFormat video, PixelFormat* format) {
  for (std::size_t i = 0; i < G_N_ELEMENTS(kVideoFormats); ++i) {
    if (kVideoFormats[i] != video) continue;
    *format = static_cast<PixelFormat>(i);
    return true;
  }
  return false;
}

GstVideoFormat gst_cuda_frame_format_to_video(PixelFormat format) {
  return kVideoFormats[static_cast<int>(format)];
}

static void allocator_finalize(GObject* object) {
  GstCudaFrameAllocator* self = GST_CUDA_FRAME_ALLOCATOR(object);
  delete self->state;
  G_OBJECT_CLASS(gst_cuda_frame_allocator_parent_class)->finalize(object);
}

static void gst_cuda_frame_allocator_init(GstCudaFrameAllocator* self) {
  self->state = new State{};
  gst_cuda_frame_memory_init_allocator(GST_ALLOCATOR(self));
}

static void gst_cuda_frame_allocator_class_init(GstCudaFrameAllocatorClass* klass) {
  G_OBJECT_CLASS(klass)->finalize = allocator_finalize;
  // Bytes without a picture are no frame: gst_allocator_alloc() is refused by having no function.
  GST_ALLOCATOR_CLASS(klass)->alloc = nullptr;
  GST_ALLOCATOR_CLASS(klass)->free = [](GstAllocator*, GstMemory* mem) {
    gst_cuda_frame_memory_free(mem);
  };
}

GstCudaFrameAllocator* gst_cuda_frame_allocator_new_from_policy(
    std::shared_ptr<MemoryPolicy> policy) {
  auto* self = GST_CUDA_FRAME_ALLOCATOR(g_object_new(GST_TYPE_CUDA_FRAME_ALLOCATOR, nullptr));
  gst_object_ref_sink(self);
  self->state->policy = std::move(policy);
  return self;
}

GstCudaFrameAllocator* gst_cuda_frame_allocator_new(gint device_id, GstCudaFrameReusePolicy policy,
                                                    guint max_frames, guint64 max_bytes,
                                                    GError** error) {
  Result<Context*> context = Context::for_device(device_id);
  if (!context) {
    g_set_error_literal(error, GST_RESOURCE_ERROR, GST_RESOURCE_ERROR_NOT_FOUND,
                        context.status().message().c_str());
    return nullptr;
  }
  const ReusePolicy reuse = policy == GST_CUDA_FRAME_REUSE_RECORD_STREAM
                                ? ReusePolicy::record_stream
                                : ReusePolicy::bounded_pool;
  return gst_cuda_frame_allocator_new_from_policy(MemoryPolicy::create(
      reuse, **context, MemoryKind::device, {.max_frames = max_frames, .max_bytes = max_bytes}));
}

MemoryPolicy& gst_cuda_frame_allocator_get_policy(GstCudaFrameAllocator* self) {
  return *self->state->policy;
}

Transfer* gst_cuda_frame_allocator_get_transfer(GstCudaFrameAllocator* self) {
  State& state = *self->state;
  MutexLock lock(state.mutex);
  if (!state.transfer) {
    Result<std::unique_ptr<Transfer>> made = Transfer::create(state.policy->context());
    if (!made) {
      gst_cuda_fence_succeeded(made.status(), "making a stream for copies");
      return nullptr;
    }
    state.transfer = std::move(*made);
  }
  return state.transfer.get();
}

GstBuffer* gst_cuda_frame_allocator_wrap(GstCudaFrameAllocator* self, FramePtr frame) {
  const FrameLayout layout = frame->layout();
  const bool on_device = frame->kind() == MemoryKind::device;
  gsize offsets[GST_VIDEO_MAX_PLANES] = {};
  gint strides[GST_VIDEO_MAX_PLANES] = {};
  for (int i = 0; i < layout.plane_count; ++i) {
    offsets[i] = layout.planes[i].offset;
    strides[i] = static_cast<gint>(layout.planes[i].pitch);
  }
  GstBuffer* buffer = gst_buffer_new();
  GstMemory* mem = gst_cuda_frame_memory_new(self, std::move(frame));
  gst_buffer_append_memory(buffer, mem);
  gst_buffer_add_video_meta_full(
      buffer, GST_VIDEO_FRAME_FLAG_NONE, gst_cuda_frame_format_to_video(layout.format),
      static_cast<guint>(layout.width), static_cast<guint>(layout.height),
      static_cast<guint>(layout.plane_count), offsets, strides);
  if (on_device) gst_buffer_add_cuda_event_meta(buffer, mem);
  return buffer;
}

GstBuffer* gst_cuda_frame_allocator_alloc(GstCudaFrameAllocator* self, const GstVideoInfo* info,
                                          CUstream stream) {
  g_return_val_if_fail(GST_IS_CUDA_FRAME_ALLOCATOR(self), nullptr);
  g_return_val_if_fail(info != nullptr, nullptr);
  PixelFormat format;
  if (!gst_cuda_frame_format_from_video(GST_VIDEO_INFO_FORMAT(info), &format)) {
    GST_WARNING_OBJECT(self, "no frames of format %s",
                       gst_video_format_to_string(GST_VIDEO_INFO_FORMAT(info)));
    return nullptr;
  }
  MemoryPolicy& policy = *self->state->policy;
  Result<StreamPtr> writer = Stream::wrap(policy.context(), stream);
  Result<FrameLayout> layout = cudaframe::memory::make_device_layout(
      format, GST_VIDEO_INFO_WIDTH(info), GST_VIDEO_INFO_HEIGHT(info));
  if (!writer.ok() || !layout.ok()) {
    gst_cuda_fence_succeeded(writer.ok() ? layout.status() : writer.status(), "allocating a frame");
    return nullptr;
  }
  Result<FramePtr> frame = policy.allocate(*layout, *writer);
  if (!frame.ok()) {
    if (frame.status().code() != cudaframe::StatusCode::flushing) {
      gst_cuda_fence_succeeded(frame.status(), "allocating a frame");
    }
    return nullptr;
  }
  return gst_cuda_frame_allocator_wrap(self, std::move(*frame));
}

void gst_cuda_frame_allocator_set_flushing(GstCudaFrameAllocator* self, gboolean flushing) {
  g_return_if_fail(GST_IS_CUDA_FRAME_ALLOCATOR(self));
  self->state->policy->set_flushing(flushing);
}

GstStructure* gst_cuda_frame_stats_new(const PolicyStats& stats) {
  return gst_structure_new(
      "cudaframe-stats", "frames", G_TYPE_UINT64, guint64{stats.frames}, "bytes", G_TYPE_UINT64,
      guint64{stats.bytes}, "peak-bytes", G_TYPE_UINT64, guint64{stats.peak_bytes},
      "old-layout-bytes", G_TYPE_UINT64, guint64{stats.old_layout_bytes}, "in-flight", G_TYPE_UINT,
      static_cast<guint>(stats.in_flight), "peak-in-flight", G_TYPE_UINT,
      static_cast<guint>(stats.peak_in_flight), "over-bound", G_TYPE_UINT64,
      guint64{stats.over_bound}, "blocks-created", G_TYPE_UINT64, guint64{stats.blocks_created},
      "blocks-reused", G_TYPE_UINT64, guint64{stats.blocks_reused}, "host-waits", G_TYPE_UINT64,
      guint64{stats.host_waits}, "host-wait-time", G_TYPE_UINT64, guint64{stats.host_wait_ns},
      nullptr);
}

GstStructure* gst_cuda_frame_allocator_get_stats(GstCudaFrameAllocator* self) {
  g_return_val_if_fail(GST_IS_CUDA_FRAME_ALLOCATOR(self), nullptr);
  return gst_cuda_frame_stats_new(self->state->policy->stats());
}
