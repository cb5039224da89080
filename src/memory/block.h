// SPDX-License-Identifier: LGPL-2.1-or-later
// One allocation that the policies hand round.
#pragma once

#include <cstddef>
#include <memory>

#include "cuda/driver.h"
#include "memory/fence.h"

namespace cudaframe::memory {

enum class MemoryKind {
  device,       ///< cuMemAlloc: can be exported and registered with NVENC.
  pinned_host,  ///< cuMemHostAlloc: asynchronous copies to and from it don't block the host.
};

/// Owned by one place at a time: a frame, or its policy.
struct Block {
  MemoryKind kind = MemoryKind::device;
  CUdeviceptr device_address = 0;
  std::byte* host_address = nullptr;
  std::size_t bytes = 0;
  BlockHistory history;
};

using BlockPtr = std::unique_ptr<Block>;

/// not_supported, out_of_memory or device_lost as the driver says.
Result<BlockPtr> allocate_block(cuda::Context& context, MemoryKind kind, std::size_t bytes);

/// Blocks until everything in the block's history is done, then frees it. Logs what fails.
void free_block(cuda::Context& context, BlockPtr block) noexcept;

/// Whether free_block() would not have to wait. Never blocks. A failing query counts as not done.
bool is_idle(const Block& block) noexcept;

}  // namespace cudaframe::memory
