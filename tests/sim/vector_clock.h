// SPDX-License-Identifier: LGPL-2.1-or-later
// How much of each stream's work is known to be over.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

namespace cudaframe::sim {

/// Stream ids and, for each, how many of its operations come before; missing means none. A value.
class VectorClock {
 public:
  uint64_t at(uint32_t stream) const;
  /// One more operation of `stream`; returns its number.
  uint64_t tick(uint32_t stream);
  /// Whatever came before either.
  void join(const VectorClock& other);

 private:
  using Entry = std::pair<uint32_t, uint64_t>;
  std::vector<Entry> entries_;  ///< by stream
};
using ClockPtr = std::shared_ptr<const VectorClock>;

}  // namespace cudaframe::sim
