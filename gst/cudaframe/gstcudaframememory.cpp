// SPDX-License-Identifier: LGPL-2.1-or-later
#include "gst/cudaframe/gstcudaframememory.h"

#include "gst/cudaframe/gstcudaframe-fence.h"
#include "gst/cudaframe/gstcudaframeallocator-private.h"

#include "gst/cudaframe/gstcudaframe-debug.h"

#undef GST_CAT_DEFAULT
#define GST_CAT_DEFAULT gst_cuda_frame_debug_category()

using cudaframe::MutexLock;
using cudaframe::Result;
using cudaframe::Status;
using cudaframe::download::Transfer;
using cudaframe::memory::Frame;
using cudaframe::memory::FramePtr;
using cudaframe::memory::MemoryKind;

static GstCudaFrameMemory* as_frame_memory(GstMemory* mem) {
  return reinterpret_cast<GstCudaFrameMemory*>(mem);
}

static gboolean is_frame_memory(GstMemory* mem) {
  return mem && mem->allocator && GST_IS_CUDA_FRAME_ALLOCATOR(mem->allocator);
}

static Transfer* transfer_of(GstCudaFrameMemory* self) {
  return gst_cuda_frame_allocator_get_transfer(GST_CUDA_FRAME_ALLOCATOR(self->parent.allocator));
}

// --- Mapping -----------------------------------------------------------------------------------

/// The frame's copy in pinned memory, up to date and safe to touch. Null after logging why.
static std::shared_ptr<Frame> bring_to_host(GstCudaFrameMemory* self) {
  MutexLock lock(self->mutex);
  if (!self->host) {
    Transfer* transfer = transfer_of(self);
    if (!transfer) return nullptr;
    GST_CAT_DEBUG(gst_cuda_frame_performance_category(), "memory %p is copied to the CPU", self);
    Result<FramePtr> host = transfer->download(*self->frame);
    if (!host) {
      gst_cuda_fence_succeeded(host.status(), "copying a frame to the CPU");
      return nullptr;
    }
    self->host = std::move(*host);
  }
  // Covers the download just queued, and an upload of an earlier CPU write.
  Status status = self->host->fence().synchronize();
  if (status.ok()) status = self->frame->fence().synchronize();
  if (gst_cuda_fence_succeeded(status, "waiting for a frame on the CPU")) return self->host;
  self->host.reset();
  return nullptr;
}

static gpointer map_host_frame(GstCudaFrameMemory* self) {
  const Frame& frame = *self->frame;
  if (!gst_cuda_fence_succeeded(frame.fence().synchronize(), "waiting for a frame")) return nullptr;
  return frame.host_address() - frame.layout().planes[0].offset;
}

static gpointer memory_map(GstMemory* mem, GstMapInfo* info, gsize) {
  GstCudaFrameMemory* self = as_frame_memory(mem);
  const Frame& frame = *self->frame;
  const bool wants_device = (info->flags & GST_MAP_CUDA_FRAME) != 0;
  if (frame.kind() == MemoryKind::pinned_host) {
    return wants_device ? nullptr : map_host_frame(self);
  }
  const std::size_t first = frame.layout().planes[0].offset;
  if (wants_device) return reinterpret_cast<gpointer>(frame.device_address() - first);
  std::shared_ptr<Frame> host = bring_to_host(self);
  if (!host) return nullptr;
  std::byte* address = host->host_address() - first;
  // Each map keeps the copy that it sees, also if a device write makes the memory forget it.
  info->user_data[0] = new std::shared_ptr<Frame>(std::move(host));
  return address;
}

static void memory_unmap(GstMemory* mem, GstMapInfo* info) {
  GstCudaFrameMemory* self = as_frame_memory(mem);
  if (self->frame->kind() == MemoryKind::pinned_host) return;
  if (info->flags & GST_MAP_CUDA_FRAME) {
    if (info->flags & GST_MAP_WRITE) {
      MutexLock lock(self->mutex);
      self->host.reset();
    }
    return;
  }
  const std::unique_ptr<std::shared_ptr<Frame>> host(
      static_cast<std::shared_ptr<Frame>*>(info->user_data[0]));
  if (!(info->flags & GST_MAP_WRITE)) return;
  MutexLock lock(self->mutex);
  if (Transfer* transfer = transfer_of(self)) {
    gst_cuda_fence_succeeded(transfer->upload(**host, *self->frame), "copying a frame back");
  }
}

// --- Copying -----------------------------------------------------------------------------------

static GstMemory* copy_on_cpu(GstMemory* mem, gsize offset, gsize size) {
  GstMapInfo from;
  GstMapInfo to;
  if (!gst_memory_map(mem, &from, GST_MAP_READ)) return nullptr;
  GstMemory* copy = gst_allocator_alloc(nullptr, size, nullptr);
  if (gst_memory_map(copy, &to, GST_MAP_WRITE)) {
    memcpy(to.data, from.data + offset, size);
    gst_memory_unmap(copy, &to);
  }
  gst_memory_unmap(mem, &from);
  return copy;
}

static GstMemory* memory_copy(GstMemory* mem, gssize offset, gssize size) {
  GstCudaFrameMemory* self = as_frame_memory(mem);
  const gsize start = mem->offset + (offset > 0 ? static_cast<gsize>(offset) : 0);
  const gsize length = size < 0 ? mem->size - static_cast<gsize>(offset) : static_cast<gsize>(size);
  const bool whole = start == 0 && length == mem->maxsize;
  if (self->frame->kind() == MemoryKind::pinned_host || !whole) {
    return copy_on_cpu(mem, static_cast<gsize>(offset), length);
  }
  Transfer* transfer = transfer_of(self);
  if (!transfer) return nullptr;
  Result<FramePtr> copy = transfer->duplicate(*self->frame, *self->frame->policy());
  if (!copy) {
    gst_cuda_fence_succeeded(copy.status(), "copying a frame");
    return nullptr;
  }
  return gst_cuda_frame_memory_new(GST_CUDA_FRAME_ALLOCATOR(mem->allocator), std::move(*copy));
}

/// Part of a frame is no frame: whoever wants one gets a copy.
static GstMemory* memory_share(GstMemory*, gssize, gssize) {
  return nullptr;
}

static gboolean memory_is_span(GstMemory*, GstMemory*, gsize*) {
  return FALSE;
}

void gst_cuda_frame_memory_init_allocator(GstAllocator* allocator) {
  allocator->mem_type = GST_CUDA_FRAME_MEMORY_TYPE_NAME;
  allocator->mem_map_full = memory_map;
  allocator->mem_unmap_full = memory_unmap;
  allocator->mem_copy = memory_copy;
  allocator->mem_share = memory_share;
  allocator->mem_is_span = memory_is_span;
  GST_OBJECT_FLAG_SET(allocator, GST_ALLOCATOR_FLAG_CUSTOM_ALLOC);
}

GstMemory* gst_cuda_frame_memory_new(GstCudaFrameAllocator* allocator, FramePtr frame) {
  auto* self = new GstCudaFrameMemory{};
  const gsize bytes = frame->layout().bytes;
  gst_memory_init(&self->parent, static_cast<GstMemoryFlags>(0), GST_ALLOCATOR(allocator), nullptr,
                  bytes, 255, 0, bytes);
  self->frame = std::move(frame);
  return &self->parent;
}

void gst_cuda_frame_memory_free(GstMemory* mem) {
  delete as_frame_memory(mem);
}

// --- Public verbs ------------------------------------------------------------------------------

Frame* gst_cuda_frame_memory_get_frame(GstMemory* mem) {
  return is_frame_memory(mem) ? as_frame_memory(mem)->frame.get() : nullptr;
}

gboolean gst_is_cuda_frame_memory(GstMemory* mem) {
  const Frame* frame = gst_cuda_frame_memory_get_frame(mem);
  return frame && frame->kind() == MemoryKind::device;
}

gboolean gst_cuda_frame_memory_wait(GstMemory* mem, CUstream stream) {
  g_return_val_if_fail(gst_is_cuda_frame_memory(mem), FALSE);
  return gst_cuda_fence_succeeded(as_frame_memory(mem)->frame->fence().wait(stream),
                                  "waiting for a frame");
}

gboolean gst_cuda_frame_memory_wait_to_write(GstMemory* mem, CUstream stream) {
  g_return_val_if_fail(gst_is_cuda_frame_memory(mem), FALSE);
  return gst_cuda_fence_succeeded(as_frame_memory(mem)->frame->fence().wait_to_write(stream),
                                  "waiting to write a frame");
}

gboolean gst_cuda_frame_memory_synchronize(GstMemory* mem) {
  g_return_val_if_fail(gst_is_cuda_frame_memory(mem), FALSE);
  return gst_cuda_fence_succeeded(as_frame_memory(mem)->frame->fence().synchronize(),
                                  "waiting for a frame");
}

gboolean gst_cuda_frame_memory_is_ready(GstMemory* mem) {
  g_return_val_if_fail(gst_is_cuda_frame_memory(mem), FALSE);
  return gst_cuda_fence_is_ready(as_frame_memory(mem)->frame->fence());
}

gboolean gst_cuda_frame_memory_record_stream(GstMemory* mem, CUstream stream) {
  g_return_val_if_fail(gst_is_cuda_frame_memory(mem), FALSE);
  return gst_cuda_fence_record_stream(as_frame_memory(mem)->frame->fence(), stream);
}

gboolean gst_cuda_frame_memory_add_reader(GstMemory* mem, CUevent event) {
  g_return_val_if_fail(gst_is_cuda_frame_memory(mem), FALSE);
  return gst_cuda_fence_add_reader(as_frame_memory(mem)->frame->fence(), event);
}

gboolean gst_cuda_frame_memory_record_write(GstMemory* mem, CUstream stream) {
  g_return_val_if_fail(gst_is_cuda_frame_memory(mem), FALSE);
  GstCudaFrameMemory* self = as_frame_memory(mem);
  if (!gst_cuda_fence_record_write(self->frame->fence(), stream)) return FALSE;
  MutexLock lock(self->mutex);
  self->host.reset();
  return TRUE;
}

guint gst_cuda_frame_memory_get_n_planes(GstMemory* mem) {
  g_return_val_if_fail(gst_is_cuda_frame_memory(mem), 0);
  return static_cast<guint>(as_frame_memory(mem)->frame->layout().plane_count);
}

gboolean gst_cuda_frame_memory_get_plane(GstMemory* mem, guint plane, CUdeviceptr* address,
                                         gsize* pitch) {
  g_return_val_if_fail(gst_is_cuda_frame_memory(mem), FALSE);
  const Frame& frame = *as_frame_memory(mem)->frame;
  if (plane >= static_cast<guint>(frame.layout().plane_count)) return FALSE;
  const int index = static_cast<int>(plane);
  if (address) *address = frame.device_address(index);
  if (pitch) *pitch = frame.layout().planes[plane].pitch;
  return TRUE;
}

gint gst_cuda_frame_memory_get_device_id(GstMemory* mem) {
  g_return_val_if_fail(gst_is_cuda_frame_memory(mem), -1);
  return as_frame_memory(mem)->frame->context().ordinal();
}

CUcontext gst_cuda_frame_memory_get_context(GstMemory* mem) {
  g_return_val_if_fail(gst_is_cuda_frame_memory(mem), nullptr);
  return as_frame_memory(mem)->frame->context().handle();
}

CUstream gst_cuda_frame_memory_get_writer_stream(GstMemory* mem) {
  g_return_val_if_fail(gst_is_cuda_frame_memory(mem), nullptr);
  return as_frame_memory(mem)->frame->fence().writer()->handle();
}
