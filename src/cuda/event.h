// SPDX-License-Identifier: LGPL-2.1-or-later
// CUDA events without timing, recycled: a frame costs no cuEventCreate in steady state.
#pragma once

#include <memory>
#include <vector>

#include "base/mutex.h"
#include "base/result.h"
#include "cuda/context.h"

namespace cudaframe::cuda {

class Event;
/// Shared by all who must wait for one point in a stream; back to its pool with the last of them.
using EventPtr = std::shared_ptr<Event>;

/// One recorded point in a stream. Recorded once, before it is shared; from then on thread-safe.
class Event {
 public:
  /// Takes over an event that the caller made and recorded in `context`, and destroys it at the
  /// end.
  static EventPtr adopt(Context& context, CUevent handle);

  ~Event();
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;

  CUevent handle() const noexcept { return handle_; }

  /// Stream: marks everything queued on `stream` so far. Returns at once.
  Status record(CUstream stream);
  /// Stream: what is queued on `stream` from now on starts after this event. Returns at once.
  Status make_stream_wait(CUstream stream) const;
  /// Blocks the host until the event is reached.
  Status synchronize() const;
  /// Whether the event has been reached. Never blocks.
  Result<bool> is_done() const;

 private:
  friend class EventPool;
  Event(Context& context, CUevent handle) : context_(context), handle_(handle) {}

  Context& context_;
  const CUevent handle_;
};

/// Thread-safe. One per context, with its lifetime; a returned event may still be pending: waits
/// that were queued on it stay bound to the record that they saw (CUDA driver API,
/// cuStreamWaitEvent).
class EventPool {
 public:
  explicit EventPool(Context& context) : context_(context) {}

  /// A fresh or recycled event, recorded on `stream`. Stream: marks what is queued there so far.
  Result<EventPtr> record(CUstream stream);

 private:
  void recycle(Event* event) noexcept;

  Context& context_;
  Mutex mutex_;
  std::vector<std::unique_ptr<Event>> idle_ GUARDED_BY(mutex_);
};

}  // namespace cudaframe::cuda
