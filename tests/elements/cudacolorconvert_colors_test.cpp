// SPDX-License-Identifier: LGPL-2.1-or-later
// What cudacolorconvert makes of pictures, and what its caps say about them. Streams and states:
// cudacolorconvert_test.cpp.

#include <gst/check/gstharness.h>
#include <gst/video/video.h>
#include <gtest/gtest.h>

#include <string>
#include <tuple>
#include <vector>

#include "color_harness.h"

namespace cudaframe::test {
namespace {

constexpr const char* kFormats[] = {"RGB", "BGR", "RGBA", "BGRA", "RGBx", "BGRx", "RGBP", "GBR"};

std::string raw_caps(bool in_cuda, const std::string& rest) {
  return std::string(in_cuda ? "video/x-raw(memory:CUDAFrame)" : "video/x-raw") + "," + rest;
}

std::string sized(const char* format, int width, int height) {
  return std::string("format=") + format + ",width=" + std::to_string(width) +
         ",height=" + std::to_string(height) + ",framerate=25/1";
}

class ColorTest : public testing::Test, public ColorHarness {
 protected:
  void TearDown() override { close(); }
  /// One picture through an element with these properties.
  GstBuffer* run(const std::string& input_caps, const std::string& output_caps,
                 const Picture& picture, const char* properties = "") {
    open(properties);
    negotiate(input_caps.c_str(), output_caps.c_str());
    return convert(input(picture));
  }
  std::string output_field(const char* name) {
    GstCaps* caps = output_caps();
    const char* text = gst_structure_get_string(gst_caps_get_structure(caps, 0), name);
    std::string value = text ? text : "";
    gst_caps_unref(caps);
    return value;
  }
};

// ---- Formats and memories

using MemoryFormat = std::tuple<bool, bool, const char*>;
class ColorFormatTest : public ColorTest, public testing::WithParamInterface<MemoryFormat> {};

TEST_P(ColorFormatTest, EveryFormatInEitherMemoryAtOddSizes) {
  const auto& [from_cuda, to_cuda, format] = GetParam();
  for (const auto& [width, height] : {std::pair{64, 32}, {33, 17}, {1, 1}, {2, 5}}) {
    const Picture noise = noise_picture(width, height, 77);
    GstBuffer* out = run(raw_caps(from_cuda, sized("NV12", width, height)),
                         raw_caps(to_cuda, std::string("format=") + format), noise);
    ASSERT_NE(out, nullptr);
    EXPECT_EQ(gst_is_cuda_frame_memory(gst_buffer_peek_memory(out, 0)), to_cuda);
    EXPECT_EQ(gst_video_format_to_string(GST_VIDEO_INFO_FORMAT(&output_info())),
              std::string(format));
    expect_reference(out, noise);
    gst_buffer_unref(out);
    close();
  }
}

std::string name_of(const testing::TestParamInfo<MemoryFormat>& param) {
  const auto& [from_cuda, to_cuda, format] = param.param;
  return std::string(from_cuda ? "Cuda" : "System") + "To" + (to_cuda ? "Cuda" : "System") + format;
}

INSTANTIATE_TEST_SUITE_P(All, ColorFormatTest,
                         testing::Combine(testing::Bool(), testing::Bool(),
                                          testing::ValuesIn(kFormats)),
                         name_of);

class ColorRgbTest : public ColorTest,
                     public testing::WithParamInterface<std::tuple<const char*, const char*>> {};

TEST_P(ColorRgbTest, ChannelsMoveUnchangedAndAlphaIsKeptOrOpaque) {
  const auto& [from, to] = GetParam();
  if (std::string(from) == to) return;  // passthrough
  constexpr int kWidth = 19;
  constexpr int kHeight = 7;
  open("");
  const std::string input_caps = raw_caps(true, sized(from, kWidth, kHeight));
  negotiate(input_caps.c_str(), raw_caps(true, std::string("format=") + to).c_str());
  GstBuffer* blank = allocate_zeroed();
  Picture picture = read_picture(blank, info_of(input_caps.c_str()));
  gst_buffer_unref(blank);
  unsigned seed = 5;
  for (auto& plane : picture.planes) {
    for (guint8& sample : plane) {
      seed = seed * 1664525u + 1013904223u;
      sample = static_cast<guint8>(seed >> 24);
    }
  }
  GstBuffer* in = input(picture);
  auto expected = read_rgb(in, info_of(input_caps.c_str()));
  GstBuffer* out = convert(in);
  const bool keeps_alpha = GST_VIDEO_INFO_HAS_ALPHA(&output_info());
  if (!keeps_alpha) {
    for (auto& pixel : expected) pixel[3] = 255;
  }
  EXPECT_EQ(read_rgb(out, output_info()), expected);
  gst_buffer_unref(out);
}

INSTANTIATE_TEST_SUITE_P(All, ColorRgbTest,
                         testing::Combine(testing::ValuesIn(kFormats), testing::ValuesIn(kFormats)),
                         [](const auto& param) {
                           return std::string(std::get<0>(param.param)) + "To" +
                                  std::get<1>(param.param);
                         });

// ---- Colours, as the caps say

constexpr const char* kMatrices[] = {"4:16:4", "3:5:1", "6:16:7"};  // BT.601, BT.709, BT.2020
constexpr const char* kSites[] = {"", "mpeg2", "jpeg", "cosited"};

using ColorCase = std::tuple<const char*, int, const char*, bool>;
class ColorimetryTest : public ColorTest, public testing::WithParamInterface<ColorCase> {};

TEST_P(ColorimetryTest, MatrixRangeAndSitingComeFromTheCaps) {
  const auto& [matrix, range, site, nearest] = GetParam();
  std::string caps = raw_caps(true, sized("NV12", 37, 21)) +
                     ",colorimetry=" + std::to_string(range) + ":" + matrix;
  if (*site) caps += std::string(",chroma-site=") + site;
  const Picture noise = noise_picture(37, 21, 99);
  GstBuffer* out = run(caps, raw_caps(true, "format=RGB"), noise,
                       nearest ? "chroma-mode=nearest" : "chroma-mode=linear");
  expect_reference(out, noise, !nearest);
  gst_buffer_unref(out);
  // The matrix is undone and the range is full; transfer function and primaries stay.
  EXPECT_EQ(output_field("chroma-site"), "");
  GstVideoColorimetry said{};
  EXPECT_TRUE(gst_video_colorimetry_from_string(&said, output_field("colorimetry").c_str()));
  const GstVideoInfo input = info_of(caps.c_str());
  EXPECT_EQ(said.matrix, GST_VIDEO_COLOR_MATRIX_RGB);
  EXPECT_EQ(said.range, GST_VIDEO_COLOR_RANGE_0_255);
  EXPECT_EQ(said.transfer, GST_VIDEO_INFO_COLORIMETRY(&input).transfer);
  EXPECT_EQ(said.primaries, GST_VIDEO_INFO_COLORIMETRY(&input).primaries);
}

INSTANTIATE_TEST_SUITE_P(All, ColorimetryTest,
                         testing::Combine(testing::ValuesIn(kMatrices), testing::Values(1, 2),
                                          testing::ValuesIn(kSites), testing::Bool()));

TEST_F(ColorTest, AnotherSitingIsAnotherPicture) {
  // Else the comparisons above would pass with a converter that ignores the caps.
  std::vector<std::vector<std::array<int, 4>>> results;
  for (const char* site : {"mpeg2", "jpeg", "cosited"}) {
    GstBuffer* out = run(raw_caps(true, sized("NV12", 37, 21)) + ",chroma-site=" + site,
                         raw_caps(true, "format=RGB"), noise_picture(37, 21, 99));
    results.push_back(read_rgb(out, output_info()));
    gst_buffer_unref(out);
    close();
  }
  EXPECT_FALSE(results[0] == results[1]);
  EXPECT_FALSE(results[1] == results[2]);
  EXPECT_FALSE(results[0] == results[2]);
}

struct Patch {
  int y, cb, cr;
  int r, g, b;
};

// Values of a full-range BT.709 stream: a per-channel offset that is wrong shows as a cast.
TEST_F(ColorTest, FullRangeBt709IsExactOnPatches) {
  const Patch patches[] = {{76, 90, 200, 189, 49, 5},
                           {149, 43, 21, 0, 215, 0},
                           {128, 128, 128, 128, 128, 128},
                           {0, 128, 128, 0, 0, 0},
                           {255, 128, 128, 255, 255, 255}};
  for (const Patch& patch : patches) {
    GstBuffer* out =
        run(raw_caps(true, sized("NV12", 16, 16)) + ",colorimetry=1:3:5:1",
            raw_caps(false, "format=RGB"), uniform_picture(16, 16, patch.y, patch.cb, patch.cr));
    // R = Y + 1.5748 Cr', G = Y - 0.1873 Cb' - 0.4681 Cr', B = Y + 1.8556 Cb' (BT.709-6, table 3)
    for (const auto& pixel : read_rgb(out, output_info())) {
      EXPECT_NEAR(pixel[0], patch.r, 1);
      EXPECT_NEAR(pixel[1], patch.g, 1);
      EXPECT_NEAR(pixel[2], patch.b, 1);
    }
    gst_buffer_unref(out);
    close();
  }
}

// A coloured edge, sited left and centered: exact values of bilinear interpolation.
TEST_F(ColorTest, AChromaEdgeLiesWhereTheSitingSays) {
  Picture edge = uniform_picture(320, 16, 126, 90, 200);
  for (std::size_t i = 0; i < edge.planes[1].size(); i += 2) {
    if (i % 320 < 160) continue;
    edge.planes[1][i] = 200;
    edge.planes[1][i + 1] = 90;
  }
  const struct {
    const char* site;
    std::array<int, 3> x159, x160;
  } cases[] = {{"mpeg2", {159, 115, 164}, {60, 133, 255}},
               {"jpeg", {208, 107, 106}, {109, 124, 222}}};
  for (const auto& one : cases) {
    GstBuffer* out =
        run(raw_caps(true, sized("NV12", 320, 16)) + ",colorimetry=bt709,chroma-site=" + one.site,
            raw_caps(false, "format=RGB"), edge);
    const auto pixels = read_rgb(out, output_info());
    gst_buffer_unref(out);
    close();
    for (int y = 0; y < 16; ++y) {
      const auto at = [&](int x) { return pixels[static_cast<std::size_t>(y * 320 + x)]; };
      for (std::size_t c = 0; c < 3; ++c) {
        EXPECT_NEAR(at(158)[c], (std::array{255, 98, 48})[c], 1) << one.site;
        EXPECT_NEAR(at(159)[c], one.x159[c], 1) << one.site;
        EXPECT_NEAR(at(160)[c], one.x160[c], 1) << one.site;
        EXPECT_NEAR(at(161)[c], (std::array{60, 133, 255})[c], 1) << one.site;
      }
    }
  }
}

// ---- Negotiation

TEST_F(ColorTest, FieldsThatTheConversionLeavesAloneStay) {
  GstBuffer* out = run(raw_caps(true,
                                "format=NV12,width=64,height=32,framerate=30000/1001,"
                                "pixel-aspect-ratio=4/3,multiview-mode=mono"),
                       raw_caps(true, "format=RGBP"), noise_picture(64, 32, 1));
  gst_buffer_unref(out);
  const GstVideoInfo& info = output_info();
  EXPECT_EQ(GST_VIDEO_INFO_WIDTH(&info), 64);
  EXPECT_EQ(GST_VIDEO_INFO_HEIGHT(&info), 32);
  EXPECT_EQ(GST_VIDEO_INFO_FPS_N(&info), 30000);
  EXPECT_EQ(GST_VIDEO_INFO_FPS_D(&info), 1001);
  EXPECT_EQ(GST_VIDEO_INFO_PAR_N(&info), 4);
  EXPECT_EQ(GST_VIDEO_INFO_PAR_D(&info), 3);
  EXPECT_EQ(output_field("multiview-mode"), "mono");
}

TEST_F(ColorTest, AmongWhatDownstreamTakesCudaMemoryAndTheInputsFormatComeFirst) {
  const struct {
    const char* input;
    const char* downstream;
    const char* format;
    bool in_cuda;
  } cases[] = {
      {"NV12", "video/x-raw,format={RGB,BGR};video/x-raw(memory:CUDAFrame),format={BGRA,GBR}",
       "BGRA", true},
      {"NV12", "video/x-raw(memory:CUDAFrame),format={RGB,NV12}", "NV12", true},
      {"BGRA", "video/x-raw(memory:CUDAFrame),format={RGB,BGRA}", "BGRA", true},
      {"NV12", "video/x-raw,format={GBR,BGR}", "BGR", false},
      {"RGB", "video/x-raw,format=BGRx", "BGRx", false},
  };
  for (const auto& one : cases) {
    open("");
    negotiate(raw_caps(true, sized(one.input, 16, 16)).c_str(), one.downstream);
    gst_buffer_unref(convert(allocate_zeroed()));
    EXPECT_EQ(output_field("format"), one.format) << one.downstream;
    GstCaps* caps = output_caps();
    EXPECT_EQ(gst_caps_features_contains(gst_caps_get_features(caps, 0),
                                         GST_CAPS_FEATURE_MEMORY_CUDA_FRAME),
              one.in_cuda)
        << one.downstream;
    gst_caps_unref(caps);
    close();
  }
}

TEST_F(ColorTest, AColorimetryThatDownstreamListsIsPickedWhenItIsTheTrueOne) {
  GstBuffer* out =
      run(raw_caps(true, sized("NV12", 16, 16)) + ",colorimetry=bt709",
          raw_caps(true, "format=RGB,colorimetry={sRGB,1:1:5:1}"), noise_picture(16, 16, 1));
  EXPECT_EQ(output_field("colorimetry"), "1:1:5:1");
  gst_buffer_unref(out);
}

TEST_F(ColorTest, ARangeThatIsNotMadeIsOneError) {
  open("");
  negotiate(raw_caps(true, sized("NV12", 16, 16)).c_str(),
            raw_caps(true, "format=RGB,colorimetry=2:1:5:1").c_str());
  EXPECT_EQ(push(allocate_zeroed()), GST_FLOW_NOT_NEGOTIATED);
  const std::vector<std::string> texts = errors();
  ASSERT_EQ(texts.size(), 1u);
  EXPECT_NE(texts[0].find("range"), std::string::npos) << texts[0];
}

TEST_F(ColorTest, WhatCanGoInAndOutIsToldTruthfully) {
  open("");
  const struct {
    const char* pad;
    const char* filter;
    bool possible;
  } cases[] = {
      {"sink", "video/x-raw,format=NV12", true},
      {"sink", "video/x-raw(memory:CUDAFrame),format=BGR", true},
      {"sink", "video/x-raw,format=I420", false},
      {"sink", "video/x-raw(memory:CUDAMemory),format=NV12", false},
      {"src", "video/x-raw(memory:CUDAFrame),format=GBR", true},
      {"src", "video/x-raw,format=NV12", true},
      {"src", "video/x-raw,format=P010_10LE", false},
  };
  for (const auto& one : cases) {
    GstPad* pad = gst_element_get_static_pad(element(), one.pad);
    GstCaps* filter = gst_caps_from_string(one.filter);
    GstCaps* caps = gst_pad_query_caps(pad, filter);
    EXPECT_EQ(!gst_caps_is_empty(caps), one.possible) << one.pad << " " << one.filter;
    gst_caps_unref(caps);
    gst_caps_unref(filter);
    gst_object_unref(pad);
  }
}

TEST_F(ColorTest, NothingIsTurnedIntoNv12) {
  GstElement* bin = gst_parse_bin_from_description(
      "cudacolorconvert ! video/x-raw(memory:CUDAFrame),format=NV12 ! identity", TRUE, nullptr);
  ASSERT_NE(bin, nullptr);
  gst_object_ref_sink(bin);
  GstPad* pad = gst_element_get_static_pad(bin, "sink");
  GstCaps* caps = gst_pad_query_caps(pad, nullptr);
  GstCaps* rgb = gst_caps_from_string("video/x-raw(ANY),format=RGB");
  GstCaps* nv12 = gst_caps_from_string("video/x-raw,format=NV12");
  EXPECT_FALSE(gst_caps_can_intersect(caps, rgb));
  EXPECT_TRUE(gst_caps_can_intersect(caps, nv12));
  gst_caps_unref(nv12);
  gst_caps_unref(rgb);
  gst_caps_unref(caps);
  gst_object_unref(pad);
  gst_object_unref(bin);
}

}  // namespace
}  // namespace cudaframe::test
