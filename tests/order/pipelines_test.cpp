// SPDX-License-Identifier: LGPL-2.1-or-later
// Whole pipelines under hundreds of schedules, each from a seed that a failure names. The verdict
// is the happens-before checker's: no frame read before it is written, none written while it is
// read.

#include <gst/app/gstappsink.h>
#include <gst/gst.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <optional>
#include <random>
#include <string>
#include <tuple>
#include <vector>

#include "order_support.h"
#include "tests/support/pipeline.h"

namespace cudaframe::test {
namespace {

constexpr std::size_t kTargetBytes = 96 * 64 * 4;

std::string clip(const char* name) {
  const char* folder = g_getenv("CUDAFRAME_ORDER_CLIPS");
  if (!folder) std::abort();
  return std::string("location=\"") + folder + "/" + name + "\"";
}

int seeds() {
  const char* wanted = g_getenv("CUDAFRAME_SEEDS");
  return wanted ? std::atoi(wanted) : 200;
}

std::string decoder(const char* policy) {
  return "filesrc " + clip("plain.mp4") + " ! cudademux ! cudapacketdec name=dec max-frames=8 " +
         policy + " ! video/x-raw(memory:CUDAFrame),format=NV12 ! ";
}

std::string converter(const char* policy, const char* caps) {
  return std::string("cudacolorconvert max-frames=6 ") + policy + " ! " + caps + " ! ";
}

constexpr char kSink[] = "appsink name=sink sync=false max-buffers=1";
constexpr char kSink2[] = "appsink name=sink2 sync=false max-buffers=1";
constexpr char kCudaRgb[] = "video/x-raw(memory:CUDAFrame),format=RGB";
constexpr char kQueue[] = "queue max-size-buffers=2 ! ";

/// Plays from the start.
class Running : public Pipeline {
 public:
  explicit Running(const std::string& description) : Pipeline(description) {
    set_state(GST_STATE_PLAYING);
  }
  /// (transfer full); null at the end.
  GstSample* pull(const char* name = "sink") {
    GstSample* sample = Pipeline::pull(name);
    if (!sample) {
      GstElement* sink = element(name);
      EXPECT_TRUE(gst_app_sink_is_eos(GST_APP_SINK(sink))) << "nothing comes";
      gst_object_unref(sink);
    }
    return sample;
  }
};

/// What a scenario has in its hands for one seed.
struct Turn {
  const char* policy;
  std::mt19937& random;
  Consumer& consumer;
  Consumer& second;
  int below(int limit) { return static_cast<int>(random() % static_cast<unsigned>(limit)); }
  Care care() { return below(2) ? Care::wait_and_record : Care::wait_and_event; }
};

/// Reads what comes, up to `limit` frames; how many there were.
int consume(Running& pipeline, Turn& turn, int limit = 1000, const char* sink = "sink") {
  int frames = 0;
  for (; frames < limit; ++frames) {
    GstSample* sample = pipeline.pull(sink);
    if (!sample) break;
    turn.consumer.read(gst_sample_get_buffer(sample), turn.care());
    gst_sample_unref(sample);
  }
  return frames;
}

void seek(Running& pipeline, gint64 time) {
  EXPECT_TRUE(gst_element_seek_simple(
      pipeline.get(), GST_FORMAT_TIME,
      static_cast<GstSeekFlags>(GST_SEEK_FLAG_FLUSH | GST_SEEK_FLAG_KEY_UNIT), time));
}

void decode(Turn& turn) {
  Running pipeline(decoder(turn.policy) + kSink);
  EXPECT_EQ(consume(pipeline, turn), 30);
}

void convert_between_queues(Turn& turn) {
  Running pipeline(decoder(turn.policy) + kQueue + converter(turn.policy, kCudaRgb) + kQueue +
                   kSink);
  EXPECT_EQ(consume(pipeline, turn), 30);
}

void tee_to_two_converters(Turn& turn) {
  Running pipeline(decoder(turn.policy) + "tee name=t t. ! " + kQueue +
                   converter(turn.policy, kCudaRgb) + kSink + " t. ! " + kQueue +
                   converter(turn.policy, "video/x-raw(memory:CUDAFrame),format=BGRx") + kSink2);
  int frames = 0;
  while (GstSample* sample = pipeline.pull()) {
    GstSample* other = pipeline.pull("sink2");
    turn.consumer.read(gst_sample_get_buffer(sample), turn.care());
    if (other) turn.second.read(gst_sample_get_buffer(other), turn.care());
    gst_sample_unref(sample);
    if (other) gst_sample_unref(other);
    ++frames;
  }
  EXPECT_EQ(frames, 30);
}

void one_frame_to_two_readers(Turn& turn) {
  Running pipeline(decoder(turn.policy) + kSink);
  while (GstSample* sample = pipeline.pull()) {
    GstBuffer* shared = gst_buffer_copy(gst_sample_get_buffer(sample));
    turn.consumer.read(gst_sample_get_buffer(sample), turn.care());
    gst_sample_unref(sample);
    turn.second.read(shared, turn.care());
    gst_buffer_unref(shared);
  }
}

void down_to_the_cpu_and_up_again(Turn& turn) {
  Running pipeline(decoder(turn.policy) + converter(turn.policy, "video/x-raw,format=RGB") +
                   "identity ! " +
                   converter(turn.policy, "video/x-raw(memory:CUDAFrame),format=BGR") + kSink);
  EXPECT_EQ(consume(pipeline, turn), 30);
}

void size_changes(Turn& turn) {
  Running pipeline("filesrc " + clip("change.h264") + " ! h264parse ! cudapacketdec max-frames=8 " +
                   turn.policy + " ! video/x-raw(memory:CUDAFrame),format=NV12 ! " + kQueue +
                   converter(turn.policy, kCudaRgb) + kSink);
  EXPECT_EQ(consume(pipeline, turn), 30);
}

void flushing_seeks(Turn& turn) {
  Running pipeline(decoder(turn.policy) + kQueue + converter(turn.policy, kCudaRgb) + kSink);
  for (int i = 0; i < 3; ++i) {
    consume(pipeline, turn, 1 + turn.below(8));
    seek(pipeline, turn.below(3) * 400 * GST_MSECOND);
  }
  EXPECT_GT(consume(pipeline, turn), 0);
}

// Without a demuxer: gst_parse_launch() links its pads only once.
void state_changes(Turn& turn) {
  Running pipeline("filesrc " + clip("plain.h264") + " ! h264parse ! cudapacketdec max-frames=8 " +
                   turn.policy + " ! video/x-raw(memory:CUDAFrame),format=NV12 ! " + kQueue +
                   converter(turn.policy, kCudaRgb) + kSink);
  std::vector<GstSample*> kept;
  for (int i = 0; i < 3; ++i) {
    consume(pipeline, turn, turn.below(8));
    if (GstSample* sample = pipeline.pull()) kept.push_back(sample);
    const GstState states[] = {GST_STATE_NULL, GST_STATE_READY, GST_STATE_PAUSED};
    pipeline.set_state(states[turn.below(3)]);
    if (turn.below(2)) {
      for (GstSample* sample : kept) {
        turn.consumer.read(gst_sample_get_buffer(sample), turn.care());
        gst_sample_unref(sample);
      }
      kept.clear();
    }
    pipeline.set_state(GST_STATE_PLAYING);
  }
  for (GstSample* sample : kept) gst_sample_unref(sample);
}

struct Scenario {
  const char* name;
  void (*run)(Turn&);
};

constexpr Scenario kScenarios[] = {
    {"Decode", decode},
    {"ConvertBetweenQueues", convert_between_queues},
    {"TeeToTwoConverters", tee_to_two_converters},
    {"OneFrameToTwoReaders", one_frame_to_two_readers},
    {"DownToTheCpuAndUpAgain", down_to_the_cpu_and_up_again},
    {"SizeChanges", size_changes},
    {"FlushingSeeks", flushing_seeks},
    {"StateChanges", state_changes},
};

constexpr const char* kPolicies[] = {"reuse-policy=bounded-pool", "reuse-policy=record-stream"};

class PipelineOrderTest : public testing::TestWithParam<std::tuple<Scenario, const char*>> {};

TEST_P(PipelineOrderTest, NothingIsReportedOnAnySchedule) {
  const auto& [scenario, policy] = GetParam();
  for (int seed = 0; seed <= seeds(); ++seed) {
    const std::string mode = seed == 0 ? "lazy" : "shuffled:" + std::to_string(seed);
    SCOPED_TRACE(mode);
    ASSERT_EQ(sim().set_mode(mode.c_str()), 0);
    CurrentContext context;
    std::mt19937 random(static_cast<unsigned>(seed));
    {
      Consumer consumer(kTargetBytes);
      Consumer second(kTargetBytes);
      Turn turn{policy, random, consumer, second};
      scenario.run(turn);
    }
    ASSERT_EQ(sim().violations(), "");
    ASSERT_FALSE(HasFailure());
  }
}

INSTANTIATE_TEST_SUITE_P(All, PipelineOrderTest,
                         testing::Combine(testing::ValuesIn(kScenarios),
                                          testing::ValuesIn(kPolicies)),
                         [](const auto& param) {
                           return std::string(std::get<0>(param.param).name) +
                                  (std::get<1>(param.param) == kPolicies[0] ? "BoundedPool"
                                                                            : "RecordStream");
                         });

// ---- The application's errors, at the end of a pipeline

class PipelineHazardTest : public testing::TestWithParam<const char*> {
 protected:
  static int consume_with(Running& pipeline, Consumer& consumer) {
    int frames = 0;
    for (; GstSample* sample = pipeline.pull(); ++frames) {
      consumer.read(gst_sample_get_buffer(sample));
      gst_sample_unref(sample);
    }
    return frames;
  }
  static std::string reported(Care care, int max_frames) {
    EXPECT_EQ(sim().set_mode(GetParam()), 0);
    CurrentContext context;
    {
      Consumer consumer(kTargetBytes);
      Running pipeline("filesrc " + clip("plain.mp4") +
                       " ! cudademux ! cudapacketdec max-frames=" + std::to_string(max_frames) +
                       " ! video/x-raw(memory:CUDAFrame),format=NV12 ! " + kSink);
      while (GstSample* sample = pipeline.pull()) {
        consumer.read(gst_sample_get_buffer(sample), care);
        gst_sample_unref(sample);
      }
    }
    return sim().violations();
  }
};

TEST_P(PipelineHazardTest, AnApplicationThatDoesNotWaitIsReported) {
  EXPECT_NE(reported(Care::nothing_for_write, 8).find("RACE"), std::string::npos);
}

TEST_P(PipelineHazardTest, AnApplicationThatDoesNotKeepItsFrameIsReported) {
  EXPECT_NE(reported(Care::nothing_for_reuse, 4).find("RACE"), std::string::npos);
}

TEST_P(PipelineHazardTest, OneThatDoesBothIsNot) {
  EXPECT_EQ(reported(Care::wait_and_record, 4), "");
  EXPECT_EQ(reported(Care::record_first, 4), "");
  EXPECT_EQ(reported(Care::wait_and_event, 4), "");
}

// The same steps as the application's errors, where they are none.
TEST_P(PipelineHazardTest, OnTheDecodersOwnStreamNothingIsNeeded) {
  ASSERT_EQ(sim().set_mode(GetParam()), 0);
  CurrentContext context;
  Consumer consumer(kTargetBytes);
  Running pipeline("filesrc " + clip("plain.mp4") + " ! cudademux ! cudapacketdec cuda-stream=" +
                   std::to_string(reinterpret_cast<guint64>(consumer.stream())) +
                   " ! video/x-raw(memory:CUDAFrame),format=NV12 ! " + kSink);
  while (GstSample* sample = pipeline.pull()) {
    consumer.read(gst_sample_get_buffer(sample), Care::nothing);
    gst_sample_unref(sample);
  }
}

TEST_P(PipelineHazardTest, AHostThatWaitsForEverythingNeedsNothingElse) {
  ASSERT_EQ(sim().set_mode(GetParam()), 0);
  CurrentContext context;
  Consumer consumer(kTargetBytes);
  Running pipeline(decoder("") + kSink);
  while (GstSample* sample = pipeline.pull()) {
    GstBuffer* buffer = gst_sample_get_buffer(sample);
    EXPECT_TRUE(gst_cuda_frame_memory_synchronize(gst_buffer_peek_memory(buffer, 0)));
    consumer.read(buffer, Care::nothing);
    cuStreamSynchronize(consumer.stream());
    gst_sample_unref(sample);
  }
}

TEST_P(PipelineHazardTest, FramesThatAreDroppedUnreadOrMapped) {
  ASSERT_EQ(sim().set_mode(GetParam()), 0);
  CurrentContext context;
  Running pipeline(decoder("") + kSink);
  for (int i = 0; GstSample* sample = pipeline.pull(); ++i) {
    GstMapInfo map;
    if (i % 2) {
      ASSERT_TRUE(gst_buffer_map(gst_sample_get_buffer(sample), &map, GST_MAP_READ));
      gst_buffer_unmap(gst_sample_get_buffer(sample), &map);
    }
    gst_sample_unref(sample);
  }
}

TEST_P(PipelineHazardTest, ABoundedPoolStaysBoundedAndOnlyTheDeviceWaits) {
  for (const guint bound : {2u, 8u}) {
    ASSERT_EQ(sim().set_mode(GetParam()), 0);
    CurrentContext context;
    Consumer consumer(kTargetBytes);
    Running pipeline("filesrc " + clip("plain.mp4") +
                     " ! cudademux ! cudapacketdec name=dec max-frames=" + std::to_string(bound) +
                     " ! video/x-raw(memory:CUDAFrame),format=NV12 ! " + kSink);
    sim().reset_counts();
    EXPECT_EQ(consume_with(pipeline, consumer), 30);
    EXPECT_EQ(sim().host_synchronizations(), 0u);
    EXPECT_LE(pipeline.stat("dec", "blocks-created"), bound);
    EXPECT_LE(pipeline.stat("dec", "peak-in-flight"), bound);
  }
}

TEST_P(PipelineHazardTest, RecordStreamNeverStallsBehindAReader) {
  ASSERT_EQ(sim().set_mode(GetParam()), 0);
  CurrentContext context;
  Consumer consumer(kTargetBytes);
  Running pipeline(decoder("reuse-policy=record-stream") + kSink);
  {
    HeldStream held(consumer.stream());
    EXPECT_EQ(consume_with(pipeline, consumer), 30);
    EXPECT_EQ(pipeline.stat("dec", "host-waits"), 0u);
    EXPECT_GE(pipeline.stat("dec", "in-flight"), 30u) << "all of them are being read";
  }
  cuStreamSynchronize(consumer.stream());
  EXPECT_EQ(pipeline.stat("dec", "in-flight"), 1u) << "the appsink keeps its last one";
}

// The caller's error, as gst_cuda_frame_memory_record_stream() says; with an event there is none.
TEST_P(PipelineHazardTest, AStreamThatGoesBeforeItsFrame) {
  for (const bool with_event : {false, true}) {
    ASSERT_EQ(sim().set_mode(GetParam()), 0);
    CurrentContext context;
    std::optional<Consumer> brief(std::in_place, kTargetBytes);
    Running pipeline(decoder("") + kSink);
    GstSample* sample = pipeline.pull();
    brief->read(gst_sample_get_buffer(sample),
                with_event ? Care::wait_and_event : Care::wait_and_record);
    brief.reset();
    gst_sample_unref(sample);
    while (GstSample* next = pipeline.pull()) gst_sample_unref(next);
    EXPECT_EQ(sim().violations().find("is no stream") != std::string::npos, !with_event);
  }
}

// A converter reads the frame that the application still holds, and goes away with its stream. Its
// sink drops what is not taken: an element can't be stopped while a full one behind it blocks.
TEST_P(PipelineHazardTest, AFrameThatOutlivesItsOtherReader) {
  ASSERT_EQ(sim().set_mode(GetParam()), 0);
  CurrentContext context;
  Consumer consumer(kTargetBytes);
  GstSample* kept = nullptr;
  {
    Running pipeline(decoder("") + "tee name=t t. ! " + kQueue + kSink + " t. ! " + kQueue +
                     "cudacolorconvert name=conv ! " + kCudaRgb + " ! " + kSink2 + " drop=true");
    kept = pipeline.pull();
    GstSample* converted = pipeline.pull("sink2");
    ASSERT_NE(converted, nullptr);
    gst_sample_unref(converted);
    GstElement* convert = gst_bin_get_by_name(GST_BIN(pipeline.get()), "conv");
    gst_element_set_locked_state(convert, TRUE);
    gst_element_set_state(convert, GST_STATE_NULL);
    gst_object_unref(convert);
    consumer.read(gst_sample_get_buffer(kept));
  }
  consumer.read(gst_sample_get_buffer(kept));
  // The stream it was written on is still there, though the decoder is not.
  GstMemory* mem = gst_buffer_peek_memory(gst_sample_get_buffer(kept), 0);
  EXPECT_EQ(cuStreamSynchronize(gst_cuda_frame_memory_get_writer_stream(mem)), CUDA_SUCCESS);
  gst_sample_unref(kept);
}

INSTANTIATE_TEST_SUITE_P(Schedules, PipelineHazardTest,
                         testing::Values("lazy", "shuffled:1", "shuffled:2"),
                         [](const auto& param) {
                           std::string name = param.param;
                           for (char& letter : name) letter = letter == ':' ? '_' : letter;
                           return name;
                         });

}  // namespace
}  // namespace cudaframe::test
