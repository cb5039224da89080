// SPDX-License-Identifier: LGPL-2.1-or-later
// The writer never waits: a released block is withheld until its readers are done.
#pragma once

#include <deque>
#include <list>
#include <map>
#include <vector>

#include "memory/memory_policy.h"

namespace cudaframe::memory {

/// Readers' events are polled when a frame is asked for, in one FIFO per stream, so that a slow
/// stream holds up nobody else's blocks. At `max_bytes` the oldest released block is taken, and
/// the writer's stream waits for its readers; with none released, as the bounded pool does.
class RecordStreamPolicy final : public MemoryPolicy {
 public:
  RecordStreamPolicy(cuda::Context& context, MemoryKind kind, PolicyConfig config);
  ~RecordStreamPolicy() override;

 private:
  /// A block that came back while `readers_left` of its readers were not known to be done.
  struct Withheld {
    BlockPtr block;
    std::size_t readers_left;
  };
  using WithheldList = std::list<Withheld>;  // stable addresses for the queues
  struct QueueEntry {
    cuda::EventPtr done;
    WithheldList::iterator withheld;
  };

  Choice choose(std::size_t bytes, bool bounded, bool may_create) REQUIRES(mutex_) override;
  void put_back(BlockPtr block) REQUIRES(mutex_) override;
  std::vector<BlockPtr> take_cached() REQUIRES(mutex_) override;
  void poll() REQUIRES(mutex_) override;
  std::size_t count_pending() const REQUIRES(mutex_) override;

  Choice choose_at_cap(std::size_t bytes) REQUIRES(mutex_);
  BlockPtr take_withheld(WithheldList::iterator withheld) REQUIRES(mutex_);
  void cache(BlockPtr block) REQUIRES(mutex_);
  void retire_other_sizes(std::size_t bytes) REQUIRES(mutex_);
  bool fits(std::size_t bytes) const REQUIRES(mutex_);

  std::vector<BlockPtr> free_ GUARDED_BY(mutex_);  ///< Past their readers; last in, first out.
  WithheldList withheld_ GUARDED_BY(mutex_);       ///< Oldest release first.
  /// Keyed by the Stream, or by the event where nobody knows the stream.
  std::map<const void*, std::deque<QueueEntry>> queues_ GUARDED_BY(mutex_);
};

}  // namespace cudaframe::memory
