/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The completion event of a frame as buffer meta. */
#pragma once

#include <cuda.h>
#include <gst/cudaframe/gstcudaframe-prelude.h>

G_BEGIN_DECLS

/**
 * GstCudaEventMeta:
 *
 * A view of the ordering of the frame in the buffer, the same that the gst_cuda_frame_memory_*
 * functions work on; those who handle metas need not look at the memory. It follows shallow copies
 * of the buffer and is dropped by deep ones (those are new memory). Calls on a meta whose memory
 * has gone back to its allocator fail. All functions are thread-safe.
 */
typedef struct {
  GstMeta meta;
  /*< private >*/
  gpointer fence;
} GstCudaEventMeta;

#define GST_CUDA_EVENT_META_API_TYPE (gst_cuda_event_meta_api_get_type())
#define GST_CUDA_EVENT_META_INFO (gst_cuda_event_meta_get_info())

GST_CUDA_FRAME_API GType gst_cuda_event_meta_api_get_type(void);
GST_CUDA_FRAME_API const GstMetaInfo* gst_cuda_event_meta_get_info(void);

/** gst_buffer_get_cuda_event_meta: (transfer none) (nullable). */
GST_CUDA_FRAME_API GstCudaEventMeta* gst_buffer_get_cuda_event_meta(GstBuffer* buffer);

/**
 * gst_buffer_add_cuda_event_meta:
 *
 * For buffers that are put together by hand around a frame of this library.
 *
 * Returns: (transfer none) (nullable): %NULL when @mem is no such frame.
 */
GST_CUDA_FRAME_API GstCudaEventMeta* gst_buffer_add_cuda_event_meta(GstBuffer* buffer,
                                                                    GstMemory* mem);

/** gst_cuda_event_meta_wait: see gst_cuda_frame_memory_wait(). */
GST_CUDA_FRAME_API gboolean gst_cuda_event_meta_wait(GstCudaEventMeta* meta, CUstream stream);
/** gst_cuda_event_meta_synchronize: see gst_cuda_frame_memory_synchronize(). */
GST_CUDA_FRAME_API gboolean gst_cuda_event_meta_synchronize(GstCudaEventMeta* meta);
/** gst_cuda_event_meta_is_ready: see gst_cuda_frame_memory_is_ready(). */
GST_CUDA_FRAME_API gboolean gst_cuda_event_meta_is_ready(GstCudaEventMeta* meta);
/** gst_cuda_event_meta_record_stream: see gst_cuda_frame_memory_record_stream(). */
GST_CUDA_FRAME_API gboolean gst_cuda_event_meta_record_stream(GstCudaEventMeta* meta,
                                                              CUstream stream);
/** gst_cuda_event_meta_add_reader: see gst_cuda_frame_memory_add_reader(). */
GST_CUDA_FRAME_API gboolean gst_cuda_event_meta_add_reader(GstCudaEventMeta* meta, CUevent event);

G_END_DECLS
