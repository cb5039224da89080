// SPDX-License-Identifier: LGPL-2.1-or-later
// What orders the streams around one use of one block of memory: who wrote it, who still reads it.
#pragma once

#include <memory>
#include <vector>

#include "base/mutex.h"
#include "cuda/event.h"
#include "cuda/stream.h"

namespace cudaframe::memory {

/// Reads that were queued before `done` was recorded. `stream` is null when nobody knows it.
struct Reader {
  cuda::EventPtr done;
  cuda::StreamPtr stream;
};

/// What the next user of a block has to respect.
struct BlockHistory {
  cuda::StreamPtr last_writer;  ///< Null: never written.
  cuda::EventPtr ready;         ///< The last write. Null: never written.
  std::vector<Reader> readers;  ///< Reads after it, or older work when there was no write.
};

/// Each use of a block has its own fence, so that an old view never speaks of a later use.
/// Thread-safe. No call blocks the host but synchronize().
class Fence {
 public:
  /// `prior`: what must be done before anybody touches the block; `writer` waits for it already.
  Fence(cuda::Context& context, cuda::StreamPtr writer, std::vector<Reader> prior);

  /// Stream: `stream` waits for the last write. A no-op on the writer's own Stream.
  Status wait(const cuda::StreamPtr& stream) const;
  /// Stream: the same for a handle that somebody else owns; always waits.
  Status wait(CUstream stream) const;
  /// Stream: `stream` waits for the last write and for all reads: what a writer needs.
  Status wait_to_write(CUstream stream) const;
  /// Blocks the host until the last write is done.
  Status synchronize() const;
  /// Whether the last write is done. Never blocks.
  Result<bool> is_ready() const;

  /// Stream: a write has been queued on `stream`; what was recorded as `ready` before is replaced.
  /// Reads that wait_to_write() covered are forgotten.
  Status record_write(const cuda::StreamPtr& stream);
  /// Reads are, or will be, queued on `stream` before the last reference goes: an event is recorded
  /// there at that moment. A Stream that is recorded twice counts once.
  Status record_stream(cuda::StreamPtr stream);
  /// Reads were queued before `reader.done` was recorded.
  Status add_reader(Reader reader);

  cuda::Context& context() const noexcept { return context_; }

  /// The Stream of the last write, or the one that the block was acquired for.
  cuda::StreamPtr writer() const;

  /// The end of this use: records an event on each recorded stream and hands over what the next
  /// user must respect. Later calls on this fence fail. An error means that an event could not be
  /// recorded, and that the block must never be written again.
  Result<BlockHistory> close();

 private:
  Status check_open() const REQUIRES(mutex_);
  Result<Reader> record_now(const cuda::StreamPtr& stream) const;
  std::vector<cuda::EventPtr> events_to_wait(bool with_readers) const REQUIRES(mutex_);

  cuda::Context& context_;
  mutable Mutex mutex_;
  bool closed_ GUARDED_BY(mutex_) = false;
  cuda::StreamPtr writer_ GUARDED_BY(mutex_);
  cuda::EventPtr ready_ GUARDED_BY(mutex_);
  std::vector<Reader> prior_ GUARDED_BY(mutex_);
  std::vector<Reader> readers_ GUARDED_BY(mutex_);
  std::vector<cuda::StreamPtr> recorded_streams_ GUARDED_BY(mutex_);
};

}  // namespace cudaframe::memory
