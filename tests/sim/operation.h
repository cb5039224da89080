// SPDX-License-Identifier: LGPL-2.1-or-later
// Queued work: an operation says what runs, what it touches and what it must come after.
#pragma once

#include <cuda.h>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <vector>

#include "access.h"
#include "call_site.h"
#include "vector_clock.h"

namespace cudaframe::sim {

struct StreamState;

/// Set when an operation has run. Events, waits and host waits all hold one of these, so a handle
/// may be recorded again or destroyed while others still wait for what it meant before.
struct Completion {
  bool done = false;
  StreamState* stream = nullptr;  ///< where it is queued; only while not done
  ClockPtr clock;                 ///< what is over once this is (null: not checked)
};
using CompletionPtr = std::shared_ptr<Completion>;

struct Operation {
  const char* call = "";             ///< the driver function that queued it
  std::function<void()> run;         ///< empty for event records and waits
  std::vector<Access> accesses;      ///< checked when it is queued, and right before it runs
  std::vector<CompletionPtr> after;  ///< beside the order of its stream
  CompletionPtr completion = std::make_shared<Completion>();
};

/// A stream: a FIFO of operations. Guarded by the device's mutex.
struct StreamState {
  CUstream handle = nullptr;
  uint32_t id = 0;  ///< never used again, unlike handles on a real device
  bool is_legacy = false;
  bool is_blocking = true;  ///< ordered with the legacy default stream
  bool is_held = false;     ///< cudaframe_sim_block_stream
  size_t steps = 0;         ///< operations that may run although it is held
  std::deque<Operation> queue;
  CompletionPtr last;  ///< of the newest operation ever queued
  VectorClock clock;   ///< what the next operation comes after
};
using StreamPtr = std::shared_ptr<StreamState>;

}  // namespace cudaframe::sim
