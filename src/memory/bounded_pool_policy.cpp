// SPDX-License-Identifier: LGPL-2.1-or-later
#include "memory/bounded_pool_policy.h"

#include <algorithm>

namespace cudaframe::memory {
namespace {

/// Forgets readers that are done. A failing query leaves the reader, and the stream's wait to fail.
void drop_done_readers(Block& block) {
  std::erase_if(block.history.readers, [](const Reader& reader) {
    const Result<bool> done = reader.done->is_done();
    return done.ok() && *done;
  });
}

}  // namespace

BoundedPoolPolicy::BoundedPoolPolicy(cuda::Context& context, MemoryKind kind, PolicyConfig config)
    : MemoryPolicy(context, kind, std::move(config)) {}

BoundedPoolPolicy::~BoundedPoolPolicy() {
  shut_down();
}

std::size_t BoundedPoolPolicy::bound(std::size_t bytes) const {
  if (config_.max_bytes == 0) return config_.max_frames;
  return std::min(config_.max_frames, config_.max_bytes / bytes);
}

void BoundedPoolPolicy::retire_other_sizes(std::size_t bytes) {
  for (BlockPtr& block : free_) {
    if (block->bytes != bytes) retire(std::move(block));
  }
  std::erase(free_, nullptr);
}

MemoryPolicy::Choice BoundedPoolPolicy::choose(std::size_t bytes, bool bounded, bool may_create) {
  using Action = Choice::Action;
  retire_other_sizes(bytes);
  poll();
  // A block that nobody reads any more costs no wait; one stream's backlog holds up no other's.
  auto best = std::find_if(free_.begin(), free_.end(),
                           [](const BlockPtr& block) { return block->history.readers.empty(); });
  const bool below_bound = live(bytes) < bound(bytes);
  if (best == free_.end() && may_create && (below_bound || !bounded)) {
    if (!below_bound) ++stats_.over_bound;
    return {.action = Action::create};
  }
  if (best == free_.end()) best = free_.begin();
  if (best == free_.end()) return {.action = Action::wait};
  Choice choice{.action = Action::reuse, .block = std::move(*best)};
  free_.erase(best);
  return choice;
}

void BoundedPoolPolicy::put_back(BlockPtr block) {
  if (block->bytes != current_bytes_ || live(block->bytes) > bound(block->bytes)) {
    retire(std::move(block));
  } else {
    free_.push_back(std::move(block));
  }
}

std::vector<BlockPtr> BoundedPoolPolicy::take_cached() {
  std::vector<BlockPtr> blocks;
  blocks.swap(free_);
  return blocks;
}

void BoundedPoolPolicy::poll() {
  for (const BlockPtr& block : free_) drop_done_readers(*block);
}

std::size_t BoundedPoolPolicy::count_pending() const {
  return static_cast<std::size_t>(
      std::count_if(free_.begin(), free_.end(),
                    [](const BlockPtr& block) { return !block->history.readers.empty(); }));
}

}  // namespace cudaframe::memory
