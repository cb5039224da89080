// SPDX-License-Identifier: LGPL-2.1-or-later
// Asynchronous copies of whole pictures between device and pinned host memory.
#pragma once

#include "cuda/context.h"
#include "memory/frame.h"

namespace cudaframe::memory {

/// A picture somewhere: exactly one of the addresses is set, that of the allocation's first byte.
struct FrameView {
  FrameLayout layout;
  CUdeviceptr device = 0;
  std::byte* host = nullptr;

  static FrameView of(const Frame& frame);
};

/// Stream: queues the copy on `stream` and returns; both sides must live until it is done, and the
/// caller orders the stream before and records after it. Format and size must be equal. Rows are
/// copied without their padding. One driver call when the planes of both sides follow each other
/// in the same way, else one a plane. A pageable host side makes the driver wait: use pinned.
Status copy_async(cuda::Context& context, const FrameView& to, const FrameView& from,
                  CUstream stream);

}  // namespace cudaframe::memory
