// SPDX-License-Identifier: LGPL-2.1-or-later
// What every driver entry point does first: count the call, inject faults, check the preconditions.
#pragma once

#include <cuda.h>

#include <vector>

#include "device.h"

// <cuda.h> gives the declarations; this makes them exports of the library.
#define CUDAFRAME_SIM_EXPORT extern "C" __attribute__((visibility("default")))

namespace cudaframe::sim {

enum class Needs {
  nothing,  ///< works before cuInit
  init,     ///< works without a context and on a lost device
  device,   ///< handles carry their context; a lost device fails it
  context,  ///< a current context
  release,  ///< as `device`, but goes on when the device is lost, so that nothing stays behind
  release_in_context,  ///< as `context`, likewise
};

/// Thread-bound, one per call. Holds the device's mutex while it exists.
class Call {
 public:
  /// `function` is the exported name, normally __func__; must outlive the call.
  Call(const char* function, Needs needs);

  /// What the call answers at once; CUDA_SUCCESS to go on.
  CUresult refused() const { return refused_; }
  const char* name() const { return name_; }
  Device& device() { return device_; }
  Lock& lock() { return lock_; }

 private:
  Device& device_;
  const char* const name_;
  Lock lock_;
  CUresult refused_;
};

/// The calling thread's contexts; the last one is current.
std::vector<CUcontext>& context_stack();

}  // namespace cudaframe::sim

/// Opens an entry point: counts it and returns early when it is refused.
#define CUDAFRAME_SIM_CALL(needs)                                                     \
  cudaframe::sim::Call call(cudaframe::sim::plain_name(__func__),                     \
                            cudaframe::sim::Needs::needs);                            \
  if (const CUresult refused = call.refused(); refused != CUDA_SUCCESS) return refused; \
  [[maybe_unused]] cudaframe::sim::Device& device = call.device()

namespace cudaframe::sim {

/// "cuMemAlloc_v2" -> "cuMemAlloc", "cuvidMapVideoFrame64" -> "cuvidMapVideoFrame". The text lives
/// until the process ends.
const char* plain_name(const char* function);

/// Counts the call; the fault that was asked for, or CUDA_SUCCESS. With the device's mutex held.
CUresult count_call(const char* plain);

}  // namespace cudaframe::sim
