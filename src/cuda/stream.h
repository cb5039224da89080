// SPDX-License-Identifier: LGPL-2.1-or-later
// CUDA streams as shared objects: identity is the object, because the driver recycles handles.
#pragma once

#include <memory>

#include "base/result.h"
#include "cuda/context.h"

namespace cudaframe::cuda {

class Stream;
using StreamPtr = std::shared_ptr<Stream>;

/// Thread-safe. Two pointers to one Stream mean the same queue; two Streams never count as the
/// same, even if their handles are equal.
class Stream {
 public:
  /// A new non-blocking stream. Destroyed with the last reference, which is legal with work queued.
  static Result<StreamPtr> create(Context& context);

  /// A stream that somebody else owns and that must outlive this object and all its uses.
  /// `handle` may be CU_STREAM_LEGACY; the per-thread default stream (2) is refused: it names
  /// another queue on each thread.
  static Result<StreamPtr> wrap(Context& context, CUstream handle);

  ~Stream();
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  Context& context() const noexcept { return context_; }
  CUstream handle() const noexcept { return handle_; }

 private:
  Stream(Context& context, CUstream handle, bool owned)
      : context_(context), handle_(handle), owned_(owned) {}

  Context& context_;
  const CUstream handle_;
  const bool owned_;
};

}  // namespace cudaframe::cuda
