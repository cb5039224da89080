// SPDX-License-Identifier: LGPL-2.1-or-later
// When queued operations run. Device knows which may run; a scheduler decides which do, and when.
#pragma once

#include <memory>

namespace cudaframe::sim {

class Device;

/// Called with the device's mutex held.
class Scheduler {
 public:
  virtual ~Scheduler() = default;
  /// An operation was queued, or a held stream was let go.
  virtual void queued(Device& device) = 0;
  /// A thread is about to block until something has run.
  virtual void host_waits(Device& device) = 0;
  /// A query has answered "not ready".
  virtual void polled(Device& device) = 0;
};

/// The scheduler that `mode` names (the CUDAFRAME_SIM variable; null or "eager": everything runs at
/// once, as soon as what it waits for has run). Null for a mode that does not exist.
std::unique_ptr<Scheduler> make_scheduler(const char* mode);

}  // namespace cudaframe::sim
