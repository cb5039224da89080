// SPDX-License-Identifier: LGPL-2.1-or-later
#include "scheduler.h"

#include <cstdlib>
#include <cstring>
#include <random>

#include "device.h"

namespace cudaframe::sim {
namespace {

constexpr size_t kFullQueue = 1024;  // as many launches as the driver holds

class EagerScheduler final : public Scheduler {
 public:
  void queued(Device& device, StreamState&) override { run_all(device); }
  void host_waits(Device& device, const CompletionPtr&) override { run_all(device); }
  void polled(Device&, const CompletionPtr&) override {}
  bool checks_order() const override { return false; }

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

void shorten(Device& device, StreamState& stream) {
  while (stream.queue.size() > kFullQueue && device.run_one_for(stream.queue.front().completion)) {
  }
}

/// Work runs as late as it can.
class LazyScheduler final : public Scheduler {
 public:
  void queued(Device& device, StreamState& stream) override { shorten(device, stream); }
  void host_waits(Device& device, const CompletionPtr& completion) override {
    while (!completion->done && device.run_one_for(completion)) {
    }
  }
  // A loop that polls comes to its end.
  void polled(Device& device, const CompletionPtr& completion) override {
    if (completion) {
      device.run_one_for(completion);
    } else {
      for (size_t i = 0; i < device.stream_count() && !device.run_next(i); ++i) {
      }
    }
  }
  bool checks_order() const override { return true; }
};

/// The seed decides which stream advances.
class ShuffledScheduler final : public Scheduler {
 public:
  explicit ShuffledScheduler(uint64_t seed) : random_(seed) {}

  void queued(Device& device, StreamState& stream) override {
    for (uint64_t steps = random_() % kMostSteps; steps > 0; --steps) run_any(device);
    shorten(device, stream);
  }
  void host_waits(Device& device, const CompletionPtr& completion) override {
    while (!completion->done && run_any(device)) {
    }
  }
  void polled(Device& device, const CompletionPtr&) override { run_any(device); }
  bool checks_order() const override { return true; }

 private:
  static constexpr uint64_t kMostSteps = 4;

  bool run_any(Device& device) {
    const size_t count = device.stream_count();
    const size_t first = random_() % count;
    for (size_t i = 0; i < count; ++i) {
      if (device.run_next((first + i) % count)) return true;
    }
    return false;
  }

  std::mt19937_64 random_;
};

}  // namespace

std::unique_ptr<Scheduler> make_scheduler(const char* mode) {
  constexpr char kShuffled[] = "shuffled:";
  constexpr size_t kPrefix = sizeof kShuffled - 1;
  if (!mode || !*mode || strcmp(mode, "eager") == 0) return std::make_unique<EagerScheduler>();
  if (strcmp(mode, "lazy") == 0) return std::make_unique<LazyScheduler>();
  if (strncmp(mode, kShuffled, kPrefix) != 0 || !mode[kPrefix]) return nullptr;
  char* end = nullptr;
  const uint64_t seed = strtoull(mode + kPrefix, &end, 10);
  if (*end) return nullptr;
  return std::make_unique<ShuffledScheduler>(seed);
}

}  // namespace cudaframe::sim
