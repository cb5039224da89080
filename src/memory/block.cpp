// SPDX-License-Identifier: LGPL-2.1-or-later
#include "memory/block.h"

#include "base/log.h"

namespace cudaframe::memory {
namespace {

void warn(const Status& status) noexcept {
  if (!status.ok()) log(LogLevel::warning, "memory", "%s", status.dump().c_str());
}

bool is_done(const cuda::EventPtr& event) noexcept {
  const Result<bool> done = event->is_done();
  return done.ok() && *done;
}

}  // namespace

Result<BlockPtr> allocate_block(cuda::Context& context, MemoryKind kind, std::size_t bytes) {
  const cuda::Driver& driver = context.driver();
  cuda::ContextScope scope(context);
  CUDAFRAME_TRY(scope.status());
  auto block = std::make_unique<Block>();
  block->kind = kind;
  block->bytes = bytes;
  if (kind == MemoryKind::device) {
    CUDAFRAME_TRY(CUDAFRAME_CUDA(driver, cuMemAlloc(&block->device_address, bytes)));
  } else {
    void* address = nullptr;
    CUDAFRAME_TRY(
        CUDAFRAME_CUDA(driver, cuMemHostAlloc(&address, bytes, CU_MEMHOSTALLOC_PORTABLE)));
    block->host_address = static_cast<std::byte*>(address);
  }
  return block;
}

void free_block(cuda::Context& context, BlockPtr block) noexcept {
  // Explicit, because cuMemFreeHost waits for nothing and cuMemFree only happens to wait.
  if (!is_idle(*block)) {
    if (block->history.ready) warn(block->history.ready->synchronize());
    for (const Reader& reader : block->history.readers) warn(reader.done->synchronize());
  }
  const cuda::Driver& driver = context.driver();
  cuda::ContextScope scope(context);
  if (block->kind == MemoryKind::device) {
    warn(CUDAFRAME_CUDA(driver, cuMemFree(block->device_address)));
  } else {
    warn(CUDAFRAME_CUDA(driver, cuMemFreeHost(block->host_address)));
  }
}

bool is_idle(const Block& block) noexcept {
  if (block.history.ready && !is_done(block.history.ready)) return false;
  for (const Reader& reader : block.history.readers) {
    if (!is_done(reader.done)) return false;
  }
  return true;
}

}  // namespace cudaframe::memory
