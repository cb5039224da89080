// SPDX-License-Identifier: LGPL-2.1-or-later
// The simulated device's memory: host memory whose address ranges are known.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

#include "access.h"
#include "call_site.h"

namespace cudaframe::sim {

inline constexpr unsigned char kFreshByte = 0xcd;   ///< what new memory holds
inline constexpr unsigned char kPoisonByte = 0xdd;  ///< freed memory, destinations of queued copies

enum class MemoryKind { device, decoder, pinned };

/// An access of a queued operation, for the order checker to compare later ones with.
struct PastAccess {
  Access access;
  uint32_t stream_id = 0;
  uint64_t time = 0;  ///< the operation's number on its stream
  const char* call = "";
  const void* stream = nullptr;  ///< the handle, for people
  CallSite site;
};

struct Allocation {
  size_t size = 0;
  MemoryKind kind = MemoryKind::device;
  bool is_mapped = false;  ///< a decoder's: whether the program may use it now
  std::vector<PastAccess> past = {};
};

/// Guarded by the device's mutex.
class MemoryRegistry {
 public:
  explicit MemoryRegistry(size_t total) : total_(total) {}

  /// 0 when the simulated device (or this machine) has no room.
  uintptr_t allocate(size_t size, MemoryKind kind);
  /// Poisons and releases. False if no allocation of that kind begins there.
  bool release(uintptr_t address, MemoryKind kind);
  void release_all();

  /// The allocation that contains all of the range; null if none does. `base` may be null.
  const Allocation* find(uintptr_t address, size_t size, uintptr_t* base = nullptr) const;
  Allocation* find_to_remember(uintptr_t address, size_t size);

  bool reserve(size_t bytes);
  void unreserve(size_t bytes) { used_ -= bytes; }

  size_t total() const { return total_; }
  size_t used() const { return used_; }
  size_t count(MemoryKind kind) const;
  size_t bytes(MemoryKind kind) const;

 private:
  std::map<uintptr_t, Allocation> allocations_;
  const size_t total_;
  size_t used_ = 0;  ///< device memory, in the granularity of the driver
};

}  // namespace cudaframe::sim
