// SPDX-License-Identifier: LGPL-2.1-or-later
#include "memory/record_stream_policy.h"

#include <algorithm>

namespace cudaframe::memory {

RecordStreamPolicy::RecordStreamPolicy(cuda::Context& context, MemoryKind kind, PolicyConfig config)
    : MemoryPolicy(context, kind, std::move(config)) {}

RecordStreamPolicy::~RecordStreamPolicy() {
  shut_down();
}

bool RecordStreamPolicy::fits(std::size_t bytes) const {
  return config_.max_bytes == 0 || stats_.bytes + bytes <= config_.max_bytes;
}

void RecordStreamPolicy::retire_other_sizes(std::size_t bytes) {
  for (BlockPtr& block : free_) {
    if (block->bytes != bytes) retire(std::move(block));
  }
  std::erase(free_, nullptr);
}

MemoryPolicy::Choice RecordStreamPolicy::choose(std::size_t bytes, bool bounded, bool may_create) {
  using Action = Choice::Action;
  poll();
  retire_other_sizes(bytes);
  if (!free_.empty()) {
    Choice choice{.action = Action::reuse, .block = std::move(free_.back())};
    free_.pop_back();
    return choice;
  }
  if (!may_create) return {.action = Action::fail};
  if (fits(bytes)) return {.action = Action::create};
  if (!bounded) {
    ++stats_.over_bound;
    return {.action = Action::create, .evict = take_retired()};
  }
  return choose_at_cap(bytes);
}

MemoryPolicy::Choice RecordStreamPolicy::choose_at_cap(std::size_t bytes) {
  using Action = Choice::Action;
  const auto same_size =
      std::find_if(withheld_.begin(), withheld_.end(),
                   [&](const Withheld& withheld) { return withheld.block->bytes == bytes; });
  if (same_size != withheld_.end()) {
    return {.action = Action::reuse, .block = take_withheld(same_size)};
  }
  // Only blocks of earlier layouts are left to give: their memory has to be freed, which waits.
  while (!withheld_.empty()) retire(take_withheld(withheld_.begin()));
  if (stats_.bytes - retired_bytes() + bytes > config_.max_bytes) return {.action = Action::wait};
  return {.action = Action::create, .evict = take_retired()};
}

void RecordStreamPolicy::put_back(BlockPtr block) {
  if (block->history.readers.empty()) {
    cache(std::move(block));
    return;
  }
  const std::vector<Reader>& readers = block->history.readers;
  const auto withheld = withheld_.insert(withheld_.end(), {nullptr, readers.size()});
  for (const Reader& reader : readers) {
    const void* key = reader.stream ? static_cast<const void*>(reader.stream.get())
                                    : static_cast<const void*>(reader.done.get());
    queues_[key].push_back({reader.done, withheld});
  }
  withheld->block = std::move(block);
}

void RecordStreamPolicy::poll() {
  for (auto queue = queues_.begin(); queue != queues_.end();) {
    std::deque<QueueEntry>& entries = queue->second;
    while (!entries.empty()) {
      // A failing query counts as not done: the block stays withheld.
      const Result<bool> done = entries.front().done->is_done();
      if (!done.ok() || !*done) break;
      const WithheldList::iterator withheld = entries.front().withheld;
      entries.pop_front();
      if (--withheld->readers_left > 0) continue;
      BlockPtr block = std::move(withheld->block);
      withheld_.erase(withheld);
      block->history.readers.clear();
      cache(std::move(block));
    }
    queue = entries.empty() ? queues_.erase(queue) : std::next(queue);
  }
}

BlockPtr RecordStreamPolicy::take_withheld(WithheldList::iterator withheld) {
  for (auto queue = queues_.begin(); queue != queues_.end();) {
    std::erase_if(queue->second,
                  [&](const QueueEntry& entry) { return entry.withheld == withheld; });
    queue = queue->second.empty() ? queues_.erase(queue) : std::next(queue);
  }
  BlockPtr block = std::move(withheld->block);
  withheld_.erase(withheld);
  return block;
}

void RecordStreamPolicy::cache(BlockPtr block) {
  if (block->bytes == current_bytes_) {
    free_.push_back(std::move(block));
  } else {
    retire(std::move(block));
  }
}

std::vector<BlockPtr> RecordStreamPolicy::take_cached() {
  std::vector<BlockPtr> blocks;
  blocks.swap(free_);
  queues_.clear();
  for (Withheld& withheld : withheld_) blocks.push_back(std::move(withheld.block));
  withheld_.clear();
  return blocks;
}

std::size_t RecordStreamPolicy::count_pending() const {
  return withheld_.size();
}

}  // namespace cudaframe::memory
