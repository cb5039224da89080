// SPDX-License-Identifier: LGPL-2.1-or-later
// When queued operations run. Device knows which may run; a scheduler decides which do, and when.
#pragma once

#include <memory>

#include "operation.h"

namespace cudaframe::sim {

class Device;

/// Called with the device's mutex held.
class Scheduler {
 public:
  virtual ~Scheduler() = default;
  /// An operation was queued on this stream, or it is no longer held.
  virtual void queued(Device& device, StreamState& stream) = 0;
  /// A thread is about to block until this has run.
  virtual void host_waits(Device& device, const CompletionPtr& completion) = 0;
  /// A query has answered "not ready" about this; null: about more than one stream.
  virtual void polled(Device& device, const CompletionPtr& completion) = 0;
  /// Whether the order of work is checked as well.
  virtual bool checks_order() const = 0;
};

/// The scheduler that `mode` names (the CUDAFRAME_SIM variable):
///   null, "" or "eager"  everything runs at once, as soon as what it waits for has run;
///   "lazy"               nothing runs before somebody waits for it, and then only what that needs;
///   "shuffled:SEED"      a random stream advances now and then, or when somebody waits.
/// Null for a mode that does not exist.
std::unique_ptr<Scheduler> make_scheduler(const char* mode);

}  // namespace cudaframe::sim
