// SPDX-License-Identifier: LGPL-2.1-or-later
// The hazards of stream-ordered memory, through the public API: what is right stays unreported on
// every schedule, what is wrong is reported on every schedule.

#include <cuda.h>
#include <gst/cudaframe/cudaframe.h>
#include <gst/video/video.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include "order_support.h"
#include "tests/support/gst_helpers.h"

namespace cudaframe::test {
namespace {

constexpr guint kWidth = 32;
constexpr guint kHeight = 16;
constexpr std::size_t kFrameBytes = kWidth * kHeight * 3;
constexpr int kFrames = 40;

using Setting = std::tuple<const char*, GstCudaFrameReusePolicy>;

class HazardTest : public testing::TestWithParam<Setting> {
 protected:
  void SetUp() override {
    ASSERT_EQ(sim().set_mode(std::get<0>(GetParam())), 0);
    context_.emplace();
    gst_video_info_set_format(&info_, GST_VIDEO_FORMAT_RGB, kWidth, kHeight);
    cuStreamCreate(&producer_, CU_STREAM_NON_BLOCKING);
    consumer_.emplace(kFrameBytes);
    use_pool(2);
  }
  void TearDown() override {
    gst_clear_object(&allocator_);
    consumer_.reset();
    cuStreamDestroy(producer_);
    context_.reset();
  }
  void use_pool(guint max_frames) {
    gst_clear_object(&allocator_);
    allocator_ = gst_cuda_frame_allocator_new(-1, policy(), max_frames, 0, nullptr);
    ASSERT_NE(allocator_, nullptr);
  }
  static GstCudaFrameReusePolicy policy() { return std::get<1>(GetParam()); }
  static GstMemory* memory_of(GstBuffer* buffer) { return gst_buffer_peek_memory(buffer, 0); }

  /// A frame whose write has been queued, and recorded.
  GstBuffer* produce() {
    GstBuffer* buffer = gst_cuda_frame_allocator_alloc(allocator_, &info_, producer_);
    CUdeviceptr address = 0;
    gsize pitch = 0;
    EXPECT_TRUE(gst_cuda_frame_memory_get_plane(memory_of(buffer), 0, &address, &pitch));
    EXPECT_EQ(cuMemsetD2D8Async(address, pitch, 7, kWidth * 3, kHeight, producer_), CUDA_SUCCESS);
    EXPECT_TRUE(gst_cuda_frame_memory_record_write(memory_of(buffer), producer_));
    return buffer;
  }
  void run(Care care, int frames = kFrames) {
    for (int i = 0; i < frames; ++i) {
      GstBuffer* buffer = produce();
      consumer_->read(buffer, care);
      gst_buffer_unref(buffer);
    }
  }
  guint64 stat(const char* name) {
    GstStructure* stats = gst_cuda_frame_allocator_get_stats(allocator_);
    const guint64 value = stat_of(stats, name);
    gst_structure_free(stats);
    return value;
  }
  static void expect_report(const char* word) {
    const std::string texts = sim().violations();
    EXPECT_NE(texts.find(word), std::string::npos) << "reported: " << texts;
  }

  std::optional<CurrentContext> context_;
  std::optional<Consumer> consumer_;
  GstVideoInfo info_{};
  CUstream producer_ = nullptr;
  GstCudaFrameAllocator* allocator_ = nullptr;
};

// ---- Right: a report fails these (see Simulator::violations())

TEST_P(HazardTest, OnOneStreamNothingIsNeeded) {
  CUdeviceptr target = 0;
  ASSERT_EQ(cuMemAlloc(&target, kFrameBytes), CUDA_SUCCESS);
  for (int i = 0; i < kFrames; ++i) {
    GstBuffer* buffer = produce();
    CUdeviceptr address = 0;
    EXPECT_TRUE(gst_cuda_frame_memory_get_plane(memory_of(buffer), 0, &address, nullptr));
    EXPECT_EQ(cuMemcpyDtoDAsync(target, address, kWidth * 3, producer_), CUDA_SUCCESS);
    gst_buffer_unref(buffer);
  }
  EXPECT_EQ(stat("blocks-created"), 1u);
  cuMemFree(target);
}

TEST_P(HazardTest, WaitReadRecord) {
  sim().reset_counts();
  run(Care::wait_and_record);
  EXPECT_EQ(sim().host_synchronizations(), 0u);
}

TEST_P(HazardTest, RecordBeforeTheReads) {
  run(Care::record_first);
}

TEST_P(HazardTest, AnEventOfTheReadersOwn) {
  run(Care::wait_and_event);
}

TEST_P(HazardTest, AFullWaitOfTheHost) {
  for (int i = 0; i < kFrames; ++i) {
    GstBuffer* buffer = produce();
    cuStreamSynchronize(producer_);
    consumer_->read(buffer, Care::nothing_for_write);
    cuStreamSynchronize(consumer_->stream());
    gst_buffer_unref(buffer);
  }
}

TEST_P(HazardTest, TwoConsumers) {
  Consumer second(kFrameBytes);
  for (int i = 0; i < kFrames; ++i) {
    GstBuffer* buffer = produce();
    GstBuffer* other = gst_buffer_ref(buffer);  // as a tee gives it
    consumer_->read(buffer);
    gst_buffer_unref(buffer);
    second.read(other, Care::wait_and_event);
    gst_buffer_unref(other);
  }
}

TEST_P(HazardTest, AShallowCopy) {
  for (int i = 0; i < kFrames; ++i) {
    GstBuffer* buffer = produce();
    GstBuffer* copy = gst_buffer_copy(buffer);
    gst_buffer_unref(buffer);
    consumer_->read(copy);
    gst_buffer_unref(copy);
  }
}

TEST_P(HazardTest, AMappedFrame) {
  for (int i = 0; i < kFrames; ++i) {
    GstBuffer* buffer = produce();
    GstMapInfo map;
    ASSERT_TRUE(
        gst_buffer_map(buffer, &map, static_cast<GstMapFlags>(GST_MAP_READ | GST_MAP_CUDA_FRAME)));
    consumer_->read(buffer);
    gst_buffer_unmap(buffer, &map);
    ASSERT_TRUE(gst_buffer_map(buffer, &map, GST_MAP_READ));  // to the CPU: waits for the copy
    EXPECT_EQ(map.data[0], 7);
    gst_buffer_unmap(buffer, &map);
    gst_buffer_unref(buffer);
  }
}

TEST_P(HazardTest, DroppedBeforeItIsWritten) {
  for (int i = 0; i < kFrames; ++i) gst_buffer_unref(produce());
  EXPECT_EQ(stat("blocks-created"), 1u);
}

TEST_P(HazardTest, WrittenBySomebodyElseAfterIt) {
  Consumer second(kFrameBytes);
  CUstream other = nullptr;
  ASSERT_EQ(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
  for (int i = 0; i < kFrames; ++i) {
    GstBuffer* buffer = produce();
    consumer_->read(buffer);
    CUdeviceptr address = 0;
    EXPECT_TRUE(gst_cuda_frame_memory_wait_to_write(memory_of(buffer), other));
    EXPECT_TRUE(gst_cuda_frame_memory_get_plane(memory_of(buffer), 0, &address, nullptr));
    EXPECT_EQ(cuMemsetD8Async(address, 9, kWidth, other), CUDA_SUCCESS);
    EXPECT_TRUE(gst_cuda_frame_memory_record_write(memory_of(buffer), other));
    second.read(buffer);
    gst_buffer_unref(buffer);
  }
  cuStreamDestroy(other);
}

TEST_P(HazardTest, AStreamThatGoesAfterItsEventWasTaken) {
  std::optional<Consumer> brief(std::in_place, kFrameBytes);
  GstBuffer* buffer = produce();
  brief->read(buffer, Care::wait_and_event);
  brief.reset();
  gst_buffer_unref(buffer);
  for (int i = 0; i < 4; ++i) gst_buffer_unref(produce());
}

TEST_P(HazardTest, BoundedPoolsOfEverySizeStayBounded) {
  if (policy() != GST_CUDA_FRAME_REUSE_BOUNDED_POOL) return;
  for (const guint bound : {1u, 2u, 8u}) {
    use_pool(bound);
    sim().reset_counts();
    run(Care::wait_and_record);
    EXPECT_LE(stat("blocks-created"), bound);
    EXPECT_LE(stat("peak-in-flight"), bound);
    EXPECT_EQ(stat("host-waits"), 0u) << "only the device waits";
    EXPECT_EQ(sim().host_synchronizations(), 0u);
  }
}

TEST_P(HazardTest, RecordStreamNeverStallsAndSettlesWhenTheReaderCatchesUp) {
  if (policy() != GST_CUDA_FRAME_REUSE_RECORD_STREAM) return;
  {
    HeldStream held(consumer_->stream());
    run(Care::wait_and_record, 20);
    EXPECT_EQ(stat("blocks-created"), 20u) << "memory that is being read is withheld";
    EXPECT_EQ(stat("host-waits"), 0u);
  }
  cuStreamSynchronize(consumer_->stream());
  EXPECT_EQ(stat("in-flight"), 0u);
  run(Care::wait_and_record, 20);
  EXPECT_EQ(stat("blocks-created"), 20u) << "what came back is used again";
}

TEST_P(HazardTest, ReleasesFromManyThreads) {
  use_pool(8);
  for (int round = 0; round < 5; ++round) {
    std::vector<std::thread> threads;
    for (int i = 0; i < 8; ++i) {
      GstBuffer* buffer = produce();
      consumer_->read(buffer);
      threads.emplace_back([buffer] { gst_buffer_unref(buffer); });
    }
    for (std::thread& thread : threads) thread.join();
  }
  EXPECT_EQ(stat("frames"), 40u);
}

// ---- Wrong: reported on every schedule

TEST_P(HazardTest, AMissingWaitIsReported) {
  run(Care::nothing_for_write, 1);
  expect_report("RACE");
}

TEST_P(HazardTest, AMissingKeepAliveIsReported) {
  use_pool(1);
  run(Care::nothing_for_reuse, 2);
  expect_report("RACE");
}

TEST_P(HazardTest, AWriteThatIsNotRecordedIsReported) {
  GstBuffer* buffer = produce();
  CUdeviceptr address = 0;
  EXPECT_TRUE(gst_cuda_frame_memory_get_plane(memory_of(buffer), 0, &address, nullptr));
  EXPECT_EQ(cuMemsetD8Async(address, 9, kWidth, producer_), CUDA_SUCCESS);  // after record_write
  consumer_->read(buffer);
  gst_buffer_unref(buffer);
  expect_report("RACE");
}

TEST_P(HazardTest, AWriteThatDoesNotWaitForReadersIsReported) {
  GstBuffer* buffer = produce();
  consumer_->read(buffer);
  CUdeviceptr address = 0;
  EXPECT_TRUE(gst_cuda_frame_memory_get_plane(memory_of(buffer), 0, &address, nullptr));
  EXPECT_EQ(cuMemsetD8Async(address, 9, kWidth, producer_), CUDA_SUCCESS);
  gst_buffer_unref(buffer);
  expect_report("RACE");
}

// The caller's error, as the header says: the stream must outlive the last reference.
TEST_P(HazardTest, AStreamThatGoesBeforeTheFrameIsReported) {
  std::optional<Consumer> brief(std::in_place, kFrameBytes);
  GstBuffer* buffer = produce();
  brief->read(buffer, Care::wait_and_record);
  brief.reset();
  gst_buffer_unref(buffer);
  expect_report("is no stream");
}

INSTANTIATE_TEST_SUITE_P(Schedules, HazardTest,
                         testing::Combine(testing::Values("lazy", "shuffled:1", "shuffled:2",
                                                          "shuffled:3"),
                                          testing::Values(GST_CUDA_FRAME_REUSE_BOUNDED_POOL,
                                                          GST_CUDA_FRAME_REUSE_RECORD_STREAM)),
                         [](const testing::TestParamInfo<Setting>& param) {
                           std::string name = std::get<0>(param.param);
                           std::replace(name.begin(), name.end(), ':', '_');
                           return name +
                                  (std::get<1>(param.param) == GST_CUDA_FRAME_REUSE_BOUNDED_POOL
                                       ? "BoundedPool"
                                       : "RecordStream");
                         });

}  // namespace
}  // namespace cudaframe::test
