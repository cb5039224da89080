// SPDX-License-Identifier: LGPL-2.1-or-later
// cudapacketdec on the simulated device: in pipelines behind GStreamer's own demuxers, and in a
// harness where each packet and each frame is in the test's hand.

#include <dirent.h>
#include <gst/app/gstappsink.h>
#include <gst/check/gstharness.h>
#include <gst/gst.h>
#include <gst/video/video.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "decode_clip.h"
#include "gst/cudaframe/cudaframe.h"
#include "tests/support/gst_helpers.h"
#include "tests/support/simulator.h"

namespace cudaframe::test {
namespace {

const Simulator& sim() {
  static const Simulator* const simulator = [] {
    const Simulator* found = Simulator::get();
    if (!found) std::abort();  // these tests look into the driver
    return found;
  }();
  return *simulator;
}

cudaframe_sim_live sim_live() {
  return sim().live();
}

std::uint64_t sim_calls(const char* call) {
  return sim().call_count(call);
}

constexpr char kCudaCaps[] = "video/x-raw(memory:CUDAFrame),format=NV12";
constexpr char kSystemCaps[] = "video/x-raw,format=NV12";
constexpr GstClockTime kFrameDuration = GST_SECOND / 30;

const char* clip_path() {
  const char* path = g_getenv("CUDAFRAME_TEST_CLIP");
  EXPECT_NE(path, nullptr);
  return path;
}

guint64 stat(GstElement* decoder, const char* name) {
  return stat_of(decoder, name);
}

// The frame's rows without padding, through a CPU map.
ByteVector read_nv12(GstBuffer* buffer, GstCaps* caps) {
  ByteVector bytes;
  GstVideoInfo info;
  GstVideoFrame frame;
  if (!gst_video_info_from_caps(&info, caps) ||
      !gst_video_frame_map(&frame, &info, buffer, GST_MAP_READ)) {
    ADD_FAILURE() << "the frame can't be mapped";
    return bytes;
  }
  for (guint plane = 0; plane < 2; ++plane) {
    const auto* data = static_cast<const guint8*>(GST_VIDEO_FRAME_PLANE_DATA(&frame, plane));
    const gint rows = GST_VIDEO_FRAME_COMP_HEIGHT(&frame, plane);
    const gint row_bytes =
        GST_VIDEO_FRAME_COMP_WIDTH(&frame, plane) * GST_VIDEO_FRAME_COMP_PSTRIDE(&frame, plane);
    for (gint y = 0; y < rows; ++y) {
      const guint8* row =
          data +
          static_cast<gsize>(y) * static_cast<gsize>(GST_VIDEO_FRAME_PLANE_STRIDE(&frame, plane));
      bytes.insert(bytes.end(), row, row + row_bytes);
    }
  }
  gst_video_frame_unmap(&frame);
  return bytes;
}

// Owns a pipeline; an error on its bus fails the test unless it was asked for.
class Pipeline {
 public:
  explicit Pipeline(const std::string& description) {
    GError* error = nullptr;
    element_ = gst_parse_launch(description.c_str(), &error);
    if (!element_) {
      ADD_FAILURE() << error->message;
      std::abort();
    }
    g_clear_error(&error);
    bus_ = gst_element_get_bus(element_);
  }
  ~Pipeline() {
    set_state(GST_STATE_NULL);
    gst_object_unref(bus_);
    gst_object_unref(element_);
  }
  Pipeline(const Pipeline&) = delete;
  Pipeline& operator=(const Pipeline&) = delete;

  GstElement* get() { return element_; }
  GstStateChangeReturn set_state(GstState state) { return gst_element_set_state(element_, state); }

  /// The element of that name; the pipeline keeps it alive.
  GstElement* at(const char* name) {
    GstElement* found = gst_bin_get_by_name(GST_BIN(element_), name);
    EXPECT_NE(found, nullptr) << name;
    if (found) gst_object_unref(found);
    return found;
  }

  GstSample* pull() { return gst_app_sink_pull_sample(GST_APP_SINK(at("sink"))); }

  /// Waits for EOS or an error. The errors from the element `name` go to `errors`.
  void wait(const char* name = nullptr, std::vector<std::string>* errors = nullptr) {
    bool ended = false;
    while (!ended) {
      GstMessage* message = gst_bus_timed_pop_filtered(
          bus_, 60 * GST_SECOND,
          static_cast<GstMessageType>(GST_MESSAGE_EOS | GST_MESSAGE_ERROR | GST_MESSAGE_WARNING));
      if (!message) {
        ADD_FAILURE() << "the pipeline hangs";
        return;
      }
      ended = GST_MESSAGE_TYPE(message) != GST_MESSAGE_WARNING;
      note(message, name, errors);
      gst_message_unref(message);
    }
    collect(name, errors);
  }

  /// The messages that are on the bus already.
  void collect(const char* name, std::vector<std::string>* errors) {
    while (GstMessage* message = gst_bus_pop_filtered(bus_, GST_MESSAGE_ERROR)) {
      note(message, name, errors);
      gst_message_unref(message);
    }
  }

  GstBus* bus() { return bus_; }

 private:
  static void note(GstMessage* message, const char* name, std::vector<std::string>* errors) {
    if (GST_MESSAGE_TYPE(message) != GST_MESSAGE_ERROR) return;
    GError* error = nullptr;
    gchar* debug = nullptr;
    gst_message_parse_error(message, &error, &debug);
    if (!errors) {
      ADD_FAILURE() << GST_OBJECT_NAME(message->src) << ": " << error->message << " " << debug;
    } else if (g_str_equal(GST_OBJECT_NAME(message->src), name)) {
      errors->push_back(error->message);
    }
    g_error_free(error);
    g_free(debug);
  }

  GstElement* element_ = nullptr;
  GstBus* bus_ = nullptr;
};

std::string from_file(const std::string& decoder, const std::string& caps) {
  return std::string("filesrc location=\"") + clip_path() +
         "\" ! qtdemux ! cudapacketdec name=dec " + decoder + (caps.empty() ? "" : " ! " + caps) +
         " ! appsink name=sink sync=false max-buffers=2";
}

struct Times {
  GstClockTime pts;
  GstClockTime duration;
  bool operator==(const Times&) const = default;
};

// What the file itself says, in display order.
std::vector<Times> times_of_file() {
  Pipeline pipeline(std::string("filesrc location=\"") + clip_path() +
                    "\" ! qtdemux ! appsink name=sink sync=false");
  pipeline.set_state(GST_STATE_PLAYING);
  std::vector<Times> times;
  while (GstSample* sample = pipeline.pull()) {
    GstBuffer* buffer = gst_sample_get_buffer(sample);
    times.push_back({GST_BUFFER_PTS(buffer), GST_BUFFER_DURATION(buffer)});
    gst_sample_unref(sample);
  }
  std::sort(times.begin(), times.end(),
            [](const Times& a, const Times& b) { return a.pts < b.pts; });
  return times;
}

// ---- Pipelines

struct FileCase {
  const char* name;
  const char* properties;
  const char* caps;
};

class CudaPacketDecFileTest : public testing::TestWithParam<FileCase> {};

TEST_P(CudaPacketDecFileTest, AllFramesEqualTheSoftwareDecodersAtTheirTimes) {
  const std::vector<ReferenceFrame> reference = decode_reference(read_clip(clip_path()));
  const std::vector<Times> times = times_of_file();
  ASSERT_EQ(reference.size(), 60U);
  ASSERT_EQ(times.size(), 60U);
  Pipeline pipeline(from_file(GetParam().properties, GetParam().caps));
  pipeline.set_state(GST_STATE_PLAYING);
  std::size_t i = 0;
  while (GstSample* sample = pipeline.pull()) {
    GstBuffer* buffer = gst_sample_get_buffer(sample);
    if (i < 60) {
      EXPECT_EQ(GST_BUFFER_PTS(buffer), times[i].pts) << i;
      EXPECT_EQ(GST_BUFFER_DURATION(buffer), times[i].duration) << i;
      EXPECT_EQ(gst_buffer_n_memory(buffer), 1U);
      EXPECT_NE(gst_buffer_get_video_meta(buffer), nullptr);
      EXPECT_TRUE(read_nv12(buffer, gst_sample_get_caps(sample)) == reference[i].nv12) << i;
    }
    ++i;
    gst_sample_unref(sample);
  }
  EXPECT_EQ(i, 60U);
  pipeline.wait();
  if (std::string(GetParam().caps) == kCudaCaps) {
    EXPECT_EQ(stat(pipeline.at("dec"), "frames"), 60U);
    EXPECT_LE(stat(pipeline.at("dec"), "blocks-created"), 8U);
    EXPECT_LE(stat(pipeline.at("dec"), "peak-in-flight"), 8U);
  }
}

INSTANTIATE_TEST_SUITE_P(
    Outputs, CudaPacketDecFileTest,
    testing::Values(FileCase{"BoundedPoolCuda", "reuse-policy=bounded-pool", kCudaCaps},
                    FileCase{"BoundedPoolSystem", "reuse-policy=bounded-pool", kSystemCaps},
                    FileCase{"RecordStreamCuda", "reuse-policy=record-stream", kCudaCaps},
                    FileCase{"RecordStreamSystem", "reuse-policy=record-stream", kSystemCaps},
                    FileCase{"LegacyStream", "cuda-stream=1", kCudaCaps},
                    FileCase{"NoDelayFewSurfaces", "max-display-delay=0 num-decode-surfaces=1",
                             kCudaCaps}),
    [](const testing::TestParamInfo<FileCase>& param) { return std::string(param.param.name); });

TEST(CudaPacketDecPipelineTest, APeerThatTakesAnythingGetsSystemMemory) {
  Pipeline pipeline(from_file("", ""));
  pipeline.set_state(GST_STATE_PLAYING);
  GstSample* sample = pipeline.pull();
  ASSERT_NE(sample, nullptr);
  GstCaps* caps = gst_sample_get_caps(sample);
  EXPECT_FALSE(gst_caps_features_contains(gst_caps_get_features(caps, 0),
                                          GST_CAPS_FEATURE_MEMORY_CUDA_FRAME));
  EXPECT_FALSE(gst_is_cuda_frame_memory(gst_buffer_peek_memory(gst_sample_get_buffer(sample), 0)));
  gst_sample_unref(sample);
}

TEST(CudaPacketDecPipelineTest, CudaFramesCarryTheirEvent) {
  Pipeline pipeline(from_file("", kCudaCaps));
  pipeline.set_state(GST_STATE_PLAYING);
  GstSample* sample = pipeline.pull();
  ASSERT_NE(sample, nullptr);
  GstBuffer* buffer = gst_sample_get_buffer(sample);
  EXPECT_TRUE(gst_is_cuda_frame_memory(gst_buffer_peek_memory(buffer, 0)));
  EXPECT_NE(gst_buffer_get_cuda_event_meta(buffer), nullptr);
  gst_sample_unref(sample);
}

TEST(CudaPacketDecPipelineTest, CapsDescribeTheStream) {
  Pipeline pipeline(from_file("", kCudaCaps));
  pipeline.set_state(GST_STATE_PLAYING);
  GstSample* sample = pipeline.pull();
  ASSERT_NE(sample, nullptr);
  GstVideoInfo info;
  ASSERT_TRUE(gst_video_info_from_caps(&info, gst_sample_get_caps(sample)));
  EXPECT_EQ(GST_VIDEO_INFO_WIDTH(&info), 1280);
  EXPECT_EQ(GST_VIDEO_INFO_HEIGHT(&info), 720);
  EXPECT_EQ(GST_VIDEO_INFO_FPS_N(&info), 30);
  EXPECT_EQ(GST_VIDEO_INFO_FPS_D(&info), 1);
  EXPECT_EQ(GST_VIDEO_INFO_PAR_N(&info), GST_VIDEO_INFO_PAR_D(&info));
  EXPECT_EQ(GST_VIDEO_INFO_INTERLACE_MODE(&info), GST_VIDEO_INTERLACE_MODE_PROGRESSIVE);
  gst_sample_unref(sample);
}

TEST(CudaPacketDecPipelineTest, AFlushingSeekGoesOnAtTheKeyFrame) {
  const std::vector<ReferenceFrame> reference = decode_reference(read_clip(clip_path()));
  const std::vector<Times> times = times_of_file();
  Pipeline pipeline(from_file("", kCudaCaps));
  pipeline.set_state(GST_STATE_PAUSED);
  gst_element_get_state(pipeline.get(), nullptr, nullptr, GST_CLOCK_TIME_NONE);
  for (int round = 0; round < 3; ++round) {
    ASSERT_TRUE(gst_element_seek_simple(
        pipeline.get(), GST_FORMAT_TIME,
        static_cast<GstSeekFlags>(GST_SEEK_FLAG_FLUSH | GST_SEEK_FLAG_KEY_UNIT |
                                  GST_SEEK_FLAG_SNAP_BEFORE),
        GST_SECOND + 5 * kFrameDuration));
    pipeline.set_state(GST_STATE_PLAYING);
    std::size_t i = 30;
    while (GstSample* sample = pipeline.pull()) {
      GstBuffer* buffer = gst_sample_get_buffer(sample);
      if (i < 60) {
        EXPECT_EQ(GST_BUFFER_PTS(buffer), times[i].pts);
        EXPECT_TRUE(read_nv12(buffer, gst_sample_get_caps(sample)) == reference[i].nv12) << i;
      }
      gst_sample_unref(sample);
      ++i;
      if (round == 0 && i == 35) break;  // the second seek comes in the middle, the third at EOS
    }
    if (round > 0) {
      EXPECT_EQ(i, 60U);
    }
  }
}

TEST(CudaPacketDecPipelineTest, ReversePlaybackIsNotBoundAndShowsAllFrames) {
  std::vector<Times> times = times_of_file();
  std::reverse(times.begin(), times.end());
  const std::vector<ReferenceFrame> reference = decode_reference(read_clip(clip_path()));
  // One group of pictures has 30 frames, which are all decoded before the first is shown.
  Pipeline pipeline(from_file("max-frames=4", kCudaCaps));
  pipeline.set_state(GST_STATE_PAUSED);
  gst_element_get_state(pipeline.get(), nullptr, nullptr, GST_CLOCK_TIME_NONE);
  ASSERT_TRUE(
      gst_element_seek(pipeline.get(), -1.0, GST_FORMAT_TIME,
                       static_cast<GstSeekFlags>(GST_SEEK_FLAG_FLUSH | GST_SEEK_FLAG_ACCURATE),
                       GST_SEEK_TYPE_SET, 0, GST_SEEK_TYPE_SET, 2 * GST_SECOND));
  pipeline.set_state(GST_STATE_PLAYING);
  std::size_t i = 0;
  while (GstSample* sample = pipeline.pull()) {
    GstBuffer* buffer = gst_sample_get_buffer(sample);
    if (i < 60) {
      EXPECT_EQ(GST_BUFFER_PTS(buffer), times[i].pts) << i;
      EXPECT_TRUE(read_nv12(buffer, gst_sample_get_caps(sample)) == reference[59 - i].nv12) << i;
    }
    gst_sample_unref(sample);
    ++i;
  }
  EXPECT_EQ(i, 60U);
  EXPECT_GT(stat(pipeline.at("dec"), "over-bound"), 0U);
}

TEST(CudaPacketDecPipelineTest, AFrameOutlivesItsPipeline) {
  const std::vector<ReferenceFrame> reference = decode_reference(read_clip(clip_path()));
  for (const char* caps : {kCudaCaps, kSystemCaps}) {
    GstSample* sample = nullptr;
    {
      Pipeline pipeline(from_file("", caps));
      pipeline.set_state(GST_STATE_PLAYING);
      sample = pipeline.pull();
      ASSERT_NE(sample, nullptr);
    }
    EXPECT_TRUE(read_nv12(gst_sample_get_buffer(sample), gst_sample_get_caps(sample)) ==
                reference[0].nv12);
    gst_sample_unref(sample);
    EXPECT_EQ(sim_live().allocations, 0U) << "freed with the last frame";
  }
}

TEST(CudaPacketDecPipelineTest, NullWakesTheWaitForAFrame) {
  Pipeline pipeline(from_file("max-frames=4", kCudaCaps));
  pipeline.set_state(GST_STATE_PLAYING);
  std::vector<GstSample*> held;
  for (int i = 0; i < 4; ++i) held.push_back(pipeline.pull());
  while (stat(pipeline.at("dec"), "host-waits") == 0) std::this_thread::yield();
  EXPECT_EQ(stat(pipeline.at("dec"), "blocks-created"), 4U);
  pipeline.set_state(GST_STATE_NULL);
  for (GstSample* sample : held) gst_sample_unref(sample);
}

TEST(CudaPacketDecPipelineTest, ALongWaitIsReportedOnce) {
  Pipeline pipeline(from_file("max-frames=2", kCudaCaps));
  pipeline.set_state(GST_STATE_PLAYING);
  GstSample* held[] = {pipeline.pull(), pipeline.pull()};
  GstMessage* message =
      gst_bus_timed_pop_filtered(pipeline.bus(), 60 * GST_SECOND, GST_MESSAGE_WARNING);
  ASSERT_NE(message, nullptr);
  EXPECT_EQ(GST_MESSAGE_SRC(message), GST_OBJECT(pipeline.at("dec")));
  GError* error = nullptr;
  gst_message_parse_warning(message, &error, nullptr);
  EXPECT_NE(std::string(error->message).find("max-frames"), std::string::npos);
  g_error_free(error);
  gst_message_unref(message);
  for (GstSample* sample : held) gst_sample_unref(sample);
  guint frames = 2;
  while (GstSample* sample = pipeline.pull()) {
    ++frames;
    gst_sample_unref(sample);
  }
  EXPECT_EQ(frames, 60U);
}

// A paused application may hold what it likes for as long as it likes.
TEST(CudaPacketDecPipelineTest, ALongWaitInPausedIsNotReported) {
  Pipeline pipeline(from_file("max-frames=2", std::string(kCudaCaps) + " ! queue"));
  pipeline.set_state(GST_STATE_PAUSED);
  while (stat(pipeline.at("dec"), "host-waits") == 0) std::this_thread::yield();
  // Longer than an element in PLAYING waits before it says so.
  EXPECT_EQ(gst_bus_timed_pop_filtered(pipeline.bus(), 2500 * GST_MSECOND, GST_MESSAGE_WARNING),
            nullptr);
  EXPECT_EQ(stat(pipeline.at("dec"), "blocks-created"), 2U);
}

TEST(CudaPacketDecPipelineTest, FullMemoryInMidStreamIsOneErrorAndFramesThatAreOutStay) {
  const std::vector<ReferenceFrame> reference = decode_reference(read_clip(clip_path()));
  Pipeline pipeline(from_file("reuse-policy=record-stream", kCudaCaps));
  pipeline.set_state(GST_STATE_PLAYING);
  std::vector<GstSample*> held;
  for (int i = 0; i < 3; ++i) held.push_back(pipeline.pull());
  sim().fail_call("cuMemAlloc", 1, 0);
  while (GstSample* sample = pipeline.pull()) held.push_back(sample);
  std::vector<std::string> errors;
  pipeline.wait("dec", &errors);
  ASSERT_EQ(errors.size(), 1U);
  EXPECT_NE(errors[0].find("memory"), std::string::npos) << errors[0];
  ASSERT_GE(held.size(), 3U);
  for (std::size_t i = 0; i < held.size(); ++i) {
    EXPECT_TRUE(read_nv12(gst_sample_get_buffer(held[i]), gst_sample_get_caps(held[i])) ==
                reference[i].nv12)
        << i;
    gst_sample_unref(held[i]);
  }
}

std::size_t entries_of(const char* folder) {
  std::size_t count = 0;
  DIR* dir = opendir(folder);
  while (readdir(dir)) ++count;
  closedir(dir);
  return count;
}

// An elementary stream in a file that goes with this object.
class StreamFile {
 public:
  explicit StreamFile(const Clip& clip) {
    const int file = g_file_open_tmp("cudaframe-XXXXXX.h264", &path_, nullptr);
    EXPECT_GE(file, 0);
    for (const ByteVector& packet : clip.packets) {
      EXPECT_EQ(write(file, packet.data(), packet.size()), static_cast<ssize_t>(packet.size()));
    }
    close(file);
  }
  ~StreamFile() {
    unlink(path_);
    g_free(path_);
  }
  StreamFile(const StreamFile&) = delete;
  StreamFile& operator=(const StreamFile&) = delete;
  const char* path() const { return path_; }

 private:
  gchar* path_ = nullptr;
};

TEST(CudaPacketDecPipelineTest, TwoHundredStartsAndStopsLeaveNothingBehind) {
  const StreamFile file(make_clip({.frames = 30, .gop = 10, .repeat_headers = true}));
  Pipeline pipeline(std::string("filesrc location=\"") + file.path() +
                    "\" ! h264parse ! cudapacketdec ! " + kCudaCaps +
                    " ! appsink name=sink sync=false max-buffers=2");
  constexpr std::size_t kPoolThreads = 8;
  cudaframe_sim_live first{};
  std::size_t threads = 0;
  std::size_t files = 0;
  for (int round = 0; round < 200; ++round) {
    pipeline.set_state(GST_STATE_PLAYING);
    GstSample* sample = pipeline.pull();
    ASSERT_NE(sample, nullptr) << "round " << round;
    gst_sample_unref(sample);
    pipeline.set_state(GST_STATE_NULL);
    const cudaframe_sim_live live = sim_live();
    EXPECT_LE(live.allocations, 1U) << "more than the frame that appsink keeps for itself";
    EXPECT_LE(live.decoders, 4U) << "more than are kept idle";
    EXPECT_EQ(live.parsers, 0U);
    // Events are pooled for the life of the context, and GLib's threads for some seconds: a few
    // more or less are no growth, one each round would be.
    if (round == 20) {
      first = live;
      threads = entries_of("/proc/self/task");
      files = entries_of("/proc/self/fd");
    }
    if (round < 20) continue;
    EXPECT_EQ(live.pinned_allocations, first.pinned_allocations);
    EXPECT_EQ(live.streams, first.streams);
    EXPECT_LE(live.events, std::max<std::size_t>(first.events, 32));
    EXPECT_LE(entries_of("/proc/self/task"), threads + kPoolThreads);
    EXPECT_EQ(entries_of("/proc/self/fd"), files);
  }
}

// ---- Harness

class CudaPacketDecTest : public testing::Test {
 protected:
  // Properties count from the start of the element, which a harness starts at once.
  void open(const char* properties = "") {
    harness_ = gst_harness_new_parse((std::string("cudapacketdec ") + properties).c_str());
    ASSERT_NE(harness_, nullptr);
  }
  void close() {
    if (harness_) gst_harness_teardown(harness_);
    harness_ = nullptr;
    EXPECT_LE(sim_live().decoders, 4U) << "more than are kept idle";
    EXPECT_EQ(sim_live().parsers, 0U);
  }
  void TearDown() override { close(); }

  // The harness puts it into a bin.
  GstElement* decoder() { return GST_ELEMENT(GST_BIN_CHILDREN(GST_BIN(harness_->element))->data); }

  void set_caps(const Clip& clip, const char* sink_caps = kCudaCaps, const char* extra = "") {
    gst_harness_set_sink_caps_str(harness_, sink_caps);
    set_src_caps(clip, extra);
  }

  void set_src_caps(const Clip& clip, const char* extra = "") {
    const std::string text =
        std::string("video/x-h264,stream-format=byte-stream,alignment=au,framerate=30/1") + extra;
    GstCaps* caps = gst_caps_from_string(text.c_str());
    if (!clip.headers.empty()) {
      GstBuffer* data = gst_buffer_new_memdup(clip.headers.data(), clip.headers.size());
      gst_caps_set_simple(caps, "codec_data", GST_TYPE_BUFFER, data, nullptr);
      gst_buffer_unref(data);
    }
    gst_harness_set_src_caps(harness_, caps);
  }

  static GstBuffer* packet(const Clip& clip, std::size_t i, GstClockTime offset = 0) {
    GstBuffer* buffer = gst_buffer_new_memdup(clip.packets[i].data(), clip.packets[i].size());
    GST_BUFFER_PTS(buffer) = offset + static_cast<guint64>(clip.pts[i]) * kFrameDuration;
    GST_BUFFER_DURATION(buffer) = kFrameDuration;
    if (!clip.is_key[i]) GST_BUFFER_FLAG_SET(buffer, GST_BUFFER_FLAG_DELTA_UNIT);
    return buffer;
  }

  void push_all(const Clip& clip, GstClockTime offset = 0) {
    for (std::size_t i = 0; i < clip.packets.size(); ++i) {
      ASSERT_EQ(gst_harness_push(harness_, packet(clip, i, offset)), GST_FLOW_OK) << i;
    }
  }

  void push_eos() { ASSERT_TRUE(gst_harness_push_event(harness_, gst_event_new_eos())); }

  void expect_frames(const std::vector<ReferenceFrame>& reference, GstClockTime offset = 0) {
    GstCaps* caps = gst_pad_get_current_caps(harness_->sinkpad);
    for (const ReferenceFrame& expected : reference) {
      GstBuffer* buffer = gst_harness_try_pull(harness_);
      ASSERT_NE(buffer, nullptr) << "frame " << expected.pts << " is missing";
      EXPECT_EQ(GST_BUFFER_PTS(buffer),
                offset + static_cast<guint64>(expected.pts) * kFrameDuration);
      EXPECT_TRUE(read_nv12(buffer, caps) == expected.nv12) << "frame " << expected.pts;
      gst_buffer_unref(buffer);
    }
    gst_caps_unref(caps);
    EXPECT_EQ(gst_harness_buffers_in_queue(harness_), 0U);
  }

  // Errors that the decoder has posted on `bus`.
  static std::vector<std::string> errors_on(GstBus* bus) { return take_errors(bus); }

  GstHarness* harness_ = nullptr;
};

TEST_F(CudaPacketDecTest, AllBFramesComeOutAtTheEnd) {
  open("max-frames=40");
  const Clip clip = make_clip({.frames = 33, .gop = 60, .b_frames = 8, .refs = 4});
  set_caps(clip);
  push_all(clip);
  push_eos();
  expect_frames(decode_reference(clip));
}

TEST_F(CudaPacketDecTest, OneFrameComesOutAtTheEnd) {
  open();
  const Clip clip = make_clip({.frames = 1});
  set_caps(clip);
  push_all(clip);
  push_eos();
  expect_frames(decode_reference(clip));
}

TEST_F(CudaPacketDecTest, ASegmentDoneDrainsToo) {
  open("max-frames=40");
  const Clip clip = make_clip({.frames = 20, .b_frames = 2});
  set_caps(clip);
  push_all(clip);
  ASSERT_TRUE(gst_harness_push_event(harness_, gst_event_new_segment_done(GST_FORMAT_TIME, 0)));
  expect_frames(decode_reference(clip));
}

TEST_F(CudaPacketDecTest, EachSizeHasItsCapsBeforeItsFirstFrame) {
  open("max-frames=80");
  struct Part {
    Clip clip;
    int width;
    std::size_t frames;
  };
  const Part parts[] = {
      {make_clip({.frames = 30, .b_frames = 2, .repeat_headers = true}), 320, 30},
      {make_clip(
           {.width = 640, .height = 360, .frames = 20, .b_frames = 2, .repeat_headers = true}),
       640, 20},
      {make_clip(
           {.width = 256, .height = 144, .frames = 20, .b_frames = 2, .repeat_headers = true}),
       256, 20}};
  // Caps events and buffers in the order in which they leave the decoder.
  std::vector<int> log;
  GstPad* pad = gst_element_get_static_pad(decoder(), "src");
  gst_pad_add_probe(
      pad,
      static_cast<GstPadProbeType>(GST_PAD_PROBE_TYPE_EVENT_DOWNSTREAM | GST_PAD_PROBE_TYPE_BUFFER),
      [](GstPad*, GstPadProbeInfo* info, gpointer user) {
        auto& entries = *static_cast<std::vector<int>*>(user);
        if (GST_PAD_PROBE_INFO_TYPE(info) & GST_PAD_PROBE_TYPE_BUFFER) {
          entries.push_back(0);
        } else if (GST_EVENT_TYPE(GST_PAD_PROBE_INFO_EVENT(info)) == GST_EVENT_CAPS) {
          GstCaps* caps = nullptr;
          gst_event_parse_caps(GST_PAD_PROBE_INFO_EVENT(info), &caps);
          int width = 0;
          gst_structure_get_int(gst_caps_get_structure(caps, 0), "width", &width);
          entries.push_back(width);
        }
        return GST_PAD_PROBE_OK;
      },
      &log, nullptr);
  gst_object_unref(pad);
  set_caps(parts[0].clip);
  GstClockTime offset = 0;
  for (const Part& part : parts) {
    push_all(part.clip, offset);
    offset += part.frames * kFrameDuration;
  }
  push_eos();
  std::vector<int> expected;
  for (const Part& part : parts) {
    expected.push_back(part.width);
    expected.insert(expected.end(), part.frames, 0);
  }
  EXPECT_EQ(log, expected);
  GstClockTime pts = 0;
  while (GstBuffer* buffer = gst_harness_try_pull(harness_)) {
    EXPECT_EQ(GST_BUFFER_PTS(buffer), pts);
    pts += kFrameDuration;
    gst_buffer_unref(buffer);
  }
}

TEST_F(CudaPacketDecTest, NewCapsShowWhatIsPendingFirst) {
  open("max-frames=40");
  const Clip small = make_clip({.frames = 12, .b_frames = 2});
  const Clip large = make_clip({.width = 640, .height = 360, .frames = 10, .b_frames = 2});
  set_caps(small);
  push_all(small);
  set_src_caps(large);
  const GstClockTime offset = 12 * kFrameDuration;
  push_all(large, offset);
  push_eos();
  for (int i = 0; i < 22; ++i) {
    GstBuffer* buffer = gst_harness_try_pull(harness_);
    ASSERT_NE(buffer, nullptr) << i;
    EXPECT_EQ(GST_BUFFER_PTS(buffer), static_cast<guint64>(i) * kFrameDuration);
    EXPECT_EQ(gst_buffer_get_video_meta(buffer)->width, i < 12 ? 320U : 640U);
    gst_buffer_unref(buffer);
  }
}

TEST_F(CudaPacketDecTest, OnlyTheDisplayAreaIsShown) {
  open("max-frames=40");
  const Clip clip =
      crop_clip(make_clip({.width = 352, .height = 288, .repeat_headers = true}), 64, 32, 16, 24);
  const auto reference = decode_reference(clip);
  ASSERT_EQ(reference[0].width, 256);
  ASSERT_EQ(reference[0].height, 248);
  set_caps(clip);
  push_all(clip);
  push_eos();
  GstCaps* caps = gst_pad_get_current_caps(harness_->sinkpad);
  GstVideoInfo info;
  EXPECT_TRUE(gst_video_info_from_caps(&info, caps));
  EXPECT_EQ(GST_VIDEO_INFO_WIDTH(&info), 256);
  EXPECT_EQ(GST_VIDEO_INFO_HEIGHT(&info), 248);
  gst_caps_unref(caps);
  expect_frames(reference);
}

TEST_F(CudaPacketDecTest, CapsFromUpstreamWin) {
  open();
  const Clip clip = make_clip({.frames = 2});
  set_caps(clip, kCudaCaps,
           ",pixel-aspect-ratio=4/3,colorimetry=bt2020,chroma-site=mpeg2,width=320,height=240");
  push_all(clip);
  push_eos();
  GstCaps* caps = gst_pad_get_current_caps(harness_->sinkpad);
  GstStructure* s = gst_caps_get_structure(caps, 0);
  EXPECT_STREQ(gst_structure_get_string(s, "colorimetry"), "bt2020");
  EXPECT_STREQ(gst_structure_get_string(s, "chroma-site"), "mpeg2");
  gint num = 0;
  gint den = 0;
  EXPECT_TRUE(gst_structure_get_fraction(s, "pixel-aspect-ratio", &num, &den));
  EXPECT_EQ(num * 3, den * 4);
  gst_caps_unref(caps);
}

TEST_F(CudaPacketDecTest, NewCapsForTheSameStreamReachDownstream) {
  open("max-frames=40");
  const Clip clip = make_clip({.frames = 20, .gop = 10});
  set_caps(clip, kCudaCaps, ",colorimetry=bt601");
  for (std::size_t i = 0; i < 10; ++i) gst_harness_push(harness_, packet(clip, i));
  const std::uint64_t created = sim_calls("cuvidCreateDecoder");
  set_src_caps(clip, ",colorimetry=bt709");
  EXPECT_EQ(gst_harness_buffers_received(harness_), 10U) << "frames of the old caps are late";
  for (std::size_t i = 10; i < 20; ++i) gst_harness_push(harness_, packet(clip, i));
  push_eos();
  GstCaps* caps = gst_pad_get_current_caps(harness_->sinkpad);
  EXPECT_STREQ(gst_structure_get_string(gst_caps_get_structure(caps, 0), "colorimetry"), "bt709");
  gst_caps_unref(caps);
  EXPECT_EQ(sim_calls("cuvidCreateDecoder"), created)
      << "a decoder of the same kind was thrown away";
  EXPECT_EQ(gst_harness_buffers_received(harness_), 20U);
}

TEST_F(CudaPacketDecTest, ASinkThatHoldsEightFramesMakesAPoolOfEightWait) {
  open();
  const Clip clip = make_clip({.frames = 30});
  set_caps(clip);
  GstFlowReturn pushed = GST_FLOW_OK;
  std::thread pusher([&] {
    for (std::size_t i = 0; i < clip.packets.size() && pushed == GST_FLOW_OK; ++i) {
      pushed = gst_harness_push(harness_, packet(clip, i));
    }
    gst_harness_push_event(harness_, gst_event_new_eos());
  });
  std::vector<GstBuffer*> held;
  for (int i = 0; i < 8; ++i) held.push_back(gst_harness_pull(harness_));
  while (stat(decoder(), "host-waits") == 0) std::this_thread::yield();
  EXPECT_EQ(gst_harness_buffers_received(harness_), 8U);
  EXPECT_EQ(stat(decoder(), "in-flight"), 8U);
  for (int i = 8; i < 30; ++i) {
    gst_buffer_unref(held.front());
    held.erase(held.begin());
    held.push_back(gst_harness_pull(harness_));
    ASSERT_NE(held.back(), nullptr) << i;
    EXPECT_EQ(GST_BUFFER_PTS(held.back()), static_cast<guint64>(i) * kFrameDuration);
  }
  pusher.join();
  EXPECT_EQ(pushed, GST_FLOW_OK);
  EXPECT_EQ(stat(decoder(), "frames"), 30U);
  EXPECT_EQ(stat(decoder(), "peak-in-flight"), 8U);
  EXPECT_EQ(stat(decoder(), "blocks-created"), 8U);
  for (GstBuffer* buffer : held) gst_buffer_unref(buffer);
}

TEST_F(CudaPacketDecTest, AFlushWakesTheWaitAndTheStreamGoesOnAfterIt) {
  open("max-frames=3");
  const Clip clip = make_clip({.frames = 30, .gop = 10});
  set_caps(clip);
  GstFlowReturn pushed = GST_FLOW_OK;
  std::thread pusher([&] {
    for (std::size_t i = 0; i < clip.packets.size() && pushed == GST_FLOW_OK; ++i) {
      pushed = gst_harness_push(harness_, packet(clip, i));
    }
  });
  std::vector<GstBuffer*> held;
  for (int i = 0; i < 3; ++i) held.push_back(gst_harness_pull(harness_));
  while (stat(decoder(), "host-waits") == 0) std::this_thread::yield();
  ASSERT_TRUE(gst_harness_push_event(harness_, gst_event_new_flush_start()));
  pusher.join();
  EXPECT_EQ(pushed, GST_FLOW_FLUSHING);
  for (GstBuffer* buffer : held) gst_buffer_unref(buffer);
  ASSERT_TRUE(gst_harness_push_event(harness_, gst_event_new_flush_stop(TRUE)));
  EXPECT_EQ(gst_harness_buffers_received(harness_), 3U) << "the flush showed frames";
  GstSegment segment;
  gst_segment_init(&segment, GST_FORMAT_TIME);
  ASSERT_TRUE(gst_harness_push_event(harness_, gst_event_new_segment(&segment)));
  std::thread again([&] {
    for (std::size_t i = 20; i < 30; ++i) gst_harness_push(harness_, packet(clip, i));
    gst_harness_push_event(harness_, gst_event_new_eos());
  });
  GstCaps* caps = gst_pad_get_current_caps(harness_->sinkpad);
  for (const ReferenceFrame& expected : decode_reference(clip, 20)) {
    GstBuffer* buffer = gst_harness_pull(harness_);
    ASSERT_NE(buffer, nullptr);
    EXPECT_EQ(GST_BUFFER_PTS(buffer), static_cast<guint64>(expected.pts) * kFrameDuration);
    EXPECT_TRUE(read_nv12(buffer, caps) == expected.nv12);
    gst_buffer_unref(buffer);
  }
  gst_caps_unref(caps);
  again.join();
}

TEST_F(CudaPacketDecTest, WhatDownstreamKeepsRaisesTheBound) {
  open("max-frames=2");
  const Clip clip = make_clip({.frames = 16});
  GstPad* pad = gst_element_get_static_pad(decoder(), "src");
  gst_pad_add_probe(
      pad,
      static_cast<GstPadProbeType>(GST_PAD_PROBE_TYPE_QUERY_DOWNSTREAM | GST_PAD_PROBE_TYPE_PULL),
      [](GstPad*, GstPadProbeInfo* info, gpointer) {
        GstQuery* query = GST_PAD_PROBE_INFO_QUERY(info);
        if (GST_QUERY_TYPE(query) == GST_QUERY_ALLOCATION) {
          gst_query_add_allocation_pool(query, nullptr, 0, 15, 0);
        }
        return GST_PAD_PROBE_OK;
      },
      nullptr, nullptr);
  gst_object_unref(pad);
  set_caps(clip);
  push_all(clip);
  push_eos();
  // All 16 are held by the harness: a bound of 2 would have hung here.
  EXPECT_EQ(gst_harness_buffers_in_queue(harness_), 16U);
}

TEST_F(CudaPacketDecTest, DecodeOnlyPacketsAreNotShown) {
  open("max-frames=40");
  const Clip clip = make_clip({.frames = 20, .gop = 20, .b_frames = 2});
  set_caps(clip);
  for (std::size_t i = 0; i < clip.packets.size(); ++i) {
    GstBuffer* buffer = packet(clip, i);
    if (clip.pts[i] < 7) GST_BUFFER_FLAG_SET(buffer, GST_BUFFER_FLAG_DECODE_ONLY);
    ASSERT_EQ(gst_harness_push(harness_, buffer), GST_FLOW_OK);
  }
  push_eos();
  auto reference = decode_reference(clip);
  reference.erase(reference.begin(), reference.begin() + 7);
  expect_frames(reference);
}

TEST_F(CudaPacketDecTest, WhatTheDeviceCantDecodeIsOneErrorThatNamesIt) {
  struct Case {
    ClipSpec clip;
    const char* word;
  };
  const Case cases[] = {{{.frames = 3, .high10 = true}, "10-bit"},
                        {{.width = 4112, .height = 64, .frames = 3}, "4096x4096"}};
  for (const Case& test : cases) {
    close();
    open();
    const Clip clip = make_clip(test.clip);
    GstBus* bus = gst_bus_new();
    gst_element_set_bus(decoder(), bus);
    set_caps(clip);
    EXPECT_EQ(gst_harness_push(harness_, packet(clip, 0)), GST_FLOW_ERROR);
    push_eos();
    const std::vector<std::string> errors = errors_on(bus);
    gst_element_set_bus(decoder(), nullptr);
    gst_object_unref(bus);
    ASSERT_EQ(errors.size(), 1U);
    EXPECT_NE(errors[0].find(test.word), std::string::npos) << errors[0];
    EXPECT_NE(errors[0].find("H.264"), std::string::npos) << errors[0];
  }
}

TEST_F(CudaPacketDecTest, MissingCodecDataIsOneError) {
  open();
  GstBus* bus = gst_bus_new();
  gst_element_set_bus(decoder(), bus);
  gst_harness_set_sink_caps_str(harness_, kCudaCaps);
  gst_harness_set_src_caps_str(harness_, "video/x-h264,stream-format=avc,alignment=au");
  const Clip clip = make_clip({.frames = 1});
  EXPECT_EQ(gst_harness_push(harness_, packet(clip, 0)), GST_FLOW_NOT_NEGOTIATED);
  const std::vector<std::string> errors = errors_on(bus);
  gst_element_set_bus(decoder(), nullptr);
  gst_object_unref(bus);
  ASSERT_EQ(errors.size(), 1U);
  EXPECT_NE(errors[0].find("avcC"), std::string::npos) << errors[0];
}

TEST_F(CudaPacketDecTest, DamagedPacketsDontEndTheStream) {
  open("max-frames=40");
  const Clip clip = make_clip({.frames = 30, .gop = 10});
  gst_harness_set_sink_caps_str(harness_, kCudaCaps);
  GstCaps* caps =
      gst_caps_from_string("video/x-h264,stream-format=avc,alignment=au,framerate=30/1");
  const ByteVector record = make_avcc_record(clip.headers);
  GstBuffer* data = gst_buffer_new_memdup(record.data(), record.size());
  gst_caps_set_simple(caps, "codec_data", GST_TYPE_BUFFER, data, nullptr);
  gst_buffer_unref(data);
  gst_harness_set_src_caps(harness_, caps);
  for (std::size_t i = 0; i < clip.packets.size(); ++i) {
    ByteVector bytes = to_length_prefixed(clip.packets[i]);
    if (i == 4) bytes[0] = 0x7f;               // a length beyond the packet
    if (i == 6) bytes = ByteVector(30, 0xff);  // no NAL unit at all
    GstBuffer* buffer = gst_buffer_new_memdup(bytes.data(), bytes.size());
    GST_BUFFER_PTS(buffer) = static_cast<guint64>(clip.pts[i]) * kFrameDuration;
    EXPECT_EQ(gst_harness_push(harness_, buffer), GST_FLOW_OK) << i;
  }
  push_eos();
  std::vector<GstClockTime> pts;
  while (GstBuffer* buffer = gst_harness_try_pull(harness_)) {
    pts.push_back(GST_BUFFER_PTS(buffer));
    gst_buffer_unref(buffer);
  }
  ASSERT_GE(pts.size(), 20U);
  EXPECT_EQ(pts.back(), 29 * kFrameDuration);
  EXPECT_TRUE(std::is_sorted(pts.begin(), pts.end()));
}

TEST_F(CudaPacketDecTest, DownstreamsRefusalComesBackAndTheStreamCanGoOn) {
  open("max-frames=40 max-display-delay=0");
  const Clip clip = make_clip({.frames = 30, .gop = 10});
  set_caps(clip);
  GstPad* pad = gst_element_get_static_pad(decoder(), "src");
  int seen = 0;
  const gulong probe = gst_pad_add_probe(
      pad, GST_PAD_PROBE_TYPE_BUFFER,
      [](GstPad*, GstPadProbeInfo* info, gpointer user) {
        if (++*static_cast<int*>(user) != 5) return GST_PAD_PROBE_OK;
        gst_buffer_unref(GST_PAD_PROBE_INFO_BUFFER(info));
        GST_PAD_PROBE_INFO_DATA(info) = nullptr;
        GST_PAD_PROBE_INFO_FLOW_RETURN(info) = GST_FLOW_EOS;
        return GST_PAD_PROBE_HANDLED;
      },
      &seen, nullptr);
  GstFlowReturn flow = GST_FLOW_OK;
  std::size_t i = 0;
  while (i < 10 && flow == GST_FLOW_OK) flow = gst_harness_push(harness_, packet(clip, i++));
  EXPECT_EQ(flow, GST_FLOW_EOS);
  EXPECT_EQ(seen, 5) << "pushed after the refusal";
  gst_pad_remove_probe(pad, probe);
  gst_object_unref(pad);
  while (GstBuffer* buffer = gst_harness_try_pull(harness_)) gst_buffer_unref(buffer);
  for (i = 20; i < 30; ++i) {
    ASSERT_EQ(gst_harness_push(harness_, packet(clip, i)), GST_FLOW_OK);
  }
  push_eos();
  expect_frames(decode_reference(clip, 20));
}

TEST_F(CudaPacketDecTest, NoContextIsCurrentWhileDownstreamRuns) {
  open("max-frames=40");
  const Clip clip = make_clip({.frames = 10});
  set_caps(clip);
  GstPad* pad = gst_element_get_static_pad(decoder(), "src");
  gst_pad_add_probe(
      pad,
      static_cast<GstPadProbeType>(GST_PAD_PROBE_TYPE_DATA_DOWNSTREAM |
                                   GST_PAD_PROBE_TYPE_QUERY_DOWNSTREAM),
      [](GstPad*, GstPadProbeInfo*, gpointer) {
        EXPECT_EQ(sim_calls("cuCtxPushCurrent"), sim_calls("cuCtxPopCurrent"));
        return GST_PAD_PROBE_OK;
      },
      nullptr, nullptr);
  gst_object_unref(pad);
  push_all(clip);
  push_eos();
  EXPECT_EQ(gst_harness_buffers_received(harness_), 10U);
}

TEST_F(CudaPacketDecTest, SteadyStateAllocatesNothingAndWaitsForNothing) {
  open();
  const Clip clip = make_clip({.frames = 60, .gop = 60, .b_frames = 2});
  set_caps(clip);
  const auto push = [&](std::size_t from, std::size_t to) {
    for (std::size_t i = from; i < to; ++i) {
      ASSERT_EQ(gst_harness_push(harness_, packet(clip, i)), GST_FLOW_OK);
      while (GstBuffer* buffer = gst_harness_try_pull(harness_)) gst_buffer_unref(buffer);
    }
  };
  push(0, 30);
  sim().reset_counts();
  push(30, 60);
  EXPECT_EQ(sim_calls("cuvidMapVideoFrame"), 30U);
  for (const char* call :
       {"cuMemAlloc", "cuMemFree", "cuMemHostAlloc", "cuMemFreeHost", "cuStreamSynchronize",
        "cuEventSynchronize", "cuCtxSynchronize", "cuEventCreate", "cuEventDestroy"}) {
    EXPECT_EQ(sim_calls(call), 0U) << call;
  }
}

TEST_F(CudaPacketDecTest, LatencyIsWhatHasBeenSeen) {
  open("max-frames=40 max-display-delay=0");
  const Clip clip = make_clip({.frames = 20, .gop = 20, .b_frames = 2});
  set_caps(clip);
  push_all(clip);
  const GstClockTime latency = gst_harness_query_latency(harness_);
  EXPECT_GE(latency, kFrameDuration) << "B-frames take time";
  EXPECT_LE(latency, 18 * GST_SECOND / 30);
  push_eos();
}

TEST(CudaPacketDecFactoryTest, TheElementDescribesItself) {
  GstElementFactory* factory = gst_element_factory_find("cudapacketdec");
  ASSERT_NE(factory, nullptr);
  EXPECT_EQ(gst_plugin_feature_get_rank(GST_PLUGIN_FEATURE(factory)),
            static_cast<guint>(GST_RANK_NONE));
  EXPECT_STREQ(gst_element_factory_get_metadata(factory, GST_ELEMENT_METADATA_KLASS),
               "Codec/Decoder/Video/Hardware");
  GstElement* element = gst_element_factory_create(factory, nullptr);
  for (const char* name : {"reuse-policy", "max-frames", "max-bytes", "num-decode-surfaces",
                           "max-display-delay", "cuda-device-id", "cuda-stream", "stats"}) {
    GParamSpec* spec = g_object_class_find_property(G_OBJECT_GET_CLASS(element), name);
    ASSERT_NE(spec, nullptr) << name;
    EXPECT_NE(g_param_spec_get_blurb(spec), nullptr) << name;
  }
  gst_object_unref(element);
  gst_object_unref(factory);
}

TEST(CudaPacketDecStateTest, ThePerThreadStreamIsRefusedWithOneError) {
  Pipeline pipeline(from_file("cuda-stream=2", kCudaCaps));
  EXPECT_EQ(pipeline.set_state(GST_STATE_PAUSED), GST_STATE_CHANGE_FAILURE);
  std::vector<std::string> errors;
  pipeline.collect("dec", &errors);
  ASSERT_EQ(errors.size(), 1U);
  EXPECT_NE(errors[0].find("cuda-stream"), std::string::npos) << errors[0];
}

TEST(CudaPacketDecStateTest, AMissingDeviceIsOneErrorThatNamesIt) {
  Pipeline pipeline(from_file("cuda-device-id=99", kCudaCaps));
  EXPECT_EQ(pipeline.set_state(GST_STATE_PAUSED), GST_STATE_CHANGE_FAILURE);
  std::vector<std::string> errors;
  pipeline.collect("dec", &errors);
  ASSERT_EQ(errors.size(), 1U);
  EXPECT_NE(errors[0].find("99"), std::string::npos) << errors[0];
}

}  // namespace
}  // namespace cudaframe::test
