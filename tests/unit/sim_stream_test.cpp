// SPDX-License-Identifier: LGPL-2.1-or-later
// The simulated streams and events: what waits for what, stepped by holding streams.
#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

#include "sim_test_device.h"

namespace {

class SimStream : public SimDeviceTest {
 protected:
  void SetUp() override {
    SimDeviceTest::SetUp();
    ASSERT_OK(cuStreamCreate(&a_, CU_STREAM_NON_BLOCKING));
    ASSERT_OK(cuStreamCreate(&b_, CU_STREAM_NON_BLOCKING));
    ASSERT_OK(cuEventCreate(&event_, CU_EVENT_DISABLE_TIMING));
    ASSERT_OK(cuMemAlloc(&memory_, 64));
    ASSERT_OK(cuMemHostAlloc(&pinned_, 64, 0));
  }

  void TearDown() override {
    if (a_) {
      EXPECT_OK(cuStreamDestroy(a_));
    }
    EXPECT_OK(cuStreamDestroy(b_));
    if (event_) {
      EXPECT_OK(cuEventDestroy(event_));
    }
    EXPECT_OK(cuMemFree(memory_));
    EXPECT_OK(cuMemFreeHost(pinned_));
    SimDeviceTest::TearDown();
  }

  int pinned_byte() const { return *static_cast<volatile unsigned char*>(pinned_); }

  CUstream a_ = nullptr, b_ = nullptr;
  CUevent event_ = nullptr;
  CUdeviceptr memory_ = 0;
  void* pinned_ = nullptr;
};

TEST_F(SimStream, EagerRunsAtTheCall) {
  ASSERT_OK(cuMemsetD8Async(memory_, 7, 64, a_));
  ASSERT_OK(cuMemcpyDtoHAsync(pinned_, memory_, 64, a_));
  EXPECT_EQ(pinned_byte(), 7);
  EXPECT_OK(cuStreamQuery(a_));
}

TEST_F(SimStream, AHeldStreamStepsInOrder) {
  ASSERT_OK(cuMemsetD8(memory_, 1, 64));
  ASSERT_EQ(cudaframe_sim_block_stream(a_), 0);
  ASSERT_OK(cuMemsetD8Async(memory_, 2, 64, a_));
  ASSERT_OK(cuMemcpyDtoHAsync(pinned_, memory_, 64, a_));
  ASSERT_OK(cuEventRecord(event_, a_));
  EXPECT_EQ(cudaframe_sim_queued_operations(a_), 3u);
  EXPECT_EQ(cuStreamQuery(a_), CUDA_ERROR_NOT_READY);
  EXPECT_EQ(cuEventQuery(event_), CUDA_ERROR_NOT_READY);
  EXPECT_EQ(pinned_byte(), 0xdd);  // poisoned when the copy was queued
  unsigned char now = 0;
  ASSERT_OK(cuMemcpyDtoH(&now, memory_, 1));
  EXPECT_EQ(now, 1);
  EXPECT_EQ(cudaframe_sim_step_stream(a_, 1), 1u);
  ASSERT_OK(cuMemcpyDtoH(&now, memory_, 1));
  EXPECT_EQ(now, 2);
  EXPECT_EQ(pinned_byte(), 0xdd);
  EXPECT_EQ(cudaframe_sim_step_stream(a_, 1), 1u);
  EXPECT_EQ(pinned_byte(), 2);
  EXPECT_EQ(cuEventQuery(event_), CUDA_ERROR_NOT_READY);
  EXPECT_EQ(cudaframe_sim_step_stream(a_, 5), 1u);
  EXPECT_OK(cuEventQuery(event_));
  EXPECT_EQ(cudaframe_sim_step_stream(a_, 5), 0u);
  ASSERT_EQ(cudaframe_sim_unblock_stream(a_), 0);
  EXPECT_EQ(cudaframe_sim_block_stream(reinterpret_cast<void*>(0x999)), -1);
}

TEST_F(SimStream, OthersWaitForAHeldStreamsEventOnly) {
  ASSERT_EQ(cudaframe_sim_block_stream(a_), 0);
  ASSERT_OK(cuMemsetD8Async(memory_, 3, 64, a_));
  ASSERT_OK(cuEventRecord(event_, a_));
  ASSERT_OK(cuMemsetD8Async(memory_, 9, 64, b_));  // waits for nothing
  EXPECT_OK(cuStreamQuery(b_));
  ASSERT_OK(cuStreamWaitEvent(b_, event_, 0));
  ASSERT_OK(cuMemcpyDtoHAsync(pinned_, memory_, 64, b_));
  EXPECT_EQ(cuStreamQuery(b_), CUDA_ERROR_NOT_READY);
  // Recording again doesn't change what was waited for.
  ASSERT_OK(cuEventRecord(event_, b_));
  EXPECT_EQ(cudaframe_sim_step_stream(a_, 2), 2u);
  EXPECT_OK(cuStreamQuery(b_));
  EXPECT_OK(cuEventQuery(event_));
  EXPECT_EQ(pinned_byte(), 3);
  ASSERT_EQ(cudaframe_sim_unblock_stream(a_), 0);
}

TEST_F(SimStream, AnEventNeverRecordedIsDone) {
  EXPECT_OK(cuEventQuery(event_));
  EXPECT_OK(cuEventSynchronize(event_));
  EXPECT_OK(cuStreamWaitEvent(a_, event_, 0));
  EXPECT_OK(cuStreamQuery(a_));
}

TEST_F(SimStream, DestroyingWithWorkQueuedIsLegal) {
  ASSERT_EQ(cudaframe_sim_block_stream(a_), 0);
  ASSERT_OK(cuMemsetD8Async(memory_, 4, 64, a_));
  ASSERT_OK(cuEventRecord(event_, a_));
  ASSERT_OK(cuStreamWaitEvent(b_, event_, 0));
  ASSERT_OK(cuMemcpyDtoHAsync(pinned_, memory_, 64, b_));
  ASSERT_OK(cuStreamDestroy(a_));
  ASSERT_OK(cuEventDestroy(event_));
  testing::internal::CaptureStderr();
  EXPECT_EQ(cuStreamQuery(a_), CUDA_ERROR_INVALID_HANDLE);
  EXPECT_EQ(cuEventRecord(event_, b_), CUDA_ERROR_INVALID_HANDLE);
  EXPECT_EQ(cuStreamDestroy(a_), CUDA_ERROR_INVALID_HANDLE);
  EXPECT_NE(testing::internal::GetCapturedStderr().find("was destroyed"), std::string::npos);
  EXPECT_EQ(cuStreamQuery(b_), CUDA_ERROR_NOT_READY);
  ASSERT_EQ(cudaframe_sim_unblock_stream(a_), 0);
  EXPECT_OK(cuStreamQuery(b_));
  EXPECT_EQ(pinned_byte(), 4);
  EXPECT_EQ(cudaframe_sim_unblock_stream(a_), -1);  // drained and gone
  a_ = nullptr;
  event_ = nullptr;
}

TEST_F(SimStream, TheLegacyStreamIsOrderedWithBlockingStreamsOnly) {
  CUstream blocking = nullptr;
  ASSERT_OK(cuStreamCreate(&blocking, CU_STREAM_DEFAULT));
  ASSERT_EQ(cudaframe_sim_block_stream(blocking), 0);
  ASSERT_OK(cuMemsetD8Async(memory_, 5, 64, blocking));
  ASSERT_OK(cuMemcpyDtoHAsync(pinned_, memory_, 64, nullptr));  // after blocking's memset
  ASSERT_OK(cuMemsetD8Async(memory_, 6, 64, a_));               // non-blocking: at once
  EXPECT_OK(cuStreamQuery(a_));
  EXPECT_EQ(cuStreamQuery(CU_STREAM_LEGACY), CUDA_ERROR_NOT_READY);
  EXPECT_EQ(pinned_byte(), 0xdd);
  ASSERT_EQ(cudaframe_sim_unblock_stream(blocking), 0);
  EXPECT_EQ(pinned_byte(), 5);

  ASSERT_EQ(cudaframe_sim_block_stream(nullptr), 0);
  ASSERT_OK(cuMemsetD8Async(memory_, 7, 64, nullptr));
  ASSERT_OK(cuMemcpyDtoHAsync(pinned_, memory_, 64, blocking));  // after the legacy memset
  EXPECT_EQ(cuStreamQuery(blocking), CUDA_ERROR_NOT_READY);
  ASSERT_OK(cuMemsetD8Async(memory_, 8, 64, a_));
  EXPECT_OK(cuStreamQuery(a_));
  ASSERT_EQ(cudaframe_sim_unblock_stream(nullptr), 0);
  EXPECT_EQ(pinned_byte(), 7);
  ASSERT_OK(cuStreamDestroy(blocking));
}

TEST_F(SimStream, APinnedSourceIsReadWhenTheCopyRuns) {
  *static_cast<unsigned char*>(pinned_) = 1;
  ASSERT_EQ(cudaframe_sim_block_stream(a_), 0);
  ASSERT_OK(cuMemcpyHtoDAsync(memory_, pinned_, 1, a_));
  *static_cast<unsigned char*>(pinned_) = 2;
  ASSERT_EQ(cudaframe_sim_unblock_stream(a_), 0);
  unsigned char now = 0;
  ASSERT_OK(cuMemcpyDtoH(&now, memory_, 1));
  EXPECT_EQ(now, 2);
}

/// Runs a driver call on another thread and shows that it blocks until the stream is let go.
template <typename Function>
void expect_blocks(CUstream stream, CUcontext context, Function function) {
  std::atomic<bool> returned{false};
  CUresult result = CUDA_ERROR_UNKNOWN;
  std::thread waiter([&] {
    cuCtxPushCurrent(context);
    result = function();
    returned = true;
    cuCtxPopCurrent(nullptr);
  });
  cudaframe_sim_await_host_waits(1);
  EXPECT_FALSE(returned);
  EXPECT_EQ(cudaframe_sim_unblock_stream(stream), 0);
  waiter.join();
  EXPECT_EQ(result, CUDA_SUCCESS);
}

TEST_F(SimStream, HostWaitsBlockUntilTheStreamGoesOn) {
  const auto hold_with_work = [this] {
    ASSERT_EQ(cudaframe_sim_block_stream(a_), 0);
    ASSERT_OK(cuMemsetD8Async(memory_, 1, 64, a_));
    ASSERT_OK(cuEventRecord(event_, a_));
  };
  hold_with_work();
  expect_blocks(a_, context_, [this] { return cuEventSynchronize(event_); });
  hold_with_work();
  expect_blocks(a_, context_, [this] { return cuStreamSynchronize(a_); });
  hold_with_work();
  expect_blocks(a_, context_, [] { return cuCtxSynchronize(); });
  CUdeviceptr other = 0;
  ASSERT_OK(cuMemAlloc(&other, 16));
  hold_with_work();
  expect_blocks(a_, context_, [other] { return cuMemFree(other); });
  unsigned char pageable = 0;
  hold_with_work();
  expect_blocks(a_, context_, [&] { return cuMemcpyDtoHAsync(&pageable, memory_, 1, a_); });
  EXPECT_EQ(pageable, 1);
}

TEST_F(SimStream, ALostDeviceWakesWhoeverWaits) {
  ASSERT_EQ(cudaframe_sim_block_stream(a_), 0);
  ASSERT_OK(cuMemsetD8Async(memory_, 1, 64, a_));
  CUresult result = CUDA_SUCCESS;
  std::thread waiter([&] { result = cuStreamSynchronize(a_); });
  cudaframe_sim_await_host_waits(1);
  cudaframe_sim_set_device_lost(1);
  waiter.join();
  EXPECT_EQ(result, CUDA_ERROR_ILLEGAL_ADDRESS);
  EXPECT_EQ(cuMemsetD8Async(memory_, 1, 64, b_), CUDA_ERROR_ILLEGAL_ADDRESS);
  EXPECT_EQ(cuEventQuery(event_), CUDA_ERROR_ILLEGAL_ADDRESS);
  cudaframe_sim_set_device_lost(0);
  ASSERT_EQ(cudaframe_sim_unblock_stream(a_), 0);
  EXPECT_OK(cuMemsetD8Async(memory_, 1, 64, b_));
}

TEST_F(SimStream, FreedWhileACopyIsQueuedMeansIllegalAccess) {
  CUdeviceptr other = 0;
  ASSERT_OK(cuMemAlloc(&other, 64));
  ASSERT_EQ(cudaframe_sim_block_stream(a_), 0);
  ASSERT_OK(cuMemcpyDtoDAsync(memory_, other, 64, a_));
  // cuMemFree waits for the copy.
  expect_blocks(a_, context_, [other] { return cuMemFree(other); });
  EXPECT_EQ(cuMemcpyDtoDAsync(memory_, other, 64, a_), CUDA_ERROR_ILLEGAL_ADDRESS);
  cudaframe_sim_set_device_lost(0);
}

TEST_F(SimStream, ManyThreadsOnTheirOwnStreams) {
  constexpr int kThreads = 4;
  constexpr int kRounds = 200;
  std::vector<std::thread> threads;
  std::atomic<int> wrong{0};
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&wrong, t, this] {
      cuCtxPushCurrent(context_);
      CUstream stream = nullptr;
      CUevent done = nullptr;
      CUdeviceptr memory = 0;
      void* host = nullptr;
      cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING);
      cuEventCreate(&done, CU_EVENT_DISABLE_TIMING);
      cuMemAlloc(&memory, 256);
      cuMemHostAlloc(&host, 256, 0);
      for (int i = 0; i < kRounds; ++i) {
        const auto value = static_cast<unsigned char>(i + t);
        cuMemsetD8Async(memory, value, 256, stream);
        cuMemcpyDtoHAsync(host, memory, 256, stream);
        cuEventRecord(done, stream);
        if (cuEventSynchronize(done) != CUDA_SUCCESS ||
            static_cast<unsigned char*>(host)[255] != value) {
          ++wrong;
        }
      }
      cuMemFree(memory);
      cuMemFreeHost(host);
      cuEventDestroy(done);
      cuStreamDestroy(stream);
      cuCtxPopCurrent(nullptr);
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

}  // namespace
