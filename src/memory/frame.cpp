// SPDX-License-Identifier: LGPL-2.1-or-later
#include "memory/frame.h"

#include "memory/memory_policy.h"

namespace cudaframe::memory {

Frame::Frame(std::shared_ptr<MemoryPolicy> policy, BlockPtr block, const FrameLayout& layout,
             std::shared_ptr<Fence> fence)
    : policy_(std::move(policy)),
      block_(std::move(block)),
      layout_(layout),
      fence_(std::move(fence)) {}

Frame::~Frame() {
  policy_->release(std::move(block_), fence_->close());
}

cuda::Context& Frame::context() const noexcept {
  return policy_->context();
}

}  // namespace cudaframe::memory
