// SPDX-License-Identifier: LGPL-2.1-or-later
// The happens-before checker: finds accesses to the same bytes that nothing orders, whatever order
// they happen to run in.
#pragma once

#include <vector>

#include "memory.h"
#include "operation.h"

namespace cudaframe::sim {

/// Guarded by the device's mutex. What comes before what is known when an operation is queued: its
/// stream's earlier work, what it waits for, and what the host has waited for by then. So that is
/// when it is checked, and no schedule can hide a race.
class OrderChecker {
 public:
  bool is_on() const { return is_on_; }
  void turn(bool on) { is_on_ = on; }

  /// Gives the operation its place, then compares what it touches with what `memory` remembers.
  void queued(StreamState& stream, Operation& operation, MemoryRegistry& memory);
  /// The host knows now that this is over, and everything it does next comes after it.
  void host_knows(const Completion& completion);

 private:
  void check(const Operation& operation, const PastAccess& now, MemoryRegistry& memory);
  void remember(std::vector<PastAccess>& past, const PastAccess& now, const VectorClock& clock);

  bool is_on_ = false;
  VectorClock host_;
};

}  // namespace cudaframe::sim
