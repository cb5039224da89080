// SPDX-License-Identifier: LGPL-2.1-or-later
#include "scheduler.h"

#include <cstring>

#include "device.h"

namespace cudaframe::sim {
namespace {

class EagerScheduler final : public Scheduler {
 public:
  void queued(Device& device) override { run_all(device); }
  void host_waits(Device& device) override { run_all(device); }
  void polled(Device&) override {}

 private:
  static void run_all(Device& device) {
    // One operation may set others free on streams that were already passed: go round until a whole
    // round has moved nothing.
    for (bool moved = true; moved;) {
      moved = false;
      for (size_t i = 0; i < device.stream_count(); ++i) {
        while (device.run_next(i)) moved = true;
      }
    }
  }
};

}  // namespace

std::unique_ptr<Scheduler> make_scheduler(const char* mode) {
  if (!mode || !*mode || strcmp(mode, "eager") == 0) return std::make_unique<EagerScheduler>();
  return nullptr;
}

}  // namespace cudaframe::sim
