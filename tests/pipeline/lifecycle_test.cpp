// SPDX-License-Identifier: LGPL-2.1-or-later
// The three elements together: what a frame costs in steady state, what the bound bounds, and what
// is left behind by starting and stopping.

#include <gst/cudaframe/cudaframe.h>
#include <gst/gst.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <random>

#include "tests/support/pipeline.h"
#include "tests/support/simulator.h"

namespace {

using cudaframe::test::Pipeline;
using cudaframe::test::Simulator;

class LifecycleTest : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    ASSERT_NE(Simulator::get(), nullptr) << "needs the simulated device on LD_LIBRARY_PATH";
  }
  static std::string description(const std::string& options = "") {
    const std::string policy = " reuse-policy=" + std::string(GetParam()) + options;
    return "filesrc name=source ! cudademux ! cudapacketdec name=decode" + policy +
           " ! cudacolorconvert name=convert" + policy +
           " ! video/x-raw(memory:CUDAFrame),format=RGB "
           "! appsink name=sink sync=false max-buffers=1";
  }
  static const char* clip() { return std::getenv("CUDAFRAME_TEST_CLIP"); }
};

INSTANTIATE_TEST_SUITE_P(Policies, LifecycleTest, testing::Values("bounded-pool", "record-stream"),
                         [](const auto& instance) {
                           return std::string(instance.param[0] == 'b' ? "BoundedPool"
                                                                       : "RecordStream");
                         });

TEST_P(LifecycleTest, AFrameCostsNoSynchronizationAndNoAllocation) {
  Pipeline pipeline(description(), clip());
  pipeline.set_state(GST_STATE_PLAYING);
  // Some frames are kept for a while, so that there are as many as will ever be under way at once.
  std::vector<GstSample*> kept;
  for (int i = 0; i < 5; ++i) kept.push_back(pipeline.pull());
  for (GstSample* sample : kept) gst_sample_unref(sample);
  ASSERT_EQ(pipeline.take(15), 15);
  Simulator::get()->reset_counts();
  ASSERT_EQ(pipeline.take(30), 30);
  EXPECT_EQ(Simulator::get()->host_synchronizations(), 0u);
  EXPECT_EQ(Simulator::get()->driver_allocations(), 0u);
  // The event pool holds as many as were ever alive at once. How the threads interleave decides
  // when the last of them is made; one made for each frame would be 30 and more.
  EXPECT_LE(Simulator::get()->call_count("cuEventCreate"), 4u);
  EXPECT_EQ(Simulator::get()->call_count("cuStreamCreate"), 0u);
  EXPECT_GE(Simulator::get()->call_count("cuLaunchKernel"), 28u) << "or nothing was counted";
}

TEST_P(LifecycleTest, StatsCountTheFramesAndStayWithinTheBound) {
  Pipeline pipeline(description(" max-frames=4"), clip());
  pipeline.set_state(GST_STATE_PLAYING);
  int frames = 0;
  while (pipeline.take(1) == 1) {
    ++frames;
    for (const char* element : {"decode", "convert"}) {
      EXPECT_LE(pipeline.stat(element, "in-flight"), 4u) << element;
    }
  }
  EXPECT_EQ(frames, 60);
  EXPECT_TRUE(pipeline.is_at_end());
  for (const char* element : {"decode", "convert"}) {
    EXPECT_EQ(pipeline.stat(element, "frames"), 60u) << element;
    EXPECT_LE(pipeline.stat(element, "peak-in-flight"), 4u) << element;
    EXPECT_LE(pipeline.stat(element, "blocks-created"), 4u) << element;
  }
}

// A sink that keeps as many frames as the pool has, for more than two seconds: one warning that
// names the property, no error, and all frames in the end.
TEST_P(LifecycleTest, APoolOfEightWaitsForASinkThatKeepsEight) {
  if (std::string(GetParam()) != "bounded-pool") GTEST_SKIP() << "record-stream does not wait";
  Pipeline pipeline(description(" max-frames=8"), clip());
  pipeline.set_state(GST_STATE_PLAYING);
  std::vector<GstSample*> kept;
  for (int i = 0; i < 8; ++i) {
    kept.push_back(pipeline.pull());
    ASSERT_NE(kept.back(), nullptr) << i;
  }
  GstMessage* warning =
      gst_bus_timed_pop_filtered(pipeline.bus(), 30 * GST_SECOND, GST_MESSAGE_WARNING);
  ASSERT_NE(warning, nullptr);
  GError* error = nullptr;
  gst_message_parse_warning(warning, &error, nullptr);
  EXPECT_NE(std::string(error->message).find("max-frames"), std::string::npos) << error->message;
  g_error_free(error);
  gst_message_unref(warning);
  for (GstSample* sample : kept) gst_sample_unref(sample);
  EXPECT_EQ(pipeline.take(100), 52);
  EXPECT_TRUE(pipeline.is_at_end());
  EXPECT_TRUE(pipeline.errors().empty());
  EXPECT_GE(pipeline.stat("convert", "host-waits"), 1u);
}

TEST_P(LifecycleTest, AFrameOutlivesThePipeline) {
  GstSample* sample;
  {
    Pipeline pipeline(description(), clip());
    pipeline.set_state(GST_STATE_PLAYING);
    sample = pipeline.pull();
    ASSERT_NE(sample, nullptr);
  }
  GstBuffer* buffer = gst_sample_get_buffer(sample);
  EXPECT_TRUE(gst_cuda_frame_memory_is_ready(gst_buffer_peek_memory(buffer, 0)));
  GstMapInfo map;
  ASSERT_TRUE(gst_buffer_map(buffer, &map, GST_MAP_READ));
  EXPECT_GT(std::count_if(map.data, map.data + map.size, [](guint8 byte) { return byte != 0; }),
            1000);
  gst_buffer_unmap(buffer, &map);
  gst_sample_unref(sample);
  EXPECT_EQ(Simulator::get()->live().allocations, 0u);
}

struct Resources {
  cudaframe_sim_live device;
  std::size_t threads;
  std::size_t descriptors;
};

std::size_t count_entries(const char* folder) {
  const auto entries = std::filesystem::directory_iterator(folder);
  return static_cast<std::size_t>(std::distance(begin(entries), end(entries)));
}

Resources resources() {
  return {Simulator::get()->live(), count_entries("/proc/self/task"),
          count_entries("/proc/self/fd")};
}

/// One life of a pipeline of 30 small frames: to the end, stopped while it prerolls, or stopped
/// after some frames.
void play_round(const std::string& description, int round, int frames) {
  Pipeline pipeline(description, std::getenv("CUDAFRAME_SMALL_CLIP"));
  if (round % 10 == 0) {
    pipeline.set_state(GST_STATE_PLAYING);
    EXPECT_EQ(pipeline.take(100), 30) << "round " << round;
  } else if (round % 10 == 1) {
    pipeline.set_state(GST_STATE_PAUSED);
  } else {
    pipeline.set_state(GST_STATE_PLAYING);
    EXPECT_EQ(pipeline.take(frames), frames) << "round " << round;
  }
  pipeline.set_state(GST_STATE_NULL);
  EXPECT_TRUE(pipeline.errors().empty()) << "round " << round;
}

TEST_P(LifecycleTest, TwoHundredRoundsLeaveNothingBehind) {
  std::mt19937 random(1);
  Resources early{};
  Simulator::get()->reset_counts();
  for (int round = 1; round <= 200; ++round) {
    play_round(description(), round, static_cast<int>(random() % 25));
    if (round == 20) early = resources();
  }
  const Resources late = resources();
  EXPECT_EQ(late.device.allocations, 0u);
  EXPECT_EQ(late.device.pinned_allocations, 0u);
  EXPECT_EQ(late.device.decoders, early.device.decoders) << "kept for the next stream";
  EXPECT_EQ(late.device.parsers, 0u);
  EXPECT_EQ(late.device.streams, 0u);
  EXPECT_LE(late.device.events, early.device.events + 16) << "recycled, not made anew";
  // GLib keeps a few idle threads of its pools, now more, now fewer; a leak would be 180 or so.
  EXPECT_LE(late.threads, early.threads + 4);
  EXPECT_LE(late.descriptors, early.descriptors);
  EXPECT_LE(Simulator::get()->call_count("cuDevicePrimaryCtxRetain"), 1u) << "one context in all";
}

}  // namespace
