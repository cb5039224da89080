// SPDX-License-Identifier: LGPL-2.1-or-later
// The simulated device's controls, looked up in whatever libcuda.so.1 the process uses.
#pragma once

#include <cuda.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "tests/sim/cudaframe_sim.h"

namespace cudaframe::test {

/// Null members never happen: get() is null when the driver is a real one, or missing.
struct Simulator {
  decltype(&::cudaframe_sim_block_stream) block_stream;
  decltype(&::cudaframe_sim_unblock_stream) unblock_stream;
  decltype(&::cudaframe_sim_step_stream) step_stream;
  decltype(&::cudaframe_sim_queued_operations) queued_operations;
  decltype(&::cudaframe_sim_await_host_waits) await_host_waits;
  decltype(&::cudaframe_sim_fail_call) fail_call;
  decltype(&::cudaframe_sim_set_device_lost) set_device_lost;
  decltype(&::cudaframe_sim_get_live) get_live;
  decltype(&::cudaframe_sim_call_count) call_count;
  decltype(&::cudaframe_sim_reset_counts) reset_counts;
  decltype(&::cudaframe_sim_set_mode) set_mode;
  decltype(&::cudaframe_sim_take_violations) take_violations;

  static const Simulator* get();

  cudaframe_sim_live live() const {
    cudaframe_sim_live now{};
    get_live(&now);
    return now;
  }
  /// The races and broken rules since the last call: their texts, "" for none. What a test leaves
  /// behind fails it.
  std::string violations() const;
  /// Calls of all functions that make the host wait for the device.
  std::uint64_t host_synchronizations() const;
  /// Calls of all functions that allocate or free device or pinned memory.
  std::uint64_t driver_allocations() const;
};

/// For tests that look into the driver: on a real one they end here.
inline const Simulator& sim() {
  const Simulator* const simulator = Simulator::get();
  if (!simulator) std::abort();
  return *simulator;
}

/// Holds a stream for a scope.
class HeldStream {
 public:
  explicit HeldStream(CUstream stream) : stream_(stream) {
    Simulator::get()->block_stream(stream_);
  }
  ~HeldStream() { let_go(); }
  HeldStream(const HeldStream&) = delete;
  HeldStream& operator=(const HeldStream&) = delete;
  void let_go() {
    if (held_) Simulator::get()->unblock_stream(stream_);
    held_ = false;
  }

 private:
  CUstream stream_;
  bool held_ = true;
};

}  // namespace cudaframe::test
