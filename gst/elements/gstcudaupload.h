// SPDX-License-Identifier: LGPL-2.1-or-later
// From anybody's system memory to pinned memory, which the device can copy from asynchronously.
#pragma once

#include <gst/video/video.h>

#include "base/result.h"
#include "memory/memory_policy.h"

/// The picture that `info` describes, rows as `layout` (of `info`) has them, in a frame of `pool`
/// that `stream` reads next. Honours the buffer's video meta. The CPU copies, and waits for
/// `pool`'s earlier uploads where all of them are under way. bad_data: the buffer holds no such
/// picture.
cudaframe::Result<cudaframe::memory::FramePtr> gst_cuda_copy_to_pinned(
    GstBuffer* buffer, const GstVideoInfo& info, const cudaframe::memory::FrameLayout& layout,
    cudaframe::memory::MemoryPolicy& pool, const cudaframe::cuda::StreamPtr& stream);
