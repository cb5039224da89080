/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The allocator of frames, for applications that make and fill frames themselves. */
#pragma once

#include <cuda.h>
#include <gst/cudaframe/gstcudaframe-prelude.h>
#include <gst/video/video.h>

G_BEGIN_DECLS

#define GST_TYPE_CUDA_FRAME_ALLOCATOR (gst_cuda_frame_allocator_get_type())
GST_CUDA_FRAME_API
G_DECLARE_FINAL_TYPE(GstCudaFrameAllocator, gst_cuda_frame_allocator, GST, CUDA_FRAME_ALLOCATOR,
                     GstAllocator)

/**
 * gst_cuda_frame_allocator_new:
 * @device_id: CUDA's number of the device, or -1 for the first
 * @max_frames: bound of the bounded pool; ignored by record-stream
 * @max_bytes: bound in bytes of all memory; 0 for none
 * @error: (out) (optional): GST_RESOURCE_ERROR; names what is missing, such as the driver
 *
 * Returns: (transfer full) (nullable): an allocator whose frames may outlive it.
 */
GST_CUDA_FRAME_API GstCudaFrameAllocator* gst_cuda_frame_allocator_new(
    gint device_id, GstCudaFrameReusePolicy policy, guint max_frames, guint64 max_bytes,
    GError** error);

/**
 * gst_cuda_frame_allocator_alloc:
 * @info: format and size; the layout is the allocator's own (see gst_cuda_frame_memory_get_plane())
 * @stream: the stream that will write the frame first; it waits, on the device, for whoever still
 *     reads the memory
 *
 * Blocks the host only while the bound is reached and all frames are referenced, until one comes
 * back or gst_cuda_frame_allocator_set_flushing(). Thread-safe.
 *
 * Returns: (transfer full) (nullable): a buffer with one memory, #GstVideoMeta and
 * #GstCudaEventMeta. %NULL when flushing, out of memory, or for a format that is not supported.
 */
GST_CUDA_FRAME_API GstBuffer* gst_cuda_frame_allocator_alloc(GstCudaFrameAllocator* allocator,
                                                             const GstVideoInfo* info,
                                                             CUstream stream);

/** gst_cuda_frame_allocator_set_flushing: while set, allocations fail, and waiting ones wake up. */
GST_CUDA_FRAME_API void gst_cuda_frame_allocator_set_flushing(GstCudaFrameAllocator* allocator,
                                                              gboolean flushing);

/**
 * gst_cuda_frame_allocator_get_stats:
 *
 * Returns: (transfer full): a structure `cudaframe-stats` with the fields `frames`, `bytes`,
 * `peak-bytes`, `old-layout-bytes`, `blocks-created`, `blocks-reused`, `over-bound`, `host-waits`,
 * `host-wait-time` (ns) as guint64, and `in-flight`, `peak-in-flight` (frames that are referenced,
 * or whose readers are not done) as guint.
 */
GST_CUDA_FRAME_API GstStructure* gst_cuda_frame_allocator_get_stats(
    GstCudaFrameAllocator* allocator);

G_END_DECLS
