// SPDX-License-Identifier: LGPL-2.1-or-later
// One frame: a block of memory on loan from its policy, its layout, and its fence.
#pragma once

#include <memory>

#include "cuda/context.h"
#include "memory/block.h"
#include "memory/fence.h"
#include "memory/frame_layout.h"

namespace cudaframe::memory {

class MemoryPolicy;

/// Goes back to its policy when destroyed, on whatever thread that is, at any time (the policy and
/// the device live as long as their frames); but never inside a CUDA host callback. The frame's
/// members are constant; its fence is thread-safe.
class Frame {
 public:
  Frame(std::shared_ptr<MemoryPolicy> policy, BlockPtr block, const FrameLayout& layout,
        std::shared_ptr<Fence> fence);
  ~Frame();
  Frame(const Frame&) = delete;
  Frame& operator=(const Frame&) = delete;

  const FrameLayout& layout() const noexcept { return layout_; }
  MemoryKind kind() const noexcept { return block_->kind; }
  cuda::Context& context() const noexcept;
  Fence& fence() const noexcept { return *fence_; }
  /// For views that may outlive the frame; they then find the fence closed.
  const std::shared_ptr<Fence>& shared_fence() const noexcept { return fence_; }
  const std::shared_ptr<MemoryPolicy>& policy() const noexcept { return policy_; }

  /// Of device frames. Stream: order yourself with fence() before touching it.
  CUdeviceptr device_address(int plane = 0) const noexcept {
    return block_->device_address + layout_.planes[plane].offset;
  }
  /// Of pinned host frames; fence().synchronize() first.
  std::byte* host_address(int plane = 0) const noexcept {
    return block_->host_address + layout_.planes[plane].offset;
  }

 private:
  const std::shared_ptr<MemoryPolicy> policy_;
  BlockPtr block_;
  const FrameLayout layout_;
  const std::shared_ptr<Fence> fence_;
};

using FramePtr = std::unique_ptr<Frame>;

}  // namespace cudaframe::memory
