// SPDX-License-Identifier: LGPL-2.1-or-later
// What the plugin needs of the library beyond its C API. Not installed.
#pragma once

#include <memory>

#include "gst/cudaframe/cudaframe.h"
#include "memory/frame.h"
#include "memory/memory_policy.h"

/// (transfer full): frames of `policy`, which is device or pinned host memory. Pinned host frames
/// are plain CPU memory to everybody; mapping one waits for its last write.
GstCudaFrameAllocator* gst_cuda_frame_allocator_new_from_policy(
    std::shared_ptr<cudaframe::memory::MemoryPolicy> policy);

cudaframe::memory::MemoryPolicy& gst_cuda_frame_allocator_get_policy(
    GstCudaFrameAllocator* allocator);

/// (transfer full): a buffer with one memory, GstVideoMeta, and on device frames GstCudaEventMeta.
/// `frame` came from the allocator's policy.
GstBuffer* gst_cuda_frame_allocator_wrap(GstCudaFrameAllocator* allocator,
                                         cudaframe::memory::FramePtr frame);

/// Null when `mem` is no frame of this library, device or pinned host.
cudaframe::memory::Frame* gst_cuda_frame_memory_get_frame(GstMemory* mem);

/// The library's table of pixel formats; false for a format that it doesn't have.
bool gst_cuda_frame_format_from_video(GstVideoFormat video, cudaframe::PixelFormat* format);
GstVideoFormat gst_cuda_frame_format_to_video(cudaframe::PixelFormat format);

/// (transfer full): see gst_cuda_frame_allocator_get_stats().
GstStructure* gst_cuda_frame_stats_new(const cudaframe::memory::PolicyStats& stats);
