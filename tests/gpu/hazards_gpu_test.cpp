// SPDX-License-Identifier: LGPL-2.1-or-later
// The order of work on real hardware: with a long kernel in the way, what is not waited for really
// goes wrong, and what is ordered stays right, however busy the GPU is.

#include <gst/cudaframe/cudaframe.h>
#include <gst/gst.h>
#include <gst/video/video.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <vector>

#include "cuda/context.h"
#include "tests/support/pipeline.h"

namespace {

using cudaframe::cuda::Context;
using cudaframe::cuda::ContextScope;
using cudaframe::cuda::Driver;
using cudaframe::test::Pipeline;

constexpr std::uint64_t kLongNs = 30'000'000;
constexpr std::uint64_t kBusyNs = 1'000'000;
constexpr int kRuns = 50;
constexpr int kFrames = 40;

// Keeps its threads until so many nanoseconds have gone by.
constexpr char kSpinPtx[] = R"(
.version 7.0
.target sm_75
.address_size 64
.visible .entry spin(.param .u64 ns)
{
  .reg .u64 %rd<5>;
  .reg .pred %p<2>;
  ld.param.u64 %rd1, [ns];
  mov.u64 %rd2, %globaltimer;
again:
  mov.u64 %rd3, %globaltimer;
  sub.u64 %rd4, %rd3, %rd2;
  setp.lt.u64 %p1, %rd4, %rd1;
  @%p1 bra again;
  ret;
}
)";

Context& device() {
  static Context* const context = [] {
    cudaframe::Result<Context*> made = Context::for_device(0);
    if (!made.ok()) std::abort();
    return *made;
  }();
  return *context;
}
const Driver& cu() {
  return device().driver();
}
#define EXPECT_CUDA(call) EXPECT_EQ((call), CUDA_SUCCESS)

class Spinner {
 public:
  Spinner() {
    EXPECT_CUDA(cu().cuModuleLoadData(&module_, kSpinPtx));
    EXPECT_CUDA(cu().cuModuleGetFunction(&function_, module_, "spin"));
  }
  ~Spinner() { cu().cuModuleUnload(module_); }
  Spinner(const Spinner&) = delete;
  Spinner& operator=(const Spinner&) = delete;

  void queue(CUstream stream, std::uint64_t ns, unsigned blocks = 1) const {
    void* arguments[] = {&ns};
    EXPECT_CUDA(
        cu().cuLaunchKernel(function_, blocks, 1, 1, 256, 1, 1, 0, stream, arguments, nullptr));
  }

 private:
  CUmodule module_ = nullptr;
  CUfunction function_ = nullptr;
};

CUstream make_stream() {
  CUstream stream = nullptr;
  EXPECT_CUDA(cu().cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  return stream;
}

unsigned char* make_pinned(std::size_t bytes, int value) {
  void* memory = nullptr;
  EXPECT_CUDA(cu().cuMemHostAlloc(&memory, bytes, 0));
  std::memset(memory, value, bytes);
  return static_cast<unsigned char*>(memory);
}

/// Between a frame's only plane and pinned memory without padding.
void queue_copy(GstBuffer* buffer, unsigned char* host, bool to_host, CUstream stream) {
  GstMemory* mem = gst_buffer_peek_memory(buffer, 0);
  const GstVideoMeta* meta = gst_buffer_get_video_meta(buffer);
  CUdeviceptr address = 0;
  gsize pitch = 0;
  ASSERT_TRUE(gst_cuda_frame_memory_get_plane(mem, 0, &address, &pitch));
  CUDA_MEMCPY2D copy{};
  copy.WidthInBytes = std::size_t{3} * meta->width;
  copy.Height = meta->height;
  copy.srcMemoryType = to_host ? CU_MEMORYTYPE_DEVICE : CU_MEMORYTYPE_HOST;
  copy.dstMemoryType = to_host ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
  (to_host ? copy.srcDevice : copy.dstDevice) = address;
  (to_host ? copy.srcPitch : copy.dstPitch) = pitch;
  (to_host ? copy.dstPitch : copy.srcPitch) = copy.WidthInBytes;
  copy.srcHost = copy.dstHost = host;
  EXPECT_CUDA(cu().cuMemcpy2DAsync(&copy, stream));
}

// ---- One frame, a producer and a consumer

constexpr guint kWidth = 640;
constexpr guint kHeight = 360;
constexpr std::size_t kBytes = std::size_t{3} * kWidth * kHeight;

class HazardGpuTest : public testing::Test {
 protected:
  HazardGpuTest() : scope_(device()) {
    gst_video_info_set_format(&info_, GST_VIDEO_FORMAT_RGB, kWidth, kHeight);
    allocator_ = gst_cuda_frame_allocator_new(0, GST_CUDA_FRAME_REUSE_BOUNDED_POOL, 1, 0, nullptr);
    for (int i = 0; i < 3; ++i) value_[i] = make_pinned(kBytes, i);
    target_ = make_pinned(kBytes, 0xff);
    producer_ = make_stream();
    consumer_ = make_stream();
    drop(produce(0));  // what the block holds before
    cu().cuStreamSynchronize(producer_);
  }
  ~HazardGpuTest() override {
    gst_clear_object(&allocator_);
    cu().cuStreamDestroy(producer_);
    cu().cuStreamDestroy(consumer_);
    for (unsigned char* memory : value_) cu().cuMemFreeHost(memory);
    cu().cuMemFreeHost(target_);
  }
  /// The only block, with all bytes `value`, written after a delay.
  GstBuffer* produce(int value, std::uint64_t delay_ns = 0) {
    GstBuffer* buffer = gst_cuda_frame_allocator_alloc(allocator_, &info_, producer_);
    if (delay_ns > 0) spinner_.queue(producer_, delay_ns);
    queue_copy(buffer, value_[value], false, producer_);
    EXPECT_TRUE(gst_cuda_frame_memory_record_write(gst_buffer_peek_memory(buffer, 0), producer_));
    return buffer;
  }
  static void drop(GstBuffer* buffer) { gst_buffer_unref(buffer); }
  /// How many bytes of what the consumer has read are `value`.
  long count(int value) {
    EXPECT_CUDA(cu().cuStreamSynchronize(consumer_));
    return std::count(target_, target_ + kBytes, static_cast<unsigned char>(value));
  }

  ContextScope scope_;
  Spinner spinner_;
  GstVideoInfo info_{};
  GstCudaFrameAllocator* allocator_ = nullptr;
  unsigned char* value_[3] = {};
  unsigned char* target_ = nullptr;
  CUstream producer_ = nullptr;
  CUstream consumer_ = nullptr;
};

TEST_F(HazardGpuTest, AReadThatWaitsIsRight) {
  GstBuffer* buffer = produce(1, kLongNs);
  EXPECT_TRUE(gst_cuda_frame_memory_wait(gst_buffer_peek_memory(buffer, 0), consumer_));
  queue_copy(buffer, target_, true, consumer_);
  EXPECT_EQ(count(1), static_cast<long>(kBytes));
  drop(buffer);
}

TEST_F(HazardGpuTest, AReadThatDoesNotWaitSeesTheFrameBefore) {
  GstBuffer* buffer = produce(1, kLongNs);
  queue_copy(buffer, target_, true, consumer_);
  EXPECT_EQ(count(0), static_cast<long>(kBytes)) << "no corruption: this proves nothing here";
  drop(buffer);
  cu().cuStreamSynchronize(producer_);
}

TEST_F(HazardGpuTest, AReadThatIsRecordedKeepsItsFrame) {
  GstBuffer* buffer = produce(1);
  GstMemory* mem = gst_buffer_peek_memory(buffer, 0);
  EXPECT_TRUE(gst_cuda_frame_memory_wait(mem, consumer_));
  spinner_.queue(consumer_, kLongNs);
  queue_copy(buffer, target_, true, consumer_);
  EXPECT_TRUE(gst_cuda_frame_memory_record_stream(mem, consumer_));
  drop(buffer);
  drop(produce(2));
  EXPECT_EQ(count(1), static_cast<long>(kBytes));
}

TEST_F(HazardGpuTest, AReadThatIsNotRecordedGetsTheNextFrame) {
  GstBuffer* buffer = produce(1);
  EXPECT_TRUE(gst_cuda_frame_memory_wait(gst_buffer_peek_memory(buffer, 0), consumer_));
  spinner_.queue(consumer_, kLongNs);
  queue_copy(buffer, target_, true, consumer_);
  drop(buffer);
  drop(produce(2));
  EXPECT_EQ(count(2), static_cast<long>(kBytes)) << "no corruption: this proves nothing here";
}

// ---- A pipeline on a busy GPU

/// A thread that leaves no multiprocessor idle for long.
class BusyGpu {
 public:
  BusyGpu()
      : thread_([this] {
          const ContextScope scope(device());
          const Spinner spinner;
          const CUstream stream = make_stream();
          while (!stop_) {
            for (int i = 0; i < 8; ++i) spinner.queue(stream, kBusyNs, kBlocks);
            EXPECT_CUDA(cu().cuStreamSynchronize(stream));
          }
          cu().cuStreamDestroy(stream);
        }) {}
  ~BusyGpu() {
    stop_ = true;
    thread_.join();
  }
  BusyGpu(const BusyGpu&) = delete;
  BusyGpu& operator=(const BusyGpu&) = delete;

 private:
  static constexpr unsigned kBlocks = 1056;  // all threads of an H200
  std::atomic<bool> stop_ = false;
  std::thread thread_;
};

/// The first frames of the clip as RGB, read by a consumer on its own stream, which tells the
/// product and drops each frame at once; or, `synchronised`, with the host waiting at every step.
std::size_t decode_into(unsigned char* target, CUstream consumer, const char* policy,
                        bool synchronised) {
  Pipeline pipeline(std::string("filesrc name=source ! cudademux ! cudapacketdec ") + policy +
                        " ! cudacolorconvert " + policy +
                        " ! video/x-raw(memory:CUDAFrame),format=RGB ! "
                        "appsink name=sink sync=false max-buffers=2",
                    std::getenv("CUDAFRAME_BUSY_CLIP"));
  pipeline.set_state(GST_STATE_PLAYING);
  std::size_t bytes = 0;
  for (int i = 0; i < kFrames; ++i) {
    GstSample* sample = pipeline.pull();
    if (!sample) break;
    GstBuffer* buffer = gst_sample_get_buffer(sample);
    GstMemory* mem = gst_buffer_peek_memory(buffer, 0);
    const GstVideoMeta* meta = gst_buffer_get_video_meta(buffer);
    EXPECT_TRUE(synchronised ? gst_cuda_frame_memory_synchronize(mem)
                             : gst_cuda_frame_memory_wait(mem, consumer));
    if (target) queue_copy(buffer, target + bytes, true, consumer);
    if (synchronised) {
      EXPECT_CUDA(cu().cuStreamSynchronize(consumer));
    } else {
      EXPECT_TRUE(gst_cuda_frame_memory_record_stream(mem, consumer));
    }
    bytes += std::size_t{3} * meta->width * meta->height;
    gst_sample_unref(sample);
  }
  EXPECT_CUDA(cu().cuStreamSynchronize(consumer));
  return bytes;
}

TEST(BusyGpuTest, FramesAreThoseOfASynchronisedRun) {
  if (!std::getenv("CUDAFRAME_BUSY_CLIP")) GTEST_SKIP() << "CUDAFRAME_BUSY_CLIP isn't set";
  const ContextScope scope(device());
  const CUstream consumer = make_stream();
  const std::size_t bytes = decode_into(nullptr, consumer, "", true);
  ASSERT_GT(bytes, 0u);
  unsigned char* expected = make_pinned(bytes, 0);
  unsigned char* target = make_pinned(bytes, 0);
  ASSERT_EQ(decode_into(expected, consumer, "", true), bytes);
  int wrong = 0;
  {
    const BusyGpu busy;
    for (int run = 0; run < kRuns; ++run) {
      std::memset(target, 0xff, bytes);
      const char* policy = run % 2 ? "reuse-policy=record-stream" : "reuse-policy=bounded-pool";
      EXPECT_EQ(decode_into(target, consumer, policy, false), bytes) << run;
      wrong += std::memcmp(target, expected, bytes) != 0;
    }
  }
  EXPECT_EQ(wrong, 0);
  std::printf("%d of %d runs of %d frames on a busy GPU equal the synchronised run\n",
              kRuns - wrong, kRuns, kFrames);
  cu().cuMemFreeHost(expected);
  cu().cuMemFreeHost(target);
  cu().cuStreamDestroy(consumer);
}

}  // namespace
