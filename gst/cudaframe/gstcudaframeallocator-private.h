// SPDX-License-Identifier: LGPL-2.1-or-later
// The GstMemory behind a frame, shared by the allocator and the memory functions. Not installed.
#pragma once

#include <memory>

#include "base/mutex.h"
#include "download/transfer.h"
#include "gst/cudaframe/gstcudaframe-private.h"

struct GstCudaFrameMemory {
  GstMemory parent;

  cudaframe::memory::FramePtr frame;
  cudaframe::Mutex mutex;  ///< Held while a CPU map waits for its copy: taken before any other.
  /// What CPU maps see; null until the first one, and after a write on the device.
  std::shared_ptr<cudaframe::memory::Frame> host GUARDED_BY(mutex);
};

/// The allocator's transfer stream, made on first use. Null after logging why.
cudaframe::download::Transfer* gst_cuda_frame_allocator_get_transfer(
    GstCudaFrameAllocator* allocator);

/// (transfer full): a memory of `allocator` around `frame`.
GstMemory* gst_cuda_frame_memory_new(GstCudaFrameAllocator* allocator,
                                     cudaframe::memory::FramePtr frame);

/// Sets the GstAllocator's functions for GstCudaFrameMemory.
void gst_cuda_frame_memory_init_allocator(GstAllocator* allocator);
void gst_cuda_frame_memory_free(GstMemory* mem);
