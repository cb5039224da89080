// SPDX-License-Identifier: LGPL-2.1-or-later
#include "tests/support/simulator.h"

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <vector>

namespace cudaframe::test {
namespace {

const Simulator* look_up() {
  void* library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (!library) return nullptr;
  static Simulator simulator;
#define CUDAFRAME_LOOK_UP(member)                                                             \
  simulator.member =                                                                          \
      reinterpret_cast<decltype(simulator.member)>(dlsym(library, "cudaframe_sim_" #member)); \
  if (!simulator.member) return nullptr;
  CUDAFRAME_LOOK_UP(block_stream)
  CUDAFRAME_LOOK_UP(unblock_stream)
  CUDAFRAME_LOOK_UP(step_stream)
  CUDAFRAME_LOOK_UP(queued_operations)
  CUDAFRAME_LOOK_UP(await_host_waits)
  CUDAFRAME_LOOK_UP(fail_call)
  CUDAFRAME_LOOK_UP(set_device_lost)
  CUDAFRAME_LOOK_UP(get_live)
  CUDAFRAME_LOOK_UP(call_count)
  CUDAFRAME_LOOK_UP(reset_counts)
  CUDAFRAME_LOOK_UP(set_mode)
  CUDAFRAME_LOOK_UP(take_violations)
#undef CUDAFRAME_LOOK_UP
  return &simulator;
}

/// Fails each test that has broken the order of work, in the modes that look for that.
class ViolationListener final : public testing::EmptyTestEventListener {
  void OnTestEnd(const testing::TestInfo&) override {
    const Simulator* simulator = Simulator::get();
    if (!simulator) return;
    const std::string texts = simulator->violations();
    EXPECT_EQ(texts, "") << "the simulated device found this";
  }
};

[[maybe_unused]] const bool kIsListening = [] {
  testing::UnitTest::GetInstance()->listeners().Append(new ViolationListener);
  return true;
}();

}  // namespace

std::string Simulator::violations() const {
  std::vector<char> text(16384);
  const std::size_t count = take_violations(text.data(), text.size());
  return count > 0 ? std::string(text.data()) : std::string();
}

const Simulator* Simulator::get() {
  static const Simulator* const simulator = look_up();
  return simulator;
}

std::uint64_t Simulator::host_synchronizations() const {
  return call_count("cuStreamSynchronize") + call_count("cuEventSynchronize") +
         call_count("cuCtxSynchronize");
}

std::uint64_t Simulator::driver_allocations() const {
  return call_count("cuMemAlloc") + call_count("cuMemFree") + call_count("cuMemHostAlloc") +
         call_count("cuMemFreeHost");
}

}  // namespace cudaframe::test
