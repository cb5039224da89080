// SPDX-License-Identifier: LGPL-2.1-or-later
// What both reuse policies promise, and what each of them adds.

#include "memory/memory_policy.h"

#include <atomic>
#include <set>
#include <thread>

#include "tests/support/frames.h"
#include "tests/support/simulator.h"

namespace cudaframe::memory {
namespace {

using test::HeldStream;
using test::HostBuffer;
using test::must;
using test::queue_read;
using test::queue_write;
using test::Simulator;
using test::synchronize;

class PolicyTest : public testing::TestWithParam<ReusePolicy> {
 protected:
  void SetUp() override {
    ASSERT_NE(Simulator::get(), nullptr) << "needs the simulated device on LD_LIBRARY_PATH";
    context_ = must(cuda::Context::for_device(0));
    writer_ = must(cuda::Stream::create(*context_));
    reader_ = must(cuda::Stream::create(*context_));
    before_ = sim().live();
  }
  void TearDown() override {
    writer_.reset();
    reader_.reset();
    EXPECT_EQ(sim().live().allocations, before_.allocations) << "device memory leaked";
  }

  static const Simulator& sim() { return *Simulator::get(); }
  static FrameLayout layout(int width = 64, int height = 32) {
    return must(make_device_layout(PixelFormat::nv12, width, height));
  }
  std::shared_ptr<MemoryPolicy> make(PolicyConfig config = {}) {
    return make(GetParam(), std::move(config));
  }
  std::shared_ptr<MemoryPolicy> make(ReusePolicy policy, PolicyConfig config) {
    return MemoryPolicy::create(policy, *context_, MemoryKind::device, std::move(config));
  }
  /// Room for `frames` frames under either policy.
  static PolicyConfig room_for(std::size_t frames) {
    return {.max_frames = frames, .max_bytes = frames * layout().bytes};
  }
  void add_reader(const Frame& frame, const cuda::StreamPtr& stream) {
    EXPECT_OK(
        frame.fence().add_reader({must(context_->events().record(stream->handle())), stream}));
  }
  static void await_waiting(const MemoryPolicy& policy, std::size_t count) {
    while (policy.waiting() < count) std::this_thread::yield();
  }

  cuda::Context* context_ = nullptr;
  cuda::StreamPtr writer_;
  cuda::StreamPtr reader_;
  cudaframe_sim_live before_{};
};

INSTANTIATE_TEST_SUITE_P(Both, PolicyTest,
                         testing::Values(ReusePolicy::record_stream, ReusePolicy::bounded_pool),
                         [](const auto& instance) {
                           return instance.param == ReusePolicy::record_stream ? "RecordStream"
                                                                               : "BoundedPool";
                         });

TEST_P(PolicyTest, FrameHasLayoutKindAndContext) {
  const auto policy = make();
  const FramePtr frame = must(policy->allocate(layout(), writer_));
  EXPECT_EQ(frame->layout(), layout());
  EXPECT_EQ(frame->kind(), MemoryKind::device);
  EXPECT_EQ(&frame->context(), context_);
  EXPECT_NE(frame->device_address(), 0u);
  EXPECT_EQ(frame->device_address(1) - frame->device_address(0), layout().planes[1].offset);
}

// The tutorial's hazard: reads are only queued when the frame is dropped and its memory rewritten.
TEST_P(PolicyTest, ReuseWaitsForReaders) {
  const auto policy = make(room_for(1));
  HostBuffer ones(*context_, layout(), 1), twos(*context_, layout(), 2),
      seen(*context_, layout(), 0);
  HeldStream held(reader_->handle());

  FramePtr frame = must(policy->allocate(layout(), writer_));
  queue_write(*frame, ones, writer_);
  EXPECT_OK(frame->fence().wait(reader_));
  queue_read(*frame, seen, reader_);
  add_reader(*frame, reader_);
  const CUdeviceptr address = frame->device_address();
  frame.reset();

  frame = must(policy->allocate(layout(), writer_));
  EXPECT_EQ(frame->device_address(), address) << "one block only: it must be the same";
  queue_write(*frame, twos, writer_);
  EXPECT_FALSE(must(frame->fence().is_ready())) << "the write must wait for the reader";
  held.let_go();
  synchronize(reader_);
  synchronize(writer_);
  EXPECT_TRUE(seen.is_all(1));
}

// Negative control: without the keep-alive the same steps do corrupt what the reader sees.
TEST_P(PolicyTest, ReuseWithoutReaderCorrupts) {
  const auto policy = make(room_for(1));
  HostBuffer ones(*context_, layout(), 1), twos(*context_, layout(), 2),
      seen(*context_, layout(), 0);
  HeldStream held(reader_->handle());

  FramePtr frame = must(policy->allocate(layout(), writer_));
  queue_write(*frame, ones, writer_);
  EXPECT_OK(frame->fence().wait(reader_));
  queue_read(*frame, seen, reader_);
  frame.reset();  // nobody was told about the reader

  frame = must(policy->allocate(layout(), writer_));
  queue_write(*frame, twos, writer_);
  synchronize(writer_);
  held.let_go();
  synchronize(reader_);
  EXPECT_TRUE(seen.is_all(2));
}

// Negative control for the wait on `ready`.
TEST_P(PolicyTest, ReadWithoutWaitSeesOldBytes) {
  const auto policy = make();
  HostBuffer ones(*context_, layout(), 1), seen(*context_, layout(), 0);
  const FramePtr frame = must(policy->allocate(layout(), writer_));
  HeldStream held(writer_->handle());
  queue_write(*frame, ones, writer_);
  queue_read(*frame, seen, reader_);
  synchronize(reader_);
  EXPECT_FALSE(seen.is_all(1));

  EXPECT_OK(frame->fence().wait(reader_));
  queue_read(*frame, seen, reader_);
  EXPECT_FALSE(must(frame->fence().is_ready()));
  held.let_go();
  synchronize(reader_);
  EXPECT_TRUE(seen.is_all(1));
}

TEST_P(PolicyTest, RecordedStreamDelaysReuse) {
  for (const bool record_first : {true, false}) {
    const auto policy = make(room_for(1));
    HostBuffer ones(*context_, layout(), 1), twos(*context_, layout(), 2),
        seen(*context_, layout(), 0);
    HeldStream held(reader_->handle());
    FramePtr frame = must(policy->allocate(layout(), writer_));
    queue_write(*frame, ones, writer_);
    EXPECT_OK(frame->fence().wait(reader_));
    if (record_first) EXPECT_OK(frame->fence().record_stream(reader_));
    queue_read(*frame, seen, reader_);
    if (!record_first) EXPECT_OK(frame->fence().record_stream(reader_));
    frame.reset();
    frame = must(policy->allocate(layout(), writer_));
    queue_write(*frame, twos, writer_);
    held.let_go();
    synchronize(reader_);
    EXPECT_TRUE(seen.is_all(1)) << "record_stream " << (record_first ? "before" : "after");
  }
}

TEST_P(PolicyTest, TwoReadersBothDelayReuse) {
  const auto policy = make(room_for(1));
  const cuda::StreamPtr other = must(cuda::Stream::create(*context_));
  HostBuffer ones(*context_, layout(), 1), twos(*context_, layout(), 2),
      seen(*context_, layout(), 0);
  HeldStream held(reader_->handle());
  FramePtr frame = must(policy->allocate(layout(), writer_));
  queue_write(*frame, ones, writer_);
  EXPECT_OK(frame->fence().wait(reader_));
  queue_read(*frame, seen, reader_);
  add_reader(*frame, other);  // done at once; must not hide the slow one, whatever the order
  add_reader(*frame, reader_);
  add_reader(*frame, other);
  frame.reset();
  frame = must(policy->allocate(layout(), writer_));
  queue_write(*frame, twos, writer_);
  held.let_go();
  synchronize(reader_);
  EXPECT_TRUE(seen.is_all(1));
}

TEST_P(PolicyTest, AnotherWriterWaitsForTheLastWrite) {
  const auto policy = make(room_for(1));
  HostBuffer ones(*context_, layout(), 1), twos(*context_, layout(), 2),
      seen(*context_, layout(), 0);
  HeldStream held(writer_->handle());
  FramePtr frame = must(policy->allocate(layout(), writer_));
  queue_write(*frame, ones, writer_);
  frame.reset();  // dropped before its write is done

  frame = must(policy->allocate(layout(), reader_));
  queue_write(*frame, twos, reader_);
  EXPECT_FALSE(must(frame->fence().is_ready()));
  held.let_go();
  synchronize(writer_);
  queue_read(*frame, seen, reader_);
  synchronize(reader_);
  EXPECT_TRUE(seen.is_all(2)) << "the first write must not come last";
}

TEST_P(PolicyTest, UnwrittenFramePassesItsPastOn) {
  const auto policy = make(room_for(1));
  HostBuffer ones(*context_, layout(), 1), twos(*context_, layout(), 2),
      seen(*context_, layout(), 0);
  HeldStream held(reader_->handle());
  FramePtr frame = must(policy->allocate(layout(), writer_));
  queue_write(*frame, ones, writer_);
  EXPECT_OK(frame->fence().wait(reader_));
  queue_read(*frame, seen, reader_);
  add_reader(*frame, reader_);
  frame.reset();
  frame = must(policy->allocate(layout(), writer_));
  frame.reset();  // acquired and dropped without a write
  const cuda::StreamPtr third = must(cuda::Stream::create(*context_));
  frame = must(policy->allocate(layout(), third));
  queue_write(*frame, twos, third);
  held.let_go();
  synchronize(reader_);
  synchronize(third);
  EXPECT_TRUE(seen.is_all(1));
}

TEST_P(PolicyTest, FirstWriteOnAnotherStreamWaitsForThePast) {
  const auto policy = make(room_for(1));
  HostBuffer ones(*context_, layout(), 1), twos(*context_, layout(), 2),
      seen(*context_, layout(), 0);
  HeldStream held(reader_->handle());
  FramePtr frame = must(policy->allocate(layout(), writer_));
  queue_write(*frame, ones, writer_);
  EXPECT_OK(frame->fence().wait(reader_));
  queue_read(*frame, seen, reader_);
  add_reader(*frame, reader_);
  frame.reset();
  frame = must(policy->allocate(layout(), writer_));
  const cuda::StreamPtr third = must(cuda::Stream::create(*context_));
  EXPECT_OK(frame->fence().wait_to_write(third->handle()));
  queue_write(*frame, twos, third);
  held.let_go();
  synchronize(reader_);
  synchronize(third);
  EXPECT_TRUE(seen.is_all(1));
}

TEST_P(PolicyTest, WaitToWriteCoversReadersAndRecordedStreams) {
  const auto policy = make();
  const cuda::StreamPtr third = must(cuda::Stream::create(*context_));
  HostBuffer ones(*context_, layout(), 1), twos(*context_, layout(), 2),
      seen(*context_, layout(), 0), also(*context_, layout(), 0);
  FramePtr frame = must(policy->allocate(layout(), writer_));
  queue_write(*frame, ones, writer_);
  HeldStream held(reader_->handle());
  HeldStream held_third(third->handle());
  EXPECT_OK(frame->fence().wait(reader_));
  queue_read(*frame, seen, reader_);
  add_reader(*frame, reader_);
  EXPECT_OK(frame->fence().wait(third));
  EXPECT_OK(frame->fence().record_stream(third));
  queue_read(*frame, also, third);
  EXPECT_OK(frame->fence().wait_to_write(writer_->handle()));
  queue_write(*frame, twos, writer_);
  held.let_go();
  held_third.let_go();
  synchronize(reader_);
  synchronize(third);
  EXPECT_TRUE(seen.is_all(1));
  EXPECT_TRUE(also.is_all(1));
}

TEST_P(PolicyTest, SameStreamNeedsNoWaits) {
  const auto policy = make(room_for(1));
  HostBuffer ones(*context_, layout(), 1);
  for (int i = 0; i < 3; ++i) {
    const FramePtr frame = must(policy->allocate(layout(), writer_));
    queue_write(*frame, ones, writer_);
    EXPECT_OK(frame->fence().wait(writer_));
    if (i == 0) sim().reset_counts();
  }
  EXPECT_EQ(sim().call_count("cuStreamWaitEvent"), 0u);
}

// The driver recycles handles: an equal handle in another object is another stream.
TEST_P(PolicyTest, EqualHandleOfAnotherObjectWaits) {
  const auto policy = make();
  HostBuffer ones(*context_, layout(), 1);
  const FramePtr frame = must(policy->allocate(layout(), writer_));
  queue_write(*frame, ones, writer_);
  const cuda::StreamPtr alias = must(cuda::Stream::wrap(*context_, writer_->handle()));
  sim().reset_counts();
  EXPECT_OK(frame->fence().wait(alias));
  EXPECT_EQ(sim().call_count("cuStreamWaitEvent"), 1u);
}

TEST_P(PolicyTest, SteadyStateAllocatesAndSynchronizesNothing) {
  const auto policy = make();
  HostBuffer ones(*context_, layout(), 1), seen(*context_, layout(), 0);
  const auto run = [&](int frames) {
    for (int i = 0; i < frames; ++i) {
      const FramePtr frame = must(policy->allocate(layout(), writer_));
      queue_write(*frame, ones, writer_);
      EXPECT_OK(frame->fence().wait(reader_));
      queue_read(*frame, seen, reader_);
      add_reader(*frame, reader_);
    }
  };
  run(20);
  sim().reset_counts();
  run(200);
  EXPECT_EQ(sim().driver_allocations(), 0u);
  EXPECT_EQ(sim().host_synchronizations(), 0u);
  EXPECT_EQ(sim().call_count("cuEventCreate"), 0u);
  EXPECT_EQ(policy->stats().frames, 220u);
}

TEST_P(PolicyTest, AtTheBoundTheHostWaitsOnlyWhileAllAreReferenced) {
  const auto policy = make(room_for(2));
  FramePtr first = must(policy->allocate(layout(), writer_));
  const FramePtr second = must(policy->allocate(layout(), writer_));
  FramePtr third;
  std::thread thread([&] { third = must(policy->allocate(layout(), writer_)); });
  await_waiting(*policy, 1);
  first.reset();
  thread.join();
  EXPECT_NE(third, nullptr);
  const PolicyStats stats = policy->stats();
  EXPECT_EQ(stats.host_waits, 1u);
  EXPECT_GT(stats.host_wait_ns, 0u);
  EXPECT_EQ(stats.peak_in_flight, 2u);
  EXPECT_EQ(stats.bytes, 2 * layout().bytes);
}

TEST_P(PolicyTest, FlushingWakesTheWait) {
  const auto policy = make(room_for(1));
  const FramePtr only = must(policy->allocate(layout(), writer_));
  StatusCode code = StatusCode::ok;
  std::thread thread([&] { code = policy->allocate(layout(), writer_).status().code(); });
  await_waiting(*policy, 1);
  policy->set_flushing(true);
  thread.join();
  EXPECT_EQ(code, StatusCode::flushing);
  EXPECT_EQ(policy->allocate(layout(), writer_).status().code(), StatusCode::flushing);
  policy->set_flushing(false);
  policy->set_max_frames(2);
  if (GetParam() == ReusePolicy::bounded_pool) return;  // max-bytes is its bound as well
}

TEST_P(PolicyTest, ShutDownWakesTheWait) {
  const auto policy = make(room_for(1));
  const FramePtr only = must(policy->allocate(layout(), writer_));
  StatusCode code = StatusCode::ok;
  std::thread thread([&] { code = policy->allocate(layout(), writer_).status().code(); });
  await_waiting(*policy, 1);
  policy->shut_down();
  thread.join();
  EXPECT_EQ(code, StatusCode::flushing);
}

TEST_P(PolicyTest, LongWaitIsToldOnce) {
  std::atomic<int> told{0};
  PolicyConfig config = room_for(1);
  config.stall_notice = std::chrono::milliseconds(0);
  config.on_stall = [&] { ++told; };
  const auto policy = make(std::move(config));
  FramePtr only = must(policy->allocate(layout(), writer_));
  std::thread thread([&] { must(policy->allocate(layout(), writer_)); });
  while (told == 0) std::this_thread::yield();
  only.reset();
  thread.join();
  EXPECT_EQ(told, 1);
}

TEST_P(PolicyTest, UnboundedFramesGoAboveTheBoundAndAreFreedOnReturn) {
  const auto policy = make(room_for(2));
  std::vector<FramePtr> frames;
  for (int i = 0; i < 5; ++i) {
    frames.push_back(must(policy->allocate(layout(), writer_, /*bounded=*/false)));
  }
  EXPECT_EQ(policy->stats().over_bound, 3u);
  EXPECT_EQ(policy->stats().bytes, 5 * layout().bytes);
  frames.clear();
  if (GetParam() == ReusePolicy::bounded_pool) {
    EXPECT_EQ(policy->stats().bytes, 2 * layout().bytes);
  }
  EXPECT_EQ(policy->stats().in_flight, 0u);
}

TEST_P(PolicyTest, OlderLayoutsAreFreedOnReturn) {
  const auto policy = make();
  FramePtr old_one = must(policy->allocate(layout(), writer_));
  FramePtr old_two = must(policy->allocate(layout(), writer_));
  old_two.reset();
  const FrameLayout bigger = layout(128, 64);
  const FramePtr current = must(policy->allocate(bigger, writer_));
  EXPECT_EQ(policy->stats().bytes, layout().bytes + bigger.bytes);
  EXPECT_EQ(policy->stats().old_layout_bytes, layout().bytes);
  old_one.reset();
  EXPECT_EQ(policy->stats().bytes, bigger.bytes);
  EXPECT_EQ(policy->stats().old_layout_bytes, 0u);
}

TEST_P(PolicyTest, OldLayoutWithAPendingReaderIsFreedLater) {
  const auto policy = make();
  FramePtr old_one = must(policy->allocate(layout(), writer_));
  HeldStream held(reader_->handle());
  add_reader(*old_one, reader_);
  const FramePtr current = must(policy->allocate(layout(128, 64), writer_));
  old_one.reset();
  EXPECT_EQ(policy->stats().old_layout_bytes, layout().bytes);
  held.let_go();
  EXPECT_EQ(policy->stats().old_layout_bytes, 0u);
}

TEST_P(PolicyTest, FrameOutlivesItsPolicysOwner) {
  auto policy = make();
  HostBuffer ones(*context_, layout(), 1), seen(*context_, layout(), 0);
  FramePtr frame = must(policy->allocate(layout(), writer_));
  queue_write(*frame, ones, writer_);
  policy->shut_down();
  policy.reset();
  EXPECT_OK(frame->fence().wait(reader_));
  queue_read(*frame, seen, reader_);
  add_reader(*frame, reader_);
  synchronize(reader_);
  EXPECT_TRUE(seen.is_all(1));
  frame.reset();
  EXPECT_EQ(sim().live().allocations, before_.allocations);
}

TEST_P(PolicyTest, FenceOfAGoneFrameRefuses) {
  const auto policy = make();
  FramePtr frame = must(policy->allocate(layout(), writer_));
  const std::shared_ptr<Fence> fence = frame->shared_fence();
  frame.reset();
  EXPECT_EQ(fence->wait(reader_).code(), StatusCode::invalid_argument);
  EXPECT_EQ(fence->record_stream(reader_).code(), StatusCode::invalid_argument);
  EXPECT_EQ(fence->add_reader({}).code(), StatusCode::invalid_argument);
}

TEST_P(PolicyTest, OutOfMemoryFreesTheCacheRetriesThenErrorsOnce) {
  const auto policy = make(PolicyConfig{.max_frames = 8});
  FramePtr kept = must(policy->allocate(layout(), writer_));
  FramePtr cached = must(policy->allocate(layout(), writer_));
  HeldStream held(reader_->handle());
  add_reader(*cached, reader_);
  held.let_go();
  cached.reset();
  // Another size: the cached block has to make room for it.
  sim().fail_call("cuMemAlloc", 1, CUDA_ERROR_OUT_OF_MEMORY);
  const FramePtr bigger = must(policy->allocate(layout(128, 64), writer_));
  EXPECT_NE(bigger, nullptr);

  const auto fresh = make(PolicyConfig{.max_frames = 8});
  sim().fail_call("cuMemAlloc", 1, CUDA_ERROR_OUT_OF_MEMORY);
  const Result<FramePtr> failed = fresh->allocate(layout(), writer_);
  EXPECT_EQ(failed.status().code(), StatusCode::out_of_memory) << failed.status().dump();
  EXPECT_TRUE(fresh->allocate(layout(), writer_).ok()) << "one failure must not stick";
}

TEST_P(PolicyTest, OneFrameAboveMaxBytesIsRefused) {
  const auto policy = make(PolicyConfig{.max_frames = 8, .max_bytes = layout().bytes - 1});
  const Status status = policy->allocate(layout(), writer_).status();
  EXPECT_EQ(status.code(), StatusCode::out_of_memory);
  EXPECT_NE(status.message().find("max-bytes"), std::string::npos);
}

TEST_P(PolicyTest, BlockWhoseReadersCannotBeRecordedIsNeverReused) {
  const auto policy = make(PolicyConfig{.max_frames = 2});
  FramePtr frame = must(policy->allocate(layout(), writer_));
  const CUdeviceptr address = frame->device_address();
  EXPECT_OK(frame->fence().record_stream(reader_));
  sim().fail_call("cuEventRecord", 1, CUDA_ERROR_UNKNOWN);
  frame.reset();
  for (int i = 0; i < 4; ++i) {
    const FramePtr other = must(policy->allocate(layout(), writer_));
    EXPECT_NE(other->device_address(), address);
  }
}

TEST_P(PolicyTest, LostDeviceGivesErrorsAndNoHang) {
  const auto policy = make(room_for(1));
  FramePtr frame = must(policy->allocate(layout(), writer_));
  EXPECT_OK(frame->fence().record_stream(reader_));
  sim().set_device_lost(1);
  frame.reset();
  EXPECT_EQ(policy->allocate(layout(), writer_).status().code(), StatusCode::device_lost);
  sim().set_device_lost(0);
}

TEST_P(PolicyTest, ManyThreadsAllocateAndRelease) {
  const auto policy = make(room_for(4));
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      const cuda::StreamPtr stream = must(cuda::Stream::create(*context_));
      for (int i = 0; i < 100; ++i) {
        FramePtr frame = must(policy->allocate(layout(), stream));
        EXPECT_OK(frame->fence().record_write(stream));
        add_reader(*frame, stream);
        std::thread([taken = std::move(frame)] {}).join();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  const PolicyStats stats = policy->stats();
  EXPECT_EQ(stats.frames, 400u);
  EXPECT_LE(stats.peak_bytes, 4 * layout().bytes);
  EXPECT_LE(stats.peak_in_flight, 4u);
  EXPECT_EQ(stats.in_flight, 0u);
}

// --- What only one of them does ------------------------------------------------------------------

class RecordStreamTest : public PolicyTest {};
INSTANTIATE_TEST_SUITE_P(Only, RecordStreamTest, testing::Values(ReusePolicy::record_stream));

TEST_P(RecordStreamTest, NeverWaitsAndGrowsWhileReadersLag) {
  const auto policy = make();
  HeldStream held(reader_->handle());
  for (int i = 0; i < 20; ++i) {
    FramePtr frame = must(policy->allocate(layout(), writer_));
    EXPECT_OK(frame->fence().record_write(writer_));
    EXPECT_TRUE(must(frame->fence().is_ready())) << "the writer must not wait for a reader";
    add_reader(*frame, reader_);
  }
  EXPECT_EQ(policy->stats().blocks_created, 20u);
  EXPECT_EQ(policy->stats().in_flight, 20u);
  EXPECT_EQ(policy->stats().host_waits, 0u);
  held.let_go();
  EXPECT_EQ(policy->stats().in_flight, 0u);
  for (int i = 0; i < 20; ++i) must(policy->allocate(layout(), writer_));
  EXPECT_EQ(policy->stats().blocks_created, 20u) << "what came back must serve again";
}

TEST_P(RecordStreamTest, SlowStreamHoldsUpNobodyElse) {
  const auto policy = make();
  const cuda::StreamPtr fast = must(cuda::Stream::create(*context_));
  HeldStream held(reader_->handle());
  FramePtr slow_frame = must(policy->allocate(layout(), writer_));
  add_reader(*slow_frame, reader_);
  slow_frame.reset();
  for (int i = 0; i < 1000; ++i) {
    const FramePtr frame = must(policy->allocate(layout(), writer_));
    add_reader(*frame, fast);
  }
  EXPECT_EQ(policy->stats().blocks_created, 2u);
}

// Thousands of frames, every tenth read by a stream that stands still: each of those is withheld,
// the others go round, and what comes back late is used again, oldest work first to be done.
TEST_P(RecordStreamTest, ASlowStreamBesideAFastOneOverThousandsOfFrames) {
  const auto policy = make();
  const cuda::StreamPtr fast = must(cuda::Stream::create(*context_));
  std::vector<CUdeviceptr> withheld;
  {
    HeldStream held(reader_->handle());
    CUdeviceptr last_fast = 0;
    for (int i = 0; i < 3000; ++i) {
      const FramePtr frame = must(policy->allocate(layout(), writer_));
      EXPECT_OK(frame->fence().record_write(writer_));
      if (i % 10 == 0) {
        withheld.push_back(frame->device_address());
        add_reader(*frame, reader_);
        last_fast = 0;
      } else {
        // The one block that only the fast stream reads comes round and round.
        if (last_fast) {
          EXPECT_EQ(frame->device_address(), last_fast) << i;
        }
        last_fast = frame->device_address();
        add_reader(*frame, fast);
      }
    }
    EXPECT_EQ(std::set<CUdeviceptr>(withheld.begin(), withheld.end()).size(), withheld.size())
        << "a block was given out while the slow stream read it";
    EXPECT_EQ(policy->stats().host_waits, 0u);
    EXPECT_LE(policy->stats().blocks_created, withheld.size() + 1);
    // One step of the slow stream gives back exactly the frame that it has read first.
    const std::size_t in_flight = policy->stats().in_flight;
    sim().step_stream(reader_->handle(),
                      sim().queued_operations(reader_->handle()) / withheld.size());
    EXPECT_EQ(policy->stats().in_flight, in_flight - 1);
  }
  EXPECT_EQ(policy->stats().in_flight, 0u);
  for (int i = 0; i < 300; ++i) must(policy->allocate(layout(), writer_));
  EXPECT_LE(policy->stats().blocks_created, withheld.size() + 1);
}

TEST_P(RecordStreamTest, AtTheCapTheOldestReleasedBlockIsTaken) {
  const auto policy = make(room_for(3));
  HeldStream held(reader_->handle());
  std::vector<CUdeviceptr> released;
  std::vector<FramePtr> frames;
  for (int i = 0; i < 3; ++i) frames.push_back(must(policy->allocate(layout(), writer_)));
  for (FramePtr& frame : frames) {
    released.push_back(frame->device_address());
    add_reader(*frame, reader_);
    frame.reset();
  }
  for (int i = 0; i < 3; ++i) {
    frames[static_cast<std::size_t>(i)] = must(policy->allocate(layout(), writer_));
    EXPECT_EQ(frames[static_cast<std::size_t>(i)]->device_address(),
              released[static_cast<std::size_t>(i)]);
  }
  EXPECT_EQ(policy->stats().host_waits, 0u);
  EXPECT_EQ(policy->stats().bytes, 3 * layout().bytes);
}

class BoundedPoolTest : public PolicyTest {};
INSTANTIATE_TEST_SUITE_P(Only, BoundedPoolTest, testing::Values(ReusePolicy::bounded_pool));

TEST_P(BoundedPoolTest, NeverMoreThanNFramesHoweverFarReadersLag) {
  for (const std::size_t n : {1u, 2u, 8u}) {
    const auto policy = make(PolicyConfig{.max_frames = n});
    HeldStream held(reader_->handle());
    for (int i = 0; i < 50; ++i) {
      const FramePtr frame = must(policy->allocate(layout(), writer_));
      EXPECT_OK(frame->fence().record_write(writer_));
      add_reader(*frame, reader_);
    }
    const PolicyStats stats = policy->stats();
    EXPECT_EQ(stats.blocks_created, n);
    EXPECT_EQ(stats.peak_bytes, n * layout().bytes);
    EXPECT_LE(stats.peak_in_flight, n);
    EXPECT_EQ(stats.host_waits, 0u) << "released frames are waited for on the device";
    held.let_go();
  }
}

TEST_P(BoundedPoolTest, BlocksWithoutReadersGoFirst) {
  const auto policy = make(PolicyConfig{.max_frames = 2});
  HeldStream held(reader_->handle());
  FramePtr slow_frame = must(policy->allocate(layout(), writer_));
  FramePtr fast_frame = must(policy->allocate(layout(), writer_));
  const CUdeviceptr idle = fast_frame->device_address();
  add_reader(*slow_frame, reader_);
  slow_frame.reset();
  fast_frame.reset();
  EXPECT_EQ(must(policy->allocate(layout(), writer_))->device_address(), idle);
}

TEST_P(BoundedPoolTest, RaisingTheBoundWakesTheWait) {
  const auto policy = make(PolicyConfig{.max_frames = 1});
  const FramePtr first = must(policy->allocate(layout(), writer_));
  FramePtr second;
  std::thread thread([&] { second = must(policy->allocate(layout(), writer_)); });
  await_waiting(*policy, 1);
  policy->set_max_frames(2);
  thread.join();
  EXPECT_NE(second, nullptr);
}

TEST_P(BoundedPoolTest, WithoutMemoryItGoesOnWithWhatItHas) {
  const auto policy = make(PolicyConfig{.max_frames = 4});
  FramePtr first = must(policy->allocate(layout(), writer_));
  sim().fail_call("cuMemAlloc", 1, CUDA_ERROR_OUT_OF_MEMORY);
  FramePtr second;
  std::thread thread([&] { second = must(policy->allocate(layout(), writer_)); });
  await_waiting(*policy, 1);
  first.reset();
  thread.join();
  EXPECT_NE(second, nullptr);
}

}  // namespace
}  // namespace cudaframe::memory
