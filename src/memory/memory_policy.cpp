// SPDX-License-Identifier: LGPL-2.1-or-later
#include "memory/memory_policy.h"

#include <algorithm>

#include "base/log.h"
#include "memory/bounded_pool_policy.h"
#include "memory/record_stream_policy.h"

namespace cudaframe::memory {

namespace {

using Clock = std::chrono::steady_clock;

Status flushing_status() {
  return Status(StatusCode::flushing, "the allocator is flushing");
}

}  // namespace

std::shared_ptr<MemoryPolicy> MemoryPolicy::create(ReusePolicy policy, cuda::Context& context,
                                                   MemoryKind kind, PolicyConfig config) {
  config.max_frames = std::max<std::size_t>(config.max_frames, 1);
  if (policy == ReusePolicy::record_stream) {
    return std::make_shared<RecordStreamPolicy>(context, kind, std::move(config));
  }
  return std::make_shared<BoundedPoolPolicy>(context, kind, std::move(config));
}

MemoryPolicy::MemoryPolicy(cuda::Context& context, MemoryKind kind, PolicyConfig config)
    : context_(context), kind_(kind), config_(std::move(config)) {}

MemoryPolicy::~MemoryPolicy() {
  std::vector<BlockPtr> blocks;
  {
    MutexLock lock(mutex_);
    blocks = std::move(retired_);
    for (BlockPtr& block : abandoned_) blocks.push_back(std::move(block));
    abandoned_.clear();
  }
  free_all(std::move(blocks));
}

Result<FramePtr> MemoryPolicy::allocate(const FrameLayout& layout, const cuda::StreamPtr& writer,
                                        bool bounded) {
  Result<BlockPtr> block = acquire(layout.bytes, bounded);
  free_idle_retired();
  if (!block) return block.status();
  return make_frame(std::move(*block), layout, writer);
}

Result<BlockPtr> MemoryPolicy::acquire(std::size_t bytes, bool bounded) {
  bool may_create = true;
  Status no_memory;
  MutexLock lock(mutex_);
  while (true) {
    if (flushing_ || shut_down_) return flushing_status();
    if (config_.max_bytes != 0 && bytes > config_.max_bytes) {
      return Status(StatusCode::out_of_memory, "one frame takes " + std::to_string(bytes) +
                                                   " bytes, but max-bytes is " +
                                                   std::to_string(config_.max_bytes));
    }
    current_bytes_ = bytes;
    Choice choice = choose(bytes, bounded, may_create);
    if (choice.action == Choice::Action::fail) return no_memory;
    if (choice.action == Choice::Action::wait) {
      // Without memory for a first frame, waiting would never end.
      if (!may_create && referenced_ == 0) return no_memory;
      CUDAFRAME_TRY(wait_for_frame());
      continue;
    }
    account(choice, bytes);
    if (choice.action == Choice::Action::reuse) return std::move(choice.block);

    lock.unlock();
    Result<BlockPtr> created = create_block(bytes, std::move(choice.evict));
    lock.lock();
    if (created) {
      ++stats_.blocks_created;
      return created;
    }
    cancel(bytes);
    const bool again = may_create && created.status().code() == StatusCode::out_of_memory;
    if (!again) return created.status();
    no_memory = created.status();
    may_create = false;
  }
}

void MemoryPolicy::account(const Choice& choice, std::size_t bytes) {
  ++referenced_;
  ++stats_.frames;
  if (choice.action == Choice::Action::reuse) {
    ++stats_.blocks_reused;
  } else {
    for (const BlockPtr& evicted : choice.evict) stats_.bytes -= evicted->bytes;
    stats_.bytes += bytes;
    ++live_[bytes];
  }
  stats_.peak_bytes = std::max(stats_.peak_bytes, stats_.bytes);
  stats_.peak_in_flight = std::max(stats_.peak_in_flight, referenced_ + count_pending());
}

void MemoryPolicy::cancel(std::size_t bytes) {
  --referenced_;
  --stats_.frames;
  --live_[bytes];
  stats_.bytes -= bytes;
  ++returns_;
  returned_.notify_all();
}

Status MemoryPolicy::wait_for_frame() {
  // One wait: choose() is asked again after each wake-up, so a spurious one does no harm.
  const Clock::time_point begin = Clock::now();
  const Clock::time_point notice = begin + config_.stall_notice;
  const std::uint64_t returns = returns_;
  bool told = !config_.on_stall;
  ++stats_.host_waits;
  ++waiting_;
  while (!flushing_ && !shut_down_ && returns == returns_) {
    if (told) {
      returned_.wait(mutex_);
    } else if (!returned_.wait_until(mutex_, notice)) {
      told = true;
      const std::function<void()> on_stall = config_.on_stall;
      mutex_.unlock();
      on_stall();
      mutex_.lock();
    }
  }
  --waiting_;
  stats_.host_wait_ns += static_cast<std::uint64_t>(
      std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now() - begin).count());
  if (flushing_ || shut_down_) return flushing_status();
  return {};
}

Result<BlockPtr> MemoryPolicy::create_block(std::size_t bytes, std::vector<BlockPtr> evict) {
  free_all(std::move(evict));
  Result<BlockPtr> block = allocate_block(context_, kind_, bytes);
  if (block || block.status().code() != StatusCode::out_of_memory) return block;
  std::vector<BlockPtr> cached;
  {
    MutexLock lock(mutex_);
    cached = take_everything();
  }
  if (cached.empty()) return block;
  free_all(std::move(cached));
  return allocate_block(context_, kind_, bytes);
}

Result<FramePtr> MemoryPolicy::make_frame(BlockPtr block, const FrameLayout& layout,
                                          const cuda::StreamPtr& writer) {
  BlockHistory history = std::move(block->history);
  block->history = {};
  std::vector<Reader> prior = std::move(history.readers);
  // Note [Reuse on the writer's own stream]: its last write there is already in front of the next.
  if (history.ready && history.last_writer != writer) {
    prior.push_back({history.ready, history.last_writer});
  }
  Status status;
  for (const Reader& reader : prior) {
    if (reader.stream == writer) continue;
    status = reader.done->make_stream_wait(writer->handle());
    if (!status.ok()) break;
  }
  // The frame exists from here on, so that every way out gives the block back.
  if (history.ready && history.last_writer == writer) {
    prior.push_back({std::move(history.ready), writer});
  }
  auto fence = std::make_shared<Fence>(context_, writer, std::move(prior));
  auto frame =
      std::make_unique<Frame>(shared_from_this(), std::move(block), layout, std::move(fence));
  if (!status.ok()) return status;
  return frame;
}

void MemoryPolicy::release(BlockPtr block, Result<BlockHistory> history) noexcept {
  bool anything_retired = false;
  {
    MutexLock lock(mutex_);
    --referenced_;
    ++returns_;
    if (!history) {
      log(LogLevel::warning, "memory", "block is never used again: %s",
          history.status().dump().c_str());
      // Out of the counts as well: waiting for this memory would never end.
      --live_[block->bytes];
      stats_.bytes -= block->bytes;
      abandoned_.push_back(std::move(block));
    } else {
      block->history = std::move(*history);
      shut_down_ ? retire(std::move(block)) : put_back(std::move(block));
    }
    anything_retired = !retired_.empty();
    returned_.notify_all();
  }
  if (anything_retired) free_idle_retired();
}

void MemoryPolicy::set_flushing(bool flushing) {
  MutexLock lock(mutex_);
  flushing_ = flushing;
  returned_.notify_all();
}

void MemoryPolicy::set_max_frames(std::size_t max_frames) {
  MutexLock lock(mutex_);
  config_.max_frames = std::max<std::size_t>(max_frames, 1);
  ++returns_;
  returned_.notify_all();
}

void MemoryPolicy::shut_down() {
  std::vector<BlockPtr> blocks;
  {
    MutexLock lock(mutex_);
    shut_down_ = true;
    blocks = take_everything();
    returned_.notify_all();
  }
  free_all(std::move(blocks));
}

PolicyStats MemoryPolicy::stats() {
  {
    MutexLock lock(mutex_);
    poll();
  }
  free_idle_retired();
  MutexLock lock(mutex_);
  PolicyStats stats = stats_;
  stats.in_flight = referenced_ + count_pending();
  stats.old_layout_bytes = stats.bytes - live(current_bytes_) * current_bytes_;
  return stats;
}

std::size_t MemoryPolicy::waiting() const {
  MutexLock lock(mutex_);
  return waiting_;
}

std::size_t MemoryPolicy::live(std::size_t bytes) const {
  const auto found = live_.find(bytes);
  return found == live_.end() ? 0 : found->second;
}

void MemoryPolicy::retire(BlockPtr block) {
  --live_[block->bytes];
  retired_.push_back(std::move(block));
}

std::vector<BlockPtr> MemoryPolicy::take_retired() {
  std::vector<BlockPtr> blocks;
  blocks.swap(retired_);
  return blocks;
}

std::size_t MemoryPolicy::retired_bytes() const {
  std::size_t bytes = 0;
  for (const BlockPtr& block : retired_) bytes += block->bytes;
  return bytes;
}

std::vector<BlockPtr> MemoryPolicy::take_everything() {
  for (BlockPtr& block : take_cached()) retire(std::move(block));
  std::vector<BlockPtr> blocks = take_retired();
  for (const BlockPtr& block : blocks) stats_.bytes -= block->bytes;
  return blocks;
}

void MemoryPolicy::free_idle_retired() {
  std::vector<BlockPtr> idle;
  {
    MutexLock lock(mutex_);
    const auto busy_end = std::partition(retired_.begin(), retired_.end(),
                                         [](const BlockPtr& block) { return !is_idle(*block); });
    std::move(busy_end, retired_.end(), std::back_inserter(idle));
    retired_.erase(busy_end, retired_.end());
    for (const BlockPtr& block : idle) stats_.bytes -= block->bytes;
  }
  free_all(std::move(idle));
}

void MemoryPolicy::free_all(std::vector<BlockPtr> blocks) noexcept {
  for (BlockPtr& block : blocks) free_block(context_, std::move(block));
}

}  // namespace cudaframe::memory
