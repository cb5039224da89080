/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Export macro and the names that caps and maps use. */
#pragma once

#include <gst/gst.h>

#ifndef GST_CUDA_FRAME_API
#ifdef BUILDING_GST_CUDA_FRAME
#define GST_CUDA_FRAME_API __attribute__((visibility("default"))) extern
#else
#define GST_CUDA_FRAME_API extern
#endif
#endif

G_BEGIN_DECLS

/**
 * GST_CAPS_FEATURE_MEMORY_CUDA_FRAME:
 *
 * Caps feature of video whose buffers hold one #GstMemory made by #GstCudaFrameAllocator: device
 * memory with the events that order its readers and writers. Not `memory:CUDAMemory`, which
 * promises a GstCudaMemory of GStreamer's libgstcuda.
 */
#define GST_CAPS_FEATURE_MEMORY_CUDA_FRAME "memory:CUDAFrame"

/**
 * GST_MAP_CUDA_FRAME:
 *
 * Map flag: gst_memory_map() gives the device address (a CUdeviceptr) in place of a CPU address,
 * and waits for nothing. Order your stream with gst_cuda_frame_memory_wait() first.
 */
#define GST_MAP_CUDA_FRAME ((GstMapFlags)(GST_MAP_FLAG_LAST << 1))

/**
 * GstCudaFrameReusePolicy:
 * @GST_CUDA_FRAME_REUSE_RECORD_STREAM: memory that somebody still reads is withheld from reuse; the
 *     writer never waits, and memory grows with how far readers lag behind.
 * @GST_CUDA_FRAME_REUSE_BOUNDED_POOL: at most a fixed number of frames exist; the writer's stream
 *     waits, on the device, for the readers of the frame that it takes.
 *
 * When the memory of a frame that has been dropped may be written again.
 */
typedef enum {
  GST_CUDA_FRAME_REUSE_RECORD_STREAM,
  GST_CUDA_FRAME_REUSE_BOUNDED_POOL,
} GstCudaFrameReusePolicy;

#define GST_TYPE_CUDA_FRAME_REUSE_POLICY (gst_cuda_frame_reuse_policy_get_type())
GST_CUDA_FRAME_API GType gst_cuda_frame_reuse_policy_get_type(void);

G_END_DECLS
