// SPDX-License-Identifier: LGPL-2.1-or-later
// Every decoded frame of the tutorial's clip against libavcodec's software decoder, bit for bit,
// and every converted one against the standards' formulas. Runs on the simulated device and on
// hardware.

#include <gst/app/gstappsink.h>
#include <gst/cudaframe/cudaframe.h>
#include <gst/gst.h>
#include <gst/video/video.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <string>
#include <tuple>

#include "tests/support/color_reference.h"
#include "tests/unit/decode_clip.h"

namespace {

using cudaframe::test::Clip;
using cudaframe::test::ReferenceFrame;

const char* clip_path() {
  const char* path = std::getenv("CUDAFRAME_TEST_CLIP");
  if (!path) g_error("CUDAFRAME_TEST_CLIP is not set");
  return path;
}

const std::vector<ReferenceFrame>& reference() {
  static const auto* const frames = new std::vector<ReferenceFrame>(
      cudaframe::test::decode_reference(cudaframe::test::read_clip(clip_path())));
  return *frames;
}

struct Params {
  const char* policy;
  const char* memory;  ///< caps features
  const char* demuxer;
};

class FrameEqualityTest : public testing::TestWithParam<Params> {
 protected:
  void run(const std::string& tail) {
    const std::string description = "filesrc name=source ! " + std::string(GetParam().demuxer) +
                                    " ! cudapacketdec reuse-policy=" + GetParam().policy + " ! " +
                                    tail + " ! appsink name=sink sync=false max-buffers=2";
    GError* error = nullptr;
    pipeline_ = gst_parse_launch(description.c_str(), &error);
    ASSERT_EQ(error, nullptr) << error->message;
    GstElement* source = gst_bin_get_by_name(GST_BIN(pipeline_), "source");
    g_object_set(source, "location", clip_path(), nullptr);
    gst_object_unref(source);
    sink_ = gst_bin_get_by_name(GST_BIN(pipeline_), "sink");
    gst_element_set_state(pipeline_, GST_STATE_PLAYING);
  }
  void TearDown() override {
    if (!pipeline_) return;
    GstBus* bus = gst_element_get_bus(pipeline_);
    GstMessage* message = gst_bus_pop_filtered(bus, GST_MESSAGE_ERROR);
    EXPECT_EQ(message, nullptr) << "an error was posted";
    if (message) gst_message_unref(message);
    gst_object_unref(bus);
    gst_element_set_state(pipeline_, GST_STATE_NULL);
    gst_object_unref(sink_);
    gst_object_unref(pipeline_);
  }
  GstSample* next() { return gst_app_sink_try_pull_sample(GST_APP_SINK(sink_), 60 * GST_SECOND); }

  GstElement* pipeline_ = nullptr;
  GstElement* sink_ = nullptr;
};

INSTANTIATE_TEST_SUITE_P(All, FrameEqualityTest,
                         testing::Values(Params{"bounded-pool", "memory:CUDAFrame", "cudademux"},
                                         Params{"record-stream", "memory:CUDAFrame", "cudademux"},
                                         Params{"bounded-pool", "memory:SystemMemory", "cudademux"},
                                         Params{"record-stream", "memory:SystemMemory",
                                                "qtdemux ! h264parse"}),
                         [](const auto& instance) {
                           return std::string(instance.param.policy[0] == 'b' ? "BoundedPool"
                                                                              : "RecordStream") +
                                  (std::strstr(instance.param.memory, "CUDA") ? "Cuda" : "System");
                         });

/// Differing samples of one plane.
std::size_t differences(const GstVideoFrame& frame, guint plane, const guint8* expected,
                        std::size_t row_bytes, std::size_t rows) {
  const auto* data = static_cast<const guint8*>(GST_VIDEO_FRAME_PLANE_DATA(&frame, plane));
  const auto stride = static_cast<std::size_t>(GST_VIDEO_FRAME_PLANE_STRIDE(&frame, plane));
  std::size_t count = 0;
  for (std::size_t y = 0; y < rows; ++y) {
    for (std::size_t x = 0; x < row_bytes; ++x) {
      count += data[y * stride + x] != expected[y * row_bytes + x];
    }
  }
  return count;
}

TEST_P(FrameEqualityTest, Nv12EqualsTheSoftwareDecoder) {
  run("video/x-raw(" + std::string(GetParam().memory) + "),format=NV12");
  ASSERT_EQ(reference().size(), 60u);
  std::size_t index = 0;
  while (GstSample* sample = next()) {
    ASSERT_LT(index, reference().size());
    const ReferenceFrame& expected = reference()[index];
    GstVideoInfo info;
    ASSERT_TRUE(gst_video_info_from_caps(&info, gst_sample_get_caps(sample)));
    ASSERT_EQ(info.width, expected.width);
    ASSERT_EQ(info.height, expected.height);
    GstBuffer* buffer = gst_sample_get_buffer(sample);
    // Timestamps are shifted so that no decoding time is negative; the segment takes it back.
    const guint64 running = gst_segment_to_running_time(gst_sample_get_segment(sample),
                                                        GST_FORMAT_TIME, GST_BUFFER_PTS(buffer));
    EXPECT_NEAR(static_cast<double>(running), static_cast<double>(index) * GST_SECOND / 30, 1.0)
        << "frame " << index;
    GstVideoFrame frame;
    ASSERT_TRUE(gst_video_frame_map(&frame, &info, buffer, GST_MAP_READ));
    const auto width = static_cast<std::size_t>(info.width);
    const auto height = static_cast<std::size_t>(info.height);
    const guint8* chroma = expected.nv12.data() + width * height;
    EXPECT_EQ(differences(frame, 0, expected.nv12.data(), width, height), 0u) << "frame " << index;
    EXPECT_EQ(differences(frame, 1, chroma, (width + 1) / 2 * 2, (height + 1) / 2), 0u)
        << "frame " << index;
    gst_video_frame_unmap(&frame);
    gst_sample_unref(sample);
    ++index;
  }
  EXPECT_EQ(index, reference().size());
}

// The clip says nothing about its colours: GStreamer's default for 720 rows is BT.709, limited, and
// H.264's for chroma is left.
TEST_P(FrameEqualityTest, RgbIsWithinOneOfTheReference) {
  run("cudacolorconvert reuse-policy=" + std::string(GetParam().policy) + " ! video/x-raw(" +
      GetParam().memory + "),format=RGB");
  std::size_t index = 0;
  while (GstSample* sample = next()) {
    ASSERT_LT(index, reference().size());
    const ReferenceFrame& source = reference()[index];
    const auto width = static_cast<std::size_t>(source.width);
    const auto height = static_cast<std::size_t>(source.height);
    const std::vector<double> expected =
        cudaframe::test::reference_rgb({source.width, source.height, source.nv12.data(), width,
                                        source.nv12.data() + width * height, (width + 1) / 2 * 2},
                                       {});
    GstVideoInfo info;
    ASSERT_TRUE(gst_video_info_from_caps(&info, gst_sample_get_caps(sample)));
    EXPECT_EQ(GST_VIDEO_INFO_COLORIMETRY(&info).matrix, GST_VIDEO_COLOR_MATRIX_RGB);
    EXPECT_EQ(GST_VIDEO_INFO_COLORIMETRY(&info).range, GST_VIDEO_COLOR_RANGE_0_255);
    GstVideoFrame frame;
    ASSERT_TRUE(gst_video_frame_map(&frame, &info, gst_sample_get_buffer(sample), GST_MAP_READ));
    const auto* data = static_cast<const guint8*>(GST_VIDEO_FRAME_PLANE_DATA(&frame, 0));
    const auto stride = static_cast<std::size_t>(GST_VIDEO_FRAME_PLANE_STRIDE(&frame, 0));
    double largest = 0;
    for (std::size_t y = 0; y < height; ++y) {
      for (std::size_t x = 0; x < 3 * width; ++x) {
        largest = std::max(largest, std::abs(data[y * stride + x] - expected[y * 3 * width + x]));
      }
    }
    EXPECT_LE(largest, 1.0) << "frame " << index;
    gst_video_frame_unmap(&frame);
    gst_sample_unref(sample);
    ++index;
  }
  EXPECT_EQ(index, reference().size());
}

}  // namespace
