// SPDX-License-Identifier: LGPL-2.1-or-later
// A cudacolorconvert in a GstHarness, pictures to feed it with, and what has to come out.
#pragma once

#include <gst/check/gstharness.h>
#include <gst/cudaframe/cudaframe.h>
#include <gst/video/video.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <string>
#include <vector>

#include "tests/support/color_reference.h"
#include "tests/support/gst_helpers.h"
#include "tests/support/simulator.h"

namespace cudaframe::test {

/// Rows of each plane without padding.
struct Picture {
  int width = 0;
  int height = 0;
  std::vector<std::vector<guint8>> planes;
  bool operator==(const Picture&) const = default;
};

/// NV12.
inline Picture uniform_picture(int width, int height, int y, int cb, int cr) {
  const auto w = static_cast<std::size_t>(width);
  const auto h = static_cast<std::size_t>(height);
  Picture picture{width, height, {}};
  picture.planes.emplace_back(w * h, static_cast<guint8>(y));
  picture.planes.emplace_back((w + 1) / 2 * 2 * ((h + 1) / 2), static_cast<guint8>(cb));
  for (std::size_t i = 1; i < picture.planes[1].size(); i += 2) {
    picture.planes[1][i] = static_cast<guint8>(cr);
  }
  return picture;
}

inline Picture grey_picture(int width, int height, int luma) {
  return uniform_picture(width, height, luma, 128, 128);
}

/// Every sample a different value: nothing that is shifted or swapped goes unseen.
inline Picture noise_picture(int width, int height, unsigned seed) {
  Picture picture = grey_picture(width, height, 0);
  for (std::vector<guint8>& plane : picture.planes) {
    for (guint8& sample : plane) {
      seed = seed * 1664525u + 1013904223u;
      sample = static_cast<guint8>(seed >> 24);
    }
  }
  return picture;
}

inline GstVideoInfo info_of(const char* caps_text) {
  GstVideoInfo info;
  GstCaps* caps = gst_caps_from_string(caps_text);
  EXPECT_TRUE(gst_video_info_from_caps(&info, caps)) << caps_text;
  // Without colorimetry, GStreamer's defaults for the size take the siting's place as well.
  const char* site = gst_structure_get_string(gst_caps_get_structure(caps, 0), "chroma-site");
  if (site) GST_VIDEO_INFO_CHROMA_SITE(&info) = gst_video_chroma_site_from_string(site);
  gst_caps_unref(caps);
  return info;
}

inline std::size_t plane_row_bytes(const GstVideoFrame& frame, guint plane) {
  // In all formats here, a plane's first component has the plane's width, and its pixels are dense.
  guint component = 0;
  while (GST_VIDEO_FORMAT_INFO_PLANE(frame.info.finfo, component) != plane) ++component;
  return static_cast<std::size_t>(GST_VIDEO_FRAME_COMP_WIDTH(&frame, component) *
                                  GST_VIDEO_FRAME_COMP_PSTRIDE(&frame, component));
}

inline std::size_t plane_rows(const GstVideoFrame& frame, guint plane) {
  guint component = 0;
  while (GST_VIDEO_FORMAT_INFO_PLANE(frame.info.finfo, component) != plane) ++component;
  return static_cast<std::size_t>(GST_VIDEO_FRAME_COMP_HEIGHT(&frame, component));
}

inline guint8* plane_row(const GstVideoFrame& frame, guint plane, std::size_t row) {
  return static_cast<guint8*>(GST_VIDEO_FRAME_PLANE_DATA(&frame, plane)) +
         row * static_cast<std::size_t>(GST_VIDEO_FRAME_PLANE_STRIDE(&frame, plane));
}

inline void write_picture(GstBuffer* buffer, const GstVideoInfo& info, const Picture& picture) {
  GstVideoFrame frame;
  ASSERT_TRUE(gst_video_frame_map(&frame, &info, buffer, GST_MAP_WRITE));
  for (guint plane = 0; plane < GST_VIDEO_FRAME_N_PLANES(&frame); ++plane) {
    const std::size_t bytes = plane_row_bytes(frame, plane);
    ASSERT_EQ(picture.planes[plane].size(), bytes * plane_rows(frame, plane));
    for (std::size_t row = 0; row < plane_rows(frame, plane); ++row) {
      std::copy_n(picture.planes[plane].data() + row * bytes, bytes, plane_row(frame, plane, row));
    }
  }
  gst_video_frame_unmap(&frame);
}

inline Picture read_picture(GstBuffer* buffer, const GstVideoInfo& info) {
  Picture picture{GST_VIDEO_INFO_WIDTH(&info), GST_VIDEO_INFO_HEIGHT(&info), {}};
  GstVideoFrame frame;
  if (!gst_video_frame_map(&frame, &info, buffer, GST_MAP_READ)) {
    ADD_FAILURE() << "the picture can't be mapped";
    return picture;
  }
  for (guint plane = 0; plane < GST_VIDEO_FRAME_N_PLANES(&frame); ++plane) {
    std::vector<guint8>& bytes = picture.planes.emplace_back();
    for (std::size_t row = 0; row < plane_rows(frame, plane); ++row) {
      const guint8* data = plane_row(frame, plane, row);
      bytes.insert(bytes.end(), data, data + plane_row_bytes(frame, plane));
    }
  }
  gst_video_frame_unmap(&frame);
  return picture;
}

inline GstBuffer* system_buffer(const Picture& picture, const GstVideoInfo& info) {
  GstBuffer* buffer = gst_buffer_new_allocate(nullptr, GST_VIDEO_INFO_SIZE(&info), nullptr);
  write_picture(buffer, info, picture);
  return buffer;
}

/// R, G, B, and A where there is one (else 255), of every pixel, whatever the format.
inline std::vector<std::array<int, 4>> read_rgb(GstBuffer* buffer, const GstVideoInfo& info) {
  std::vector<std::array<int, 4>> pixels;
  GstVideoFrame frame;
  if (!gst_video_frame_map(&frame, &info, buffer, GST_MAP_READ)) {
    ADD_FAILURE() << "the picture can't be mapped";
    return pixels;
  }
  const guint components = GST_VIDEO_FRAME_N_COMPONENTS(&frame);
  for (int y = 0; y < GST_VIDEO_INFO_HEIGHT(&info); ++y) {
    for (int x = 0; x < GST_VIDEO_INFO_WIDTH(&info); ++x) {
      std::array<int, 4> pixel{0, 0, 0, 255};
      for (guint c = 0; c < components; ++c) {
        const auto* data = static_cast<const guint8*>(GST_VIDEO_FRAME_COMP_DATA(&frame, c));
        pixel[c] = data[y * GST_VIDEO_FRAME_COMP_STRIDE(&frame, c) +
                        x * GST_VIDEO_FRAME_COMP_PSTRIDE(&frame, c)];
      }
      pixels.push_back(pixel);
    }
  }
  gst_video_frame_unmap(&frame);
  return pixels;
}

/// The value of all samples of an RGB picture; -1 when they differ.
inline int uniform_value(GstBuffer* buffer, const GstVideoInfo& info) {
  const auto pixels = read_rgb(buffer, info);
  if (pixels.empty()) return -1;
  for (const auto& pixel : pixels) {
    for (std::size_t c = 0; c < 3; ++c) {
      if (pixel[c] != pixels[0][0]) return -1;
    }
  }
  return pixels[0][0];
}

/// Buffers go in as (transfer full), and come out so. Errors are collected on a bus of its own.
class ColorHarness {
 public:
  ColorHarness() {
    use_allocator(GST_CUDA_FRAME_REUSE_RECORD_STREAM, 1);
    GstVideoInfo probe_info;
    gst_video_info_set_format(&probe_info, GST_VIDEO_FORMAT_NV12, 16, 16);
    GstBuffer* probe = gst_cuda_frame_allocator_alloc(allocator_, &probe_info, nullptr);
    cuCtxPushCurrent(gst_cuda_frame_memory_get_context(gst_buffer_peek_memory(probe, 0)));
    gst_buffer_unref(probe);
    for (CUstream& stream : streams_) cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING);
  }
  ~ColorHarness() {
    close();
    gst_clear_object(&allocator_);
    for (CUstream stream : streams_) cuStreamDestroy(stream);
    cuCtxPopCurrent(nullptr);
  }
  ColorHarness(const ColorHarness&) = delete;
  ColorHarness& operator=(const ColorHarness&) = delete;

  /// An element with "name=value" properties, in NULL.
  void make(const std::string& properties) {
    element_ = gst_element_factory_make("cudacolorconvert", nullptr);
    ASSERT_NE(element_, nullptr);
    gst_object_ref_sink(element_);
    gchar** parts = g_strsplit(properties.c_str(), " ", -1);
    for (gchar** part = parts; *part && **part; ++part) {
      gchar** pair = g_strsplit(*part, "=", 2);
      gst_util_set_object_arg(G_OBJECT(element_), pair[0], pair[1]);
      g_strfreev(pair);
    }
    g_strfreev(parts);
    bus_ = gst_bus_new();
    gst_element_set_bus(element_, bus_);
  }
  void open(const std::string& properties) {
    make(properties);
    harness_ = gst_harness_new_with_element(element_, "sink", "src");
  }
  void close() {
    if (!element_) return;
    remember_output_info();
    if (harness_) gst_harness_teardown(harness_);
    harness_ = nullptr;
    gst_element_set_state(element_, GST_STATE_NULL);
    gst_element_set_bus(element_, nullptr);
    gst_clear_object(&bus_);
    gst_clear_object(&element_);
  }
  /// The harness wants the sink's caps first.
  void negotiate(const char* input, const char* output) {
    gst_harness_set_sink_caps_str(harness_, output);
    input_info_ = info_of(input);
    input_in_cuda_ = std::string(input).find("CUDAFrame") != std::string::npos;
    gst_harness_set_src_caps_str(harness_, input);
  }
  void push_segment() {
    GstSegment segment;
    gst_segment_init(&segment, GST_FORMAT_TIME);
    gst_harness_push_event(harness_, gst_event_new_segment(&segment));
  }

  /// A CUDA frame as the input caps say, written by nobody yet, for app_stream().
  GstBuffer* allocate() {
    return gst_cuda_frame_allocator_alloc(allocator_, &input_info_, streams_[0]);
  }
  /// One with black, or green, in it.
  GstBuffer* allocate_zeroed() {
    GstBuffer* buffer = allocate();
    GstVideoFrame frame;
    EXPECT_TRUE(gst_video_frame_map(&frame, &input_info_, buffer, GST_MAP_WRITE));
    for (guint plane = 0; plane < GST_VIDEO_FRAME_N_PLANES(&frame); ++plane) {
      for (std::size_t row = 0; row < plane_rows(frame, plane); ++row) {
        std::fill_n(plane_row(frame, plane, row), plane_row_bytes(frame, plane), guint8{0});
      }
    }
    gst_video_frame_unmap(&frame);
    return buffer;
  }
  /// In the memory that the input caps name.
  GstBuffer* input(const Picture& picture) {
    if (!input_in_cuda_) return system_buffer(picture, input_info_);
    GstBuffer* buffer = allocate();
    write_picture(buffer, input_info_, picture);
    return buffer;
  }
  /// Queues, on app_stream(), a write of all samples of a CUDA frame.
  void fill_on_stream(GstBuffer* buffer, int value) {
    GstMemory* mem = gst_buffer_peek_memory(buffer, 0);
    const GstVideoMeta* meta = gst_buffer_get_video_meta(buffer);
    EXPECT_TRUE(gst_cuda_frame_memory_wait_to_write(mem, streams_[0]));
    for (guint plane = 0; plane < gst_cuda_frame_memory_get_n_planes(mem); ++plane) {
      CUdeviceptr address = 0;
      gsize pitch = 0;
      EXPECT_TRUE(gst_cuda_frame_memory_get_plane(mem, plane, &address, &pitch));
      const std::size_t rows = plane == 0 ? meta->height : (meta->height + 1) / 2;
      const std::size_t bytes = plane == 0 ? meta->width : (meta->width + 1) / 2 * 2;
      EXPECT_EQ(cuMemsetD2D8Async(address, pitch, static_cast<unsigned char>(value), bytes, rows,
                                  streams_[0]),
                CUDA_SUCCESS);
    }
    EXPECT_TRUE(gst_cuda_frame_memory_record_write(mem, streams_[0]));
  }
  GstFlowReturn push(GstBuffer* buffer) { return gst_harness_push(harness_, buffer); }
  GstBuffer* convert(GstBuffer* buffer) {
    EXPECT_EQ(push(buffer), GST_FLOW_OK);
    GstBuffer* out = gst_harness_try_pull(harness_);
    EXPECT_NE(out, nullptr);
    return out;
  }

  /// (transfer full): what the converter has announced.
  GstCaps* output_caps() { return gst_pad_get_current_caps(harness_->sinkpad); }
  /// Kept over close(), so that frames can be looked at.
  const GstVideoInfo& output_info() {
    remember_output_info();
    EXPECT_NE(output_info_.finfo, nullptr) << "nothing has been announced";
    return output_info_;
  }
  /// Each sample within 1 of the reference, in the colours that the input caps say.
  void expect_reference(GstBuffer* out, const Picture& picture, bool interpolate = true) {
    const auto pitch = static_cast<std::size_t>(picture.width);
    const std::vector<double> expected =
        reference_rgb({picture.width, picture.height, picture.planes[0].data(), pitch,
                       picture.planes[1].data(), (pitch + 1) / 2 * 2},
                      color_of_input(), interpolate);
    const auto pixels = read_rgb(out, output_info());
    ASSERT_EQ(pixels.size() * 3, expected.size());
    double largest = 0;
    bool opaque = true;
    for (std::size_t i = 0; i < pixels.size(); ++i) {
      for (std::size_t c = 0; c < 3; ++c) {
        largest = std::max(largest, std::abs(pixels[i][c] - expected[3 * i + c]));
      }
      opaque = opaque && pixels[i][3] == 255;
    }
    EXPECT_LE(largest, 1.0);
    EXPECT_TRUE(opaque);
  }

  std::vector<std::string> errors() { return take_errors(bus_); }
  guint64 stat(const char* name) { return stat_of(element_, name); }

  void use_allocator(GstCudaFrameReusePolicy policy, guint max_frames) {
    gst_clear_object(&allocator_);
    GError* error = nullptr;
    allocator_ = gst_cuda_frame_allocator_new(-1, policy, max_frames, 0, &error);
    if (!allocator_) std::abort();
  }
  GstCudaFrameAllocator* allocator() { return allocator_; }
  CUstream app_stream(std::size_t index = 0) { return streams_[index]; }
  /// A setting that makes the converter work on app_stream(1), where a test can hold it.
  std::string on_app_stream() {
    return "cuda-stream=" + std::to_string(reinterpret_cast<guint64>(streams_[1]));
  }
  GstHarness* harness() { return harness_; }
  GstElement* element() { return element_; }
  GstBus* bus() { return bus_; }

 private:
  void remember_output_info() {
    GstCaps* caps = harness_ ? output_caps() : nullptr;
    if (!caps) return;
    EXPECT_TRUE(gst_video_info_from_caps(&output_info_, caps));
    gst_caps_unref(caps);
  }
  // From GStreamer's enums straight to the reference's: not through the code under test.
  ColorDescription color_of_input() const {
    const GstVideoColorimetry& said = GST_VIDEO_INFO_COLORIMETRY(&input_info_);
    const GstVideoChromaSite site = GST_VIDEO_INFO_CHROMA_SITE(&input_info_);
    ColorDescription color;
    color.matrix = said.matrix == GST_VIDEO_COLOR_MATRIX_BT601    ? ColorMatrix::bt601
                   : said.matrix == GST_VIDEO_COLOR_MATRIX_BT2020 ? ColorMatrix::bt2020_ncl
                                                                  : ColorMatrix::bt709;
    color.range =
        said.range == GST_VIDEO_COLOR_RANGE_0_255 ? ColorRange::full : ColorRange::limited;
    const bool unset = site == GST_VIDEO_CHROMA_SITE_UNKNOWN;
    color.horizontal = unset || site & GST_VIDEO_CHROMA_SITE_H_COSITED ? ChromaSiting::cosited
                                                                       : ChromaSiting::centered;
    color.vertical =
        site & GST_VIDEO_CHROMA_SITE_V_COSITED ? ChromaSiting::cosited : ChromaSiting::centered;
    return color;
  }

  GstElement* element_ = nullptr;
  GstBus* bus_ = nullptr;
  GstHarness* harness_ = nullptr;
  GstCudaFrameAllocator* allocator_ = nullptr;
  std::array<CUstream, 2> streams_{};
  GstVideoInfo input_info_{};
  GstVideoInfo output_info_{};
  bool input_in_cuda_ = false;
};

inline constexpr char kInput[] =
    "video/x-raw(memory:CUDAFrame),format=NV12,width=64,height=32,framerate=25/1";
inline constexpr char kSystemInput[] = "video/x-raw,format=NV12,width=64,height=32,framerate=25/1";
inline constexpr char kRgb[] = "video/x-raw(memory:CUDAFrame),format=RGB";
inline constexpr char kSystemRgb[] = "video/x-raw,format=RGB";

/// Grey pictures of 64x32, whose results are easy to tell.
class CudaColorConvertTest : public testing::Test, public ColorHarness {
 protected:
  void TearDown() override { close(); }
  static GstMemory* memory_of(GstBuffer* buffer) { return gst_buffer_peek_memory(buffer, 0); }
  static CUstream writer_of(GstBuffer* buffer) {
    return gst_cuda_frame_memory_get_writer_stream(memory_of(buffer));
  }
  static CUdeviceptr address_of(GstBuffer* buffer) {
    CUdeviceptr address = 0;
    EXPECT_TRUE(gst_cuda_frame_memory_get_plane(memory_of(buffer), 0, &address, nullptr));
    return address;
  }
  /// The converter's own stream, once it has given a first frame.
  CUstream converter_stream() {
    GstBuffer* out = convert(grey(100));
    const CUstream stream = writer_of(out);
    gst_buffer_unref(out);
    return stream;
  }
  GstBuffer* grey(int luma) { return input(grey_picture(64, 32, luma)); }
  /// Of a grey RGB picture: the value that all samples have, else -1.
  int value_of(GstBuffer* buffer) { return uniform_value(buffer, output_info()); }
  static int grey_of(int luma) { return static_cast<int>((luma - 16) * 255.0 / 219.0 + 0.5); }
};

}  // namespace cudaframe::test
