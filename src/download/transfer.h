// SPDX-License-Identifier: LGPL-2.1-or-later
// Brings frames to pinned host memory and back, for readers and writers on the CPU.
#pragma once

#include <memory>

#include "cuda/stream.h"
#include "memory/frame.h"
#include "memory/memory_policy.h"

namespace cudaframe::download {

/// Has a stream and a cache of pinned memory of its own. Thread-safe.
class Transfer {
 public:
  static Result<std::unique_ptr<Transfer>> create(cuda::Context& context);
  ~Transfer();

  /// Stream: this object's, which waits for the frame's last write, on the device. Returns before
  /// the copy is done: synchronize() on the returned frame's fence. Same layout as `frame`.
  Result<memory::FramePtr> download(const memory::Frame& frame);

  /// Stream: this object's, which waits for the frame's last write and all its readers. Returns
  /// before the copy is done; the copy is the frame's last write from then on. `host` came from
  /// download() and must not be written before that write is done.
  Status upload(const memory::Frame& host, const memory::Frame& frame);

  /// Stream: this object's. A new frame of `policy`, outside its bound, with the same picture.
  Result<memory::FramePtr> duplicate(const memory::Frame& frame, memory::MemoryPolicy& policy);

 private:
  Transfer(cuda::Context& context, cuda::StreamPtr stream);

  Status copy_and_mark(const memory::Frame& to, const memory::Frame& from);

  cuda::Context& context_;
  const cuda::StreamPtr stream_;
  const std::shared_ptr<memory::MemoryPolicy> pinned_;
};

}  // namespace cudaframe::download
