// SPDX-License-Identifier: LGPL-2.1-or-later
// When may a frame's memory be used again? The interface of the two answers.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "base/mutex.h"
#include "memory/block.h"
#include "memory/frame.h"

namespace cudaframe::memory {

enum class ReusePolicy { record_stream, bounded_pool };

struct PolicyConfig {
  /// bounded-pool: how many frames of the current layout exist at most; at least 1.
  std::size_t max_frames = 8;
  /// Bytes that all blocks together may take; 0: no limit.
  std::size_t max_bytes = 0;
  /// How long an allocation waits for a frame to come back before `on_stall` is told.
  std::chrono::milliseconds stall_notice{2000};
  /// Called once per long wait, on the waiting thread, with no lock held.
  std::function<void()> on_stall;
};

struct PolicyStats {
  std::uint64_t frames = 0;  ///< Handed out since the policy was made.
  std::size_t bytes = 0;     ///< Held now, in blocks of any layout.
  std::size_t peak_bytes = 0;
  std::size_t in_flight = 0;  ///< Frames referenced, or whose readers are not done.
  std::size_t peak_in_flight = 0;
  std::size_t old_layout_bytes = 0;  ///< Of `bytes`: blocks of an earlier layout, not yet freed.
  std::uint64_t over_bound = 0;      ///< Frames that were handed out above the bound (unbounded).
  std::uint64_t host_waits = 0;      ///< Allocations that waited for a frame to come back.
  std::uint64_t host_wait_ns = 0;
  std::uint64_t blocks_created = 0;
  std::uint64_t blocks_reused = 0;
};

/// Hands out frames and takes them back. Thread-safe. Lives as long as its last frame. The policy
/// mutex is a leaf but for the event pool's; it is never held while blocking on the device.
class MemoryPolicy : public std::enable_shared_from_this<MemoryPolicy> {
 public:
  static std::shared_ptr<MemoryPolicy> create(ReusePolicy policy, cuda::Context& context,
                                              MemoryKind kind, PolicyConfig config);

  virtual ~MemoryPolicy();
  MemoryPolicy(const MemoryPolicy&) = delete;
  MemoryPolicy& operator=(const MemoryPolicy&) = delete;

  /// A frame that `writer` may write at once. Stream: `writer` waits, on the device, for whatever
  /// still uses the block. The host waits only when the bound is reached and all frames are
  /// referenced; a frame coming back or set_flushing() ends that. `bounded` false lifts the bound
  /// for this frame (reverse playback gathers whole GOPs). flushing, out_of_memory, device_lost.
  Result<FramePtr> allocate(const FrameLayout& layout, const cuda::StreamPtr& writer,
                            bool bounded = true);

  /// While flushing, allocations fail with `flushing` and waiting ones wake up.
  void set_flushing(bool flushing);

  /// Raises or lowers the bound; frames above a lowered one are freed as they come back.
  void set_max_frames(std::size_t max_frames);

  /// The end of production: frees what is cached (waiting for its readers) and from now on whatever
  /// comes back. allocate() fails with `flushing` from here on.
  void shut_down();

  /// Polls the readers, then counts.
  PolicyStats stats();

  /// How many allocations wait for a frame to come back at this moment.
  std::size_t waiting() const;

  cuda::Context& context() const noexcept { return context_; }
  MemoryKind kind() const noexcept { return kind_; }

 protected:
  /// What allocate() does next.
  struct Choice {
    enum class Action {
      reuse,   ///< `block`; its history is not yet waited for.
      create,  ///< A new block, after `evict` is freed.
      wait,    ///< Until a frame comes back.
      fail,    ///< The driver has no memory, and waiting would not give any.
    } action = Action::wait;
    BlockPtr block;
    std::vector<BlockPtr> evict;
  };

  MemoryPolicy(cuda::Context& context, MemoryKind kind, PolicyConfig config);

  /// Polls, then picks a block of exactly `bytes`. `may_create` is false once the driver has said
  /// that it has no memory left.
  virtual Choice choose(std::size_t bytes, bool bounded, bool may_create) REQUIRES(mutex_) = 0;
  /// Takes a block whose frame is gone.
  virtual void put_back(BlockPtr block) REQUIRES(mutex_) = 0;
  /// Empties the cache.
  virtual std::vector<BlockPtr> take_cached() REQUIRES(mutex_) = 0;
  /// Looks which released blocks are past their readers. Never blocks.
  virtual void poll() REQUIRES(mutex_) = 0;
  /// How many released blocks were not, at the last poll.
  virtual std::size_t count_pending() const REQUIRES(mutex_) = 0;

  /// Takes a block out of use; it is freed once idle.
  void retire(BlockPtr block) REQUIRES(mutex_);
  /// All retired blocks, to be freed now, even if that means waiting for their readers.
  std::vector<BlockPtr> take_retired() REQUIRES(mutex_);
  std::size_t retired_bytes() const REQUIRES(mutex_);
  /// Blocks of this size that are referenced or cached.
  std::size_t live(std::size_t bytes) const REQUIRES(mutex_);

  cuda::Context& context_;
  const MemoryKind kind_;
  mutable Mutex mutex_;
  PolicyConfig config_ GUARDED_BY(mutex_);
  PolicyStats stats_ GUARDED_BY(mutex_);
  std::size_t referenced_ GUARDED_BY(mutex_) = 0;
  std::size_t current_bytes_ GUARDED_BY(mutex_) = 0;  ///< Of the layout asked for last.

 private:
  friend class Frame;

  Result<BlockPtr> acquire(std::size_t bytes, bool bounded);
  void account(const Choice& choice, std::size_t bytes) REQUIRES(mutex_);
  void cancel(std::size_t bytes) REQUIRES(mutex_);
  Result<BlockPtr> create_block(std::size_t bytes, std::vector<BlockPtr> evict);
  Status wait_for_frame() REQUIRES(mutex_);
  Result<FramePtr> make_frame(BlockPtr block, const FrameLayout& layout,
                              const cuda::StreamPtr& writer);
  void release(BlockPtr block, Result<BlockHistory> history) noexcept;
  std::vector<BlockPtr> take_everything() REQUIRES(mutex_);
  void free_idle_retired();
  void free_all(std::vector<BlockPtr> blocks) noexcept;

  Condition returned_;
  bool flushing_ GUARDED_BY(mutex_) = false;
  bool shut_down_ GUARDED_BY(mutex_) = false;
  std::uint64_t returns_ GUARDED_BY(mutex_) = 0;  ///< Counts what may end a wait.
  std::size_t waiting_ GUARDED_BY(mutex_) = 0;
  std::map<std::size_t, std::size_t> live_ GUARDED_BY(mutex_);  ///< By size in bytes.
  std::vector<BlockPtr> retired_ GUARDED_BY(mutex_);
  std::vector<BlockPtr> abandoned_ GUARDED_BY(mutex_);  ///< Readers unknown: freed at the very end.
};

}  // namespace cudaframe::memory
