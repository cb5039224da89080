// SPDX-License-Identifier: LGPL-2.1-or-later
// At most N frames of the current layout exist; the next writer waits for the last readers.
#pragma once

#include <vector>

#include "memory/memory_policy.h"

namespace cudaframe::memory {

/// A released block is back at once, with its readers' events, and the stream that writes it next
/// waits for them on the device. The host waits only while all N frames are referenced.
class BoundedPoolPolicy final : public MemoryPolicy {
 public:
  BoundedPoolPolicy(cuda::Context& context, MemoryKind kind, PolicyConfig config);
  ~BoundedPoolPolicy() override;

 private:
  Choice choose(std::size_t bytes, bool bounded, bool may_create) REQUIRES(mutex_) override;
  void put_back(BlockPtr block) REQUIRES(mutex_) override;
  std::vector<BlockPtr> take_cached() REQUIRES(mutex_) override;
  void poll() REQUIRES(mutex_) override;
  std::size_t count_pending() const REQUIRES(mutex_) override;

  std::size_t bound(std::size_t bytes) const REQUIRES(mutex_);
  void retire_other_sizes(std::size_t bytes) REQUIRES(mutex_);

  std::vector<BlockPtr> free_ GUARDED_BY(mutex_);  ///< Oldest release first.
};

}  // namespace cudaframe::memory
