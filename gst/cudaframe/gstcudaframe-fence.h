// SPDX-License-Identifier: LGPL-2.1-or-later
// The verbs of a fence in C terms, for the memory and for the meta. Not installed.
#pragma once

#include "memory/fence.h"

#include <glib.h>

/// False after logging why.
gboolean gst_cuda_fence_succeeded(const cudaframe::Status& status, const char* what);

gboolean gst_cuda_fence_is_ready(const cudaframe::memory::Fence& fence);
gboolean gst_cuda_fence_record_stream(cudaframe::memory::Fence& fence, CUstream stream);
gboolean gst_cuda_fence_record_write(cudaframe::memory::Fence& fence, CUstream stream);
/// Takes `event`, also on failure.
gboolean gst_cuda_fence_add_reader(cudaframe::memory::Fence& fence, CUevent event);
