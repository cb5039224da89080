// SPDX-License-Identifier: LGPL-2.1-or-later
// Starting and stopping on real hardware: what the driver itself says about the memory in use, and
// how soon the first frame is there.

#include <gst/gst.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <random>

#include "cuda/context.h"
#include "tests/support/pipeline.h"

namespace {

using cudaframe::cuda::Context;
using cudaframe::cuda::ContextScope;
using cudaframe::test::Pipeline;

constexpr int kRounds = 60;
constexpr int kWarmUp = 20;
constexpr std::size_t kTolerance = 4u << 20;

std::size_t used_memory(Context& context) {
  ContextScope scope(context);
  std::size_t free = 0, total = 0;
  EXPECT_EQ(context.driver().cuMemGetInfo(&free, &total), CUDA_SUCCESS);
  return total - free;
}

std::size_t count_entries(const char* folder) {
  const auto entries = std::filesystem::directory_iterator(folder);
  return static_cast<std::size_t>(std::distance(begin(entries), end(entries)));
}

/// Milliseconds to the first frame, or -1 for a round without one.
double play_round(int round, int frames) {
  const auto begin = std::chrono::steady_clock::now();
  Pipeline pipeline(
      "filesrc name=source ! cudademux ! cudapacketdec ! cudacolorconvert ! "
      "video/x-raw(memory:CUDAFrame),format=RGB ! appsink name=sink sync=false max-buffers=2",
      std::getenv("CUDAFRAME_TEST_CLIP"));
  double first = -1;
  if (round % 10 == 1) {
    pipeline.set_state(GST_STATE_PAUSED);
  } else {
    pipeline.set_state(GST_STATE_PLAYING);
    EXPECT_EQ(pipeline.take(1), 1) << "round " << round;
    first =
        std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count();
    if (round % 10 == 0) frames = 59;
    EXPECT_EQ(pipeline.take(frames), frames) << "round " << round;
  }
  pipeline.set_state(GST_STATE_NULL);
  EXPECT_TRUE(pipeline.errors().empty()) << "round " << round;
  return first;
}

TEST(RoundsOnHardware, LeaveNothingBehind) {
  const auto context = Context::for_device(0);
  if (!context.ok()) GTEST_SKIP() << context.status().message();
  std::mt19937 random(1);
  std::size_t early_bytes = 0, early_threads = 0, early_files = 0;
  double slowest = 0;
  for (int round = 1; round <= kRounds; ++round) {
    const double first = play_round(round, static_cast<int>(random() % 30));
    if (round > 1) slowest = std::max(slowest, first);
    if (round != kWarmUp) continue;
    early_bytes = used_memory(**context);
    early_threads = count_entries("/proc/self/task");
    early_files = count_entries("/proc/self/fd");
  }
  const std::size_t late_bytes = used_memory(**context);
  std::printf(
      "device memory after round %d: %zu MiB, after round %d: %zu MiB; slowest first frame "
      "from round 2 on: %.0f ms\n",
      kWarmUp, early_bytes >> 20, kRounds, late_bytes >> 20, slowest);
  EXPECT_LE(late_bytes, early_bytes + kTolerance);
  EXPECT_LE(count_entries("/proc/self/task"), early_threads + 4);
  EXPECT_LE(count_entries("/proc/self/fd"), early_files);
}

}  // namespace
