// SPDX-License-Identifier: LGPL-2.1-or-later
// cudapacketdec on the simulated device, in pipelines behind GStreamer's own demuxers and parsers.

#include <dirent.h>
#include <gst/gst.h>
#include <gst/video/video.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <string>
#include <thread>
#include <vector>

#include "gst/cudaframe/cudaframe.h"
#include "packetdec_support.h"
#include "tests/support/gst_helpers.h"
#include "tests/support/pipeline.h"
#include "tests/support/simulator.h"

namespace cudaframe::test {
namespace {

// An error on its bus fails the test unless it was asked for.
class WatchedPipeline : public Pipeline {
 public:
  using Pipeline::Pipeline;

  /// The element of that name; the pipeline keeps it alive.
  GstElement* at(const char* name) {
    GstElement* found = element(name);
    EXPECT_NE(found, nullptr) << name;
    if (found) gst_object_unref(found);
    return found;
  }

  /// Waits for EOS or an error. The errors from the element `name` go to `errors`.
  void wait(const char* name = nullptr, std::vector<std::string>* errors = nullptr) {
    bool ended = false;
    while (!ended) {
      GstMessage* message = gst_bus_timed_pop_filtered(
          bus(), 60 * GST_SECOND,
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
    while (GstMessage* message = gst_bus_pop_filtered(bus(), GST_MESSAGE_ERROR)) {
      note(message, name, errors);
      gst_message_unref(message);
    }
  }

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
  WatchedPipeline pipeline(std::string("filesrc location=\"") + clip_path() +
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
  WatchedPipeline pipeline(from_file(GetParam().properties, GetParam().caps));
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
    EXPECT_EQ(stat_of(pipeline.at("dec"), "frames"), 60U);
    EXPECT_LE(stat_of(pipeline.at("dec"), "blocks-created"), 8U);
    EXPECT_LE(stat_of(pipeline.at("dec"), "peak-in-flight"), 8U);
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
  WatchedPipeline pipeline(from_file("", ""));
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
  WatchedPipeline pipeline(from_file("", kCudaCaps));
  pipeline.set_state(GST_STATE_PLAYING);
  GstSample* sample = pipeline.pull();
  ASSERT_NE(sample, nullptr);
  GstBuffer* buffer = gst_sample_get_buffer(sample);
  EXPECT_TRUE(gst_is_cuda_frame_memory(gst_buffer_peek_memory(buffer, 0)));
  EXPECT_NE(gst_buffer_get_cuda_event_meta(buffer), nullptr);
  gst_sample_unref(sample);
}

TEST(CudaPacketDecPipelineTest, CapsDescribeTheStream) {
  WatchedPipeline pipeline(from_file("", kCudaCaps));
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
  // The clip says nothing of its colours: what GStreamer takes for the size, and H.264's siting.
  const GstStructure* caps = gst_caps_get_structure(gst_sample_get_caps(sample), 0);
  EXPECT_STREQ(gst_structure_get_string(caps, "colorimetry"), "bt709");
  EXPECT_STREQ(gst_structure_get_string(caps, "chroma-site"), "mpeg2");
  gst_sample_unref(sample);
}

TEST(CudaPacketDecPipelineTest, AFlushingSeekGoesOnAtTheKeyFrame) {
  const std::vector<ReferenceFrame> reference = decode_reference(read_clip(clip_path()));
  const std::vector<Times> times = times_of_file();
  WatchedPipeline pipeline(from_file("", kCudaCaps));
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
  WatchedPipeline pipeline(from_file("max-frames=4", kCudaCaps));
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
  EXPECT_GT(stat_of(pipeline.at("dec"), "over-bound"), 0U);
}

TEST(CudaPacketDecPipelineTest, AFrameOutlivesItsPipeline) {
  const std::vector<ReferenceFrame> reference = decode_reference(read_clip(clip_path()));
  for (const char* caps : {kCudaCaps, kSystemCaps}) {
    GstSample* sample = nullptr;
    {
      WatchedPipeline pipeline(from_file("", caps));
      pipeline.set_state(GST_STATE_PLAYING);
      sample = pipeline.pull();
      ASSERT_NE(sample, nullptr);
    }
    EXPECT_TRUE(read_nv12(gst_sample_get_buffer(sample), gst_sample_get_caps(sample)) ==
                reference[0].nv12);
    gst_sample_unref(sample);
    EXPECT_EQ(sim().live().allocations, 0U) << "freed with the last frame";
  }
}

TEST(CudaPacketDecPipelineTest, NullWakesTheWaitForAFrame) {
  WatchedPipeline pipeline(from_file("max-frames=4", kCudaCaps));
  pipeline.set_state(GST_STATE_PLAYING);
  std::vector<GstSample*> held;
  for (int i = 0; i < 4; ++i) held.push_back(pipeline.pull());
  while (stat_of(pipeline.at("dec"), "host-waits") == 0) std::this_thread::yield();
  EXPECT_EQ(stat_of(pipeline.at("dec"), "blocks-created"), 4U);
  pipeline.set_state(GST_STATE_NULL);
  for (GstSample* sample : held) gst_sample_unref(sample);
}

TEST(CudaPacketDecPipelineTest, ALongWaitIsReportedOnce) {
  WatchedPipeline pipeline(from_file("max-frames=2", kCudaCaps));
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
  WatchedPipeline pipeline(from_file("max-frames=2", std::string(kCudaCaps) + " ! queue"));
  pipeline.set_state(GST_STATE_PAUSED);
  while (stat_of(pipeline.at("dec"), "host-waits") == 0) std::this_thread::yield();
  // Longer than an element in PLAYING waits before it says so.
  EXPECT_EQ(gst_bus_timed_pop_filtered(pipeline.bus(), 2500 * GST_MSECOND, GST_MESSAGE_WARNING),
            nullptr);
  EXPECT_EQ(stat_of(pipeline.at("dec"), "blocks-created"), 2U);
}

TEST(CudaPacketDecPipelineTest, FullMemoryInMidStreamIsOneErrorAndFramesThatAreOutStay) {
  const std::vector<ReferenceFrame> reference = decode_reference(read_clip(clip_path()));
  WatchedPipeline pipeline(from_file("reuse-policy=record-stream", kCudaCaps));
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
  WatchedPipeline pipeline(std::string("filesrc location=\"") + file.path() +
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
    const cudaframe_sim_live live = sim().live();
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

TEST(CudaPacketDecStateTest, ThePerThreadStreamIsRefusedWithOneError) {
  WatchedPipeline pipeline(from_file("cuda-stream=2", kCudaCaps));
  EXPECT_EQ(pipeline.set_state(GST_STATE_PAUSED), GST_STATE_CHANGE_FAILURE);
  std::vector<std::string> errors;
  pipeline.collect("dec", &errors);
  ASSERT_EQ(errors.size(), 1U);
  EXPECT_NE(errors[0].find("cuda-stream"), std::string::npos) << errors[0];
}

TEST(CudaPacketDecStateTest, AMissingDeviceIsOneErrorThatNamesIt) {
  WatchedPipeline pipeline(from_file("cuda-device-id=99", kCudaCaps));
  EXPECT_EQ(pipeline.set_state(GST_STATE_PAUSED), GST_STATE_CHANGE_FAILURE);
  std::vector<std::string> errors;
  pipeline.collect("dec", &errors);
  ASSERT_EQ(errors.size(), 1U);
  EXPECT_NE(errors[0].find("99"), std::string::npos) << errors[0];
}

}  // namespace
}  // namespace cudaframe::test
