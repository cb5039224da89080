/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Which device the elements of a pipeline share, as a GstContext. */
#pragma once

#include <cuda.h>
#include <gst/cudaframe/gstcudaframe-prelude.h>

G_BEGIN_DECLS

/**
 * GST_CUDA_FRAME_CONTEXT_TYPE:
 *
 * Type of the persistent #GstContext that makes elements with `cuda-device-id` -1 use one device.
 * An application that wants another device than the first sets it on the pipeline.
 */
#define GST_CUDA_FRAME_CONTEXT_TYPE "gst.cudaframe.context"

/** gst_context_new_cuda_frame: (transfer full): a context that names @device_id (from 0). */
GST_CUDA_FRAME_API GstContext* gst_context_new_cuda_frame(gint device_id);

/** gst_context_get_cuda_frame: %FALSE when @context is of another type. */
GST_CUDA_FRAME_API gboolean gst_context_get_cuda_frame(GstContext* context, gint* device_id);

/**
 * gst_cuda_frame_ensure_device:
 * @device_id: (inout): -1 to be found; any other value stays
 *
 * For elements, in NULL to READY: settles which device to use. Asks the neighbours, then the
 * application, and takes device 0 when nobody says anything; tells the pipeline what it took.
 */
GST_CUDA_FRAME_API void gst_cuda_frame_ensure_device(GstElement* element, gint* device_id);

/**
 * gst_cuda_frame_handle_set_context:
 * @device_id: (inout): set when @context names a device and it is -1
 */
GST_CUDA_FRAME_API gboolean gst_cuda_frame_handle_set_context(GstContext* context, gint* device_id);

/** gst_cuda_frame_handle_context_query: %TRUE when @query was answered with @device_id. */
GST_CUDA_FRAME_API gboolean gst_cuda_frame_handle_context_query(GstQuery* query, gint device_id);

G_END_DECLS
