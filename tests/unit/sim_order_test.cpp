// SPDX-License-Identifier: LGPL-2.1-or-later
// The happens-before checker on small programs: those that are right, and those that are not. Runs
// in the modes that check; the verdict never depends on the schedule.

#include <gtest/gtest.h>

#include <string>

#include "cudaframe_sim.h"
#include "sim_test_device.h"

namespace {

constexpr size_t kBytes = 4096;

/// Streams a, b, c (non-blocking), s, t (blocking), memory x, y, pinned p, events e, f.
class Program {
 public:
  Program() {
    for (CUstream* stream : {&a, &b, &c}) cuStreamCreate(stream, CU_STREAM_NON_BLOCKING);
    for (CUstream* stream : {&s, &t}) cuStreamCreate(stream, CU_STREAM_DEFAULT);
    for (CUevent* event : {&e, &f}) cuEventCreate(event, CU_EVENT_DISABLE_TIMING);
    for (CUdeviceptr* memory : {&x, &y}) cuMemAlloc(memory, kBytes);
    cuMemHostAlloc(&p, kBytes, 0);
  }
  ~Program() {
    cudaframe_sim_set_device_lost(0);
    for (CUdeviceptr memory : {x, y}) {
      if (memory) cuMemFree(memory);
    }
    if (p) cuMemFreeHost(p);
    for (CUstream stream : {a, b, c, s, t}) {
      if (stream) cuStreamDestroy(stream);
    }
    for (CUevent event : {e, f}) {
      if (event) cuEventDestroy(event);
    }
  }
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  void write(CUdeviceptr memory, CUstream stream) { cuMemsetD8Async(memory, 1, kBytes, stream); }
  /// Into a place that nobody else uses.
  void read(CUdeviceptr memory, CUstream stream) {
    CUdeviceptr target = 0;
    cuMemAlloc(&target, kBytes);
    cuMemcpyDtoDAsync(target, memory, kBytes, stream);
    cuMemFree(target);
  }
  void record(CUevent event, CUstream stream) { cuEventRecord(event, stream); }
  void wait(CUstream stream, CUevent event) { cuStreamWaitEvent(stream, event, 0); }
  /// `width` bytes of each of 8 rows, from `column` on.
  void write_columns(CUdeviceptr memory, size_t column, size_t width, CUstream stream) {
    cuMemsetD2D8Async(memory + column, kBytes / 8, 1, width, 8, stream);
  }

  CUstream a = nullptr, b = nullptr, c = nullptr, s = nullptr, t = nullptr;
  CUevent e = nullptr, f = nullptr;
  CUdeviceptr x = 0, y = 0;
  void* p = nullptr;
};

struct Case {
  const char* name;
  const char* expected;  ///< A word of the report; "": none.
  void (*run)(Program&);
};

constexpr char kRace[] = "RACE";

const Case kCases[] = {
    // ---- Right
    {"SameStream", "", [](Program& o) { o.write(o.x, o.a), o.read(o.x, o.a), o.write(o.x, o.a); }},
    {"EventWait", "",
     [](Program& o) {
       o.write(o.x, o.a), o.record(o.e, o.a);
       o.wait(o.b, o.e), o.read(o.x, o.b);
     }},
    {"EventWaitOverAThirdStream", "",
     [](Program& o) {
       o.write(o.x, o.a), o.record(o.e, o.a);
       o.wait(o.c, o.e), o.record(o.f, o.c);
       o.wait(o.b, o.f), o.write(o.x, o.b);
     }},
    {"KeptAliveByAReadersEvent", "",
     [](Program& o) {
       o.write(o.x, o.a), o.record(o.e, o.a);
       o.wait(o.b, o.e), o.read(o.x, o.b), o.record(o.f, o.b);
       o.wait(o.a, o.f), o.write(o.x, o.a);
     }},
    {"HostWaitsForTheEvent", "",
     [](Program& o) {
       o.write(o.x, o.a), o.record(o.e, o.a);
       cuEventSynchronize(o.e);
       o.read(o.x, o.b);
     }},
    {"HostPollsTheEvent", "",
     [](Program& o) {
       o.write(o.x, o.a), o.record(o.e, o.a);
       while (cuEventQuery(o.e) == CUDA_ERROR_NOT_READY) {
       }
       o.read(o.x, o.b);
     }},
    {"HostPollsTheStream", "",
     [](Program& o) {
       o.write(o.x, o.a);
       while (cuStreamQuery(o.a) == CUDA_ERROR_NOT_READY) {
       }
       o.read(o.x, o.b);
     }},
    {"HostWaitsForTheStream", "",
     [](Program& o) { o.write(o.x, o.a), cuStreamSynchronize(o.a), o.read(o.x, o.b); }},
    {"HostWaitsForEverything", "",
     [](Program& o) { o.write(o.x, o.a), cuCtxSynchronize(), o.write(o.x, o.b); }},
    {"ASynchronousCopyIsAHostWait", "",
     [](Program& o) {
       o.write(o.x, o.s);
       unsigned char byte = 0;
       cuMemcpyDtoH(&byte, o.x, 1);
       o.write(o.x, o.b);
     }},
    {"BlockingStreamsAndTheLegacyStream", "",
     [](Program& o) { o.write(o.x, o.s), o.read(o.x, CU_STREAM_LEGACY), o.write(o.x, o.t); }},
    {"BlockingStreamsOverTheLegacyStream", "",
     [](Program& o) { o.write(o.x, o.s), o.write(o.y, nullptr), o.read(o.x, o.t); }},
    {"ReadersSideBySide", "",
     [](Program& o) { o.read(o.x, o.a), o.read(o.x, o.b), o.read(o.x, o.c); }},
    {"OtherBytes", "", [](Program& o) { o.write(o.x, o.a), o.write(o.y, o.b); }},
    {"OtherColumns", "",
     [](Program& o) { o.write_columns(o.x, 0, 100, o.a), o.write_columns(o.x, 100, 100, o.b); }},
    {"AnEventRecordedAgainLaterStillMeantTheFirst", "",
     [](Program& o) {
       o.write(o.x, o.a), o.record(o.e, o.a);
       o.wait(o.b, o.e);
       o.record(o.e, o.c);
       o.read(o.x, o.b);
     }},
    {"DestroyedAtOnceWithWorkQueued", "",
     [](Program& o) {
       o.write(o.x, o.a), o.record(o.e, o.a);
       o.wait(o.b, o.e);
       cuStreamDestroy(o.a), cuEventDestroy(o.e);
       o.a = nullptr, o.e = nullptr;
       o.read(o.x, o.b);
     }},
    {"MemoryThatWasFreedAndGivenOutAgain", "",
     [](Program& o) {
       o.write(o.x, o.a);
       cuMemFree(o.x);
       cuMemAlloc(&o.x, kBytes);
       o.write(o.x, o.b);
     }},
    {"PinnedMemoryThereAndBackOnOneStream", "",
     [](Program& o) {
       cuMemcpyDtoHAsync(o.p, o.x, kBytes, o.a);
       cuMemcpyHtoDAsync(o.y, o.p, kBytes, o.a);
     }},
    // ---- Wrong
    {"MissingWait", kRace, [](Program& o) { o.write(o.x, o.a), o.read(o.x, o.b); }},
    {"MissingKeepAlive", kRace,
     [](Program& o) {
       o.write(o.x, o.a), o.record(o.e, o.a);
       o.wait(o.b, o.e), o.read(o.x, o.b);
       o.write(o.x, o.a);
     }},
    {"TwoWriters", kRace, [](Program& o) { o.write(o.x, o.a), o.write(o.x, o.b); }},
    {"RecordedTooEarly", kRace,
     [](Program& o) {
       o.record(o.e, o.a), o.write(o.x, o.a);
       o.wait(o.b, o.e), o.read(o.x, o.b);
     }},
    {"WaitedTooLate", kRace,
     [](Program& o) {
       o.write(o.x, o.a), o.record(o.e, o.a);
       o.read(o.x, o.b), o.wait(o.b, o.e);
     }},
    {"NeverRecorded", kRace,
     [](Program& o) { o.write(o.x, o.a), o.wait(o.b, o.e), o.read(o.x, o.b); }},
    {"RecordedElsewhereSince", kRace,
     [](Program& o) {
       o.write(o.x, o.a), o.record(o.e, o.a);
       o.record(o.e, o.c);
       o.wait(o.b, o.e), o.read(o.x, o.b);
     }},
    {"HostWaitsForAnotherStream", kRace,
     [](Program& o) { o.write(o.x, o.a), cuStreamSynchronize(o.c), o.read(o.x, o.b); }},
    {"NonBlockingAndTheLegacyStream", kRace,
     [](Program& o) { o.write(o.x, o.a), o.read(o.x, nullptr); }},
    {"TwoBlockingStreams", kRace, [](Program& o) { o.write(o.x, o.s), o.read(o.x, o.t); }},
    {"FreeingSomethingElseIsNoOrder", kRace,
     [](Program& o) {
       o.write(o.x, o.a);
       cuMemFree(o.y);  // which waits for all work, today
       o.y = 0;
       o.write(o.x, o.b);
     }},
    {"ColumnsThatShareOne", kRace,
     [](Program& o) { o.write_columns(o.x, 0, 101, o.a), o.write_columns(o.x, 100, 100, o.b); }},
    {"PinnedMemoryOnTwoStreams", kRace,
     [](Program& o) {
       cuMemcpyDtoHAsync(o.p, o.x, kBytes, o.a);
       cuMemcpyHtoDAsync(o.y, o.p, kBytes, o.b);
     }},
    {"AnOldReaderBehindANewerOne", kRace,
     [](Program& o) {
       o.read(o.x, o.a), o.read(o.x, o.b), o.record(o.e, o.b);
       o.wait(o.c, o.e), o.write(o.x, o.c);  // a's read is forgotten
     }},
    {"UseAfterFree", "USE AFTER FREE",
     [](Program& o) {
       cuMemFree(o.x);
       o.write(o.x, o.a);
       o.x = 0;
     }},
    {"PastTheEnd", "USE AFTER FREE", [](Program& o) { cuMemsetD8Async(o.x, 1, kBytes + 1, o.a); }},
    {"DoubleFree", "no live allocation",
     [](Program& o) {
       cuMemFree(o.x), cuMemFree(o.x);
       o.x = 0;
     }},
    {"ADestroyedStream", "is no stream",
     [](Program& o) {
       cuStreamDestroy(o.a);
       o.record(o.e, o.a);
       o.a = nullptr;
     }},
    {"ADestroyedEvent", "is no event",
     [](Program& o) {
       cuEventDestroy(o.e);
       o.record(o.e, o.a);
       o.e = nullptr;
     }},
    {"WithoutAContext", "no context is current",
     [](Program& o) {
       CUcontext context = nullptr;
       cuCtxPopCurrent(&context);
       cuMemsetD8Async(o.x, 1, kBytes, nullptr);
       cuCtxPushCurrent(context);
     }},
};

class SimOrderTest : public SimDeviceTest, public testing::WithParamInterface<Case> {};

TEST_P(SimOrderTest, Verdict) {
  ASSERT_TRUE(cudaframe_sim_checks_order()) << "run with CUDAFRAME_SIM=lazy or shuffled:SEED";
  {
    Program program;
    GetParam().run(program);
  }
  char text[8192] = "";
  const size_t count = cudaframe_sim_take_violations(text, sizeof text);
  EXPECT_EQ(count, *GetParam().expected ? 1u : 0u) << text;
  EXPECT_NE(std::string(text).find(GetParam().expected), std::string::npos) << text;
}

INSTANTIATE_TEST_SUITE_P(Programs, SimOrderTest, testing::ValuesIn(kCases),
                         [](const auto& param) { return std::string(param.param.name); });

TEST_F(SimDeviceTest, AReportNamesBothOperationsTheirBytesAndCallers) {
  {
    Program program;
    program.write(program.x, program.a);
    program.read(program.x, program.b);
  }
  char text[8192] = "";
  EXPECT_EQ(cudaframe_sim_take_violations(text, sizeof text), 1u);
  for (const char* part : {"cuMemsetD8Async writes 4096 x 1 bytes", "cuMemcpyDtoDAsync reads 4096",
                           "on stream 0x", "called from sim_order_test+0x"}) {
    EXPECT_NE(std::string(text).find(part), std::string::npos) << part << " in " << text;
  }
}

TEST_F(SimDeviceTest, AContextThatGoesWithWorkQueuedIsReported) {
  CUdeviceptr memory = 0;
  CUstream stream = nullptr;
  ASSERT_OK(cuMemAlloc(&memory, 64));
  ASSERT_OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  ASSERT_OK(cuMemsetD8Async(memory, 1, 64, stream));
  const bool is_queued = cudaframe_sim_queued_operations(stream) > 0;  // a shuffle may have run it
  ASSERT_OK(cuCtxPopCurrent(nullptr));
  ASSERT_OK(cuDevicePrimaryCtxRelease(0));
  EXPECT_EQ(cudaframe_sim_take_violations(nullptr, 0), is_queued ? 1u : 0u);
  ASSERT_OK(cuDevicePrimaryCtxRetain(&context_, 0));  // for the fixture
  ASSERT_OK(cuCtxPushCurrent(context_));
}

}  // namespace
