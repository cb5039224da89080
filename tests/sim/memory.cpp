// SPDX-License-Identifier: LGPL-2.1-or-later
#include "memory.h"

#include <cstdlib>
#include <cstring>

namespace cudaframe::sim {
namespace {

constexpr size_t kGranularity = 512;

size_t rounded(size_t size) {
  return (size + kGranularity - 1) / kGranularity * kGranularity;
}

}  // namespace

uintptr_t MemoryRegistry::allocate(size_t size, MemoryKind kind) {
  const bool is_device = kind != MemoryKind::pinned;
  if (is_device && (size > total_ || rounded(size) > total_ - used_)) return 0;
  void* memory = nullptr;
  // The exact size: a sanitizer then sees a kernel twin that runs past the end.
  if (posix_memalign(&memory, kGranularity, size) != 0) return 0;
  memset(memory, kFreshByte, size);
  if (is_device) used_ += rounded(size);
  const auto address = reinterpret_cast<uintptr_t>(memory);
  allocations_[address] = {size, kind};
  return address;
}

bool MemoryRegistry::release(uintptr_t address, MemoryKind kind) {
  const auto found = allocations_.find(address);
  if (found == allocations_.end() || found->second.kind != kind) return false;
  auto* memory = reinterpret_cast<unsigned char*>(address);
  memset(memory, kPoisonByte, found->second.size);
  // Or the compiler drops the stores as dead.
  asm volatile("" : : "r"(memory) : "memory");
  if (kind != MemoryKind::pinned) used_ -= rounded(found->second.size);
  free(memory);
  allocations_.erase(found);
  return true;
}

void MemoryRegistry::release_all() {
  while (!allocations_.empty()) {
    const auto first = *allocations_.begin();
    release(first.first, first.second.kind);
  }
}

const Allocation* MemoryRegistry::find(uintptr_t address, size_t size, uintptr_t* base) const {
  auto after = allocations_.upper_bound(address);
  if (after == allocations_.begin()) return nullptr;
  const auto& [start, allocation] = *--after;
  const size_t offset = address - start;
  if (offset >= allocation.size || size > allocation.size - offset) return nullptr;
  if (base) *base = start;
  return &allocation;
}

Allocation* MemoryRegistry::find_to_remember(uintptr_t address, size_t size) {
  return const_cast<Allocation*>(find(address, size));
}

bool MemoryRegistry::reserve(size_t bytes) {
  if (bytes > total_ - used_) return false;
  used_ += bytes;
  return true;
}

size_t MemoryRegistry::count(MemoryKind kind) const {
  size_t count = 0;
  for (const auto& [start, allocation] : allocations_) count += allocation.kind == kind;
  return count;
}

size_t MemoryRegistry::bytes(MemoryKind kind) const {
  size_t bytes = 0;
  for (const auto& [start, allocation] : allocations_) {
    if (allocation.kind == kind) bytes += allocation.size;
  }
  return bytes;
}

}  // namespace cudaframe::sim
