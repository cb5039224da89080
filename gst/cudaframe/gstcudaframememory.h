/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Frames in CUDA memory as GstMemory: who wrote them, who reads them, where the planes are. */
#pragma once

#include <cuda.h>
#include <gst/cudaframe/gstcudaframe-prelude.h>

G_BEGIN_DECLS

/**
 * SECTION:gstcudaframememory
 *
 * Every function here is thread-safe and takes any #GstMemory for which gst_is_cuda_frame_memory()
 * is true. Those that return a #gboolean return %FALSE when the driver refused, and log why in the
 * debug category `cudaframe`. None waits on the host but gst_cuda_frame_memory_synchronize().
 * A CUstream or CUevent must belong to the frame's context (the device's primary context).
 */

#define GST_CUDA_FRAME_MEMORY_TYPE_NAME "CUDAFrameMemory"

/** gst_is_cuda_frame_memory: whether @mem is a frame of this library in device memory. */
GST_CUDA_FRAME_API gboolean gst_is_cuda_frame_memory(GstMemory* mem);

/**
 * gst_cuda_frame_memory_wait:
 *
 * What is queued on @stream from now on starts after the frame's last write. Device-side; returns
 * at once. Do this before the first read on each stream.
 */
GST_CUDA_FRAME_API gboolean gst_cuda_frame_memory_wait(GstMemory* mem, CUstream stream);

/**
 * gst_cuda_frame_memory_wait_to_write:
 *
 * As gst_cuda_frame_memory_wait(), and after all reads that were recorded too. Do this before
 * writing into a frame that others may have read, then gst_cuda_frame_memory_record_write().
 */
GST_CUDA_FRAME_API gboolean gst_cuda_frame_memory_wait_to_write(GstMemory* mem, CUstream stream);

/** gst_cuda_frame_memory_synchronize: blocks the host until the frame's last write is done. */
GST_CUDA_FRAME_API gboolean gst_cuda_frame_memory_synchronize(GstMemory* mem);

/** gst_cuda_frame_memory_is_ready: whether the frame's last write is done. Never blocks. */
GST_CUDA_FRAME_API gboolean gst_cuda_frame_memory_is_ready(GstMemory* mem);

/**
 * gst_cuda_frame_memory_record_stream:
 *
 * Reads of this frame are, or will be, queued on @stream before the caller drops it. When the last
 * reference goes, an event is recorded on @stream, and the memory is not written again before that
 * event. @stream must outlive the last reference, wherever that is held (a `tee`, a queue): if that
 * can't be promised, use gst_cuda_frame_memory_add_reader().
 */
GST_CUDA_FRAME_API gboolean gst_cuda_frame_memory_record_stream(GstMemory* mem, CUstream stream);

/**
 * gst_cuda_frame_memory_add_reader:
 * @event: (transfer full): recorded once, right after the caller's last read; made with
 *     CU_EVENT_DISABLE_TIMING for speed. The library destroys it, also when this fails.
 *
 * The memory is not written again before @event.
 */
GST_CUDA_FRAME_API gboolean gst_cuda_frame_memory_add_reader(GstMemory* mem, CUevent event);

/**
 * gst_cuda_frame_memory_record_write:
 *
 * The caller has queued a write on @stream, after gst_cuda_frame_memory_wait_to_write() (on a fresh
 * frame: on the stream that it was allocated for). From now on readers wait for this write.
 */
GST_CUDA_FRAME_API gboolean gst_cuda_frame_memory_record_write(GstMemory* mem, CUstream stream);

/** gst_cuda_frame_memory_get_n_planes: number of planes; 2 for NV12. */
GST_CUDA_FRAME_API guint gst_cuda_frame_memory_get_n_planes(GstMemory* mem);

/**
 * gst_cuda_frame_memory_get_plane:
 * @address: (out) (optional): device address of the plane's first row
 * @pitch: (out) (optional): bytes from one row to the next
 *
 * %FALSE when there is no plane @plane.
 */
GST_CUDA_FRAME_API gboolean gst_cuda_frame_memory_get_plane(GstMemory* mem, guint plane,
                                                            CUdeviceptr* address, gsize* pitch);

/** gst_cuda_frame_memory_get_device_id: CUDA's number of the device, from 0. */
GST_CUDA_FRAME_API gint gst_cuda_frame_memory_get_device_id(GstMemory* mem);

/** gst_cuda_frame_memory_get_context: (transfer none): the device's primary context. */
GST_CUDA_FRAME_API CUcontext gst_cuda_frame_memory_get_context(GstMemory* mem);

/**
 * gst_cuda_frame_memory_get_writer_stream: (transfer none): the stream of the last write. Valid as
 * long as @mem and the element that wrote it; to be compared or waited on, not to be kept.
 */
GST_CUDA_FRAME_API CUstream gst_cuda_frame_memory_get_writer_stream(GstMemory* mem);

G_END_DECLS
