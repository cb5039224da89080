// SPDX-License-Identifier: LGPL-2.1-or-later
// cudacolorconvert: what a buffer carries over, when it goes through as it is, and which ones are
// refused. Streams and reuse: cudacolorconvert_test.cpp.

#include <gst/app/gstappsrc.h>
#include <gst/check/gstharness.h>
#include <gst/video/video.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "color_harness.h"
#include "gst/cudaframe/cudaframe.h"
#include "tests/support/simulator.h"

namespace cudaframe::test {
namespace {

using CudaColorConvertBufferTest = CudaColorConvertTest;

// ---- Buffers

TEST_F(CudaColorConvertBufferTest, TimesFlagsAndOffsetsAreKept) {
  open("");
  negotiate(kInput, kRgb);
  GstBuffer* in = grey(100);
  GST_BUFFER_PTS(in) = 3 * GST_SECOND;
  GST_BUFFER_DTS(in) = 2 * GST_SECOND;
  GST_BUFFER_DURATION(in) = GST_SECOND / 25;
  GST_BUFFER_OFFSET(in) = 75;
  GST_BUFFER_OFFSET_END(in) = 76;
  GST_BUFFER_FLAG_SET(in, GST_BUFFER_FLAG_DELTA_UNIT);
  GST_BUFFER_FLAG_SET(in, GST_VIDEO_BUFFER_FLAG_TFF);
  GstBuffer* out = convert(in);
  EXPECT_EQ(GST_BUFFER_PTS(out), 3 * GST_SECOND);
  EXPECT_EQ(GST_BUFFER_DTS(out), 2 * GST_SECOND);
  EXPECT_EQ(GST_BUFFER_DURATION(out), GST_SECOND / 25);
  EXPECT_EQ(GST_BUFFER_OFFSET(out), 75u);
  EXPECT_EQ(GST_BUFFER_OFFSET_END(out), 76u);
  EXPECT_TRUE(GST_BUFFER_FLAG_IS_SET(out, GST_BUFFER_FLAG_DELTA_UNIT));
  EXPECT_TRUE(GST_BUFFER_FLAG_IS_SET(out, GST_VIDEO_BUFFER_FLAG_TFF));
  gst_buffer_unref(out);
}

TEST_F(CudaColorConvertBufferTest, MetasOfTheMemoryAreTheOutputsOwnAndOthersFollow) {
  static const gchar* const no_tags[] = {nullptr};
  gst_meta_register_custom("CudaFrameTestMeta", const_cast<const gchar**>(no_tags), nullptr,
                           nullptr, nullptr);
  for (const char* output : {kRgb, kSystemRgb}) {
    open("");
    negotiate(kInput, output);
    GstBuffer* in = grey(100);
    gst_buffer_add_custom_meta(in, "CudaFrameTestMeta");
    GstVideoCropMeta* crop = gst_buffer_add_video_crop_meta(in);
    crop->x = 2;
    crop->y = 4;
    crop->width = 10;
    crop->height = 8;
    gst_buffer_add_video_region_of_interest_meta(in, "face", 1, 2, 3, 4);
    GstBuffer* kept = gst_buffer_ref(in);
    GstBuffer* out = convert(in);
    const GstVideoMeta* video = gst_buffer_get_video_meta(out);
    ASSERT_NE(video, nullptr);
    EXPECT_EQ(video->format, GST_VIDEO_FORMAT_RGB);
    EXPECT_EQ(video->n_planes, 1u);
    EXPECT_EQ(gst_buffer_get_n_meta(out, GST_VIDEO_META_API_TYPE), 1u);
    EXPECT_NE(gst_buffer_get_custom_meta(out, "CudaFrameTestMeta"), nullptr);
    crop = gst_buffer_get_video_crop_meta(out);
    ASSERT_NE(crop, nullptr);
    EXPECT_EQ(crop->x, 2u);
    EXPECT_EQ(crop->height, 8u);
    EXPECT_NE(gst_buffer_get_video_region_of_interest_meta_id(out, 0), nullptr);
    if (output == kRgb) {
      EXPECT_EQ(gst_buffer_get_n_meta(out, GST_CUDA_EVENT_META_API_TYPE), 1u);
      // It speaks of the output, on which nothing waits for the application's stream any more.
      EXPECT_TRUE(gst_cuda_frame_memory_synchronize(memory_of(out)));
      HeldStream held(app_stream());
      fill_on_stream(kept, 1);
      EXPECT_TRUE(gst_cuda_event_meta_is_ready(gst_buffer_get_cuda_event_meta(out)));
      EXPECT_FALSE(gst_cuda_event_meta_is_ready(gst_buffer_get_cuda_event_meta(kept)));
    } else {
      EXPECT_EQ(gst_buffer_get_cuda_event_meta(out), nullptr);
    }
    gst_buffer_unref(kept);
    gst_buffer_unref(out);
    close();
  }
}

TEST_F(CudaColorConvertBufferTest, AFrameOutlivesTheElement) {
  for (const char* output : {kRgb, kSystemRgb}) {
    open("");
    negotiate(kInput, output);
    GstBuffer* out = convert(grey(77));
    close();
    EXPECT_EQ(value_of(out), grey_of(77));
    gst_buffer_unref(out);
  }
}

TEST_F(CudaColorConvertBufferTest, SizeAndFormatChangeInTheMiddle) {
  open("max-frames=3");
  negotiate(kInput, kRgb);
  GstBuffer* held = convert(grey(100));
  negotiate("video/x-raw(memory:CUDAFrame),format=NV12,width=33,height=17,framerate=25/1", kRgb);
  const Picture odd = noise_picture(33, 17, 5);
  GstBuffer* out = convert(input(odd));
  expect_reference(out, odd);
  gst_buffer_unref(out);
  negotiate("video/x-raw(memory:CUDAFrame),format=NV12,width=64,height=32,framerate=25/1",
            "video/x-raw,format=GBR");
  const Picture noise = noise_picture(64, 32, 6);
  out = convert(input(noise));
  expect_reference(out, noise);
  gst_buffer_unref(out);
  EXPECT_EQ(uniform_value(held, info_of("video/x-raw,format=RGB,width=64,height=32")),
            grey_of(100));
  gst_buffer_unref(held);
  EXPECT_TRUE(gst_harness_push_event(harness(), gst_event_new_eos()));
  EXPECT_TRUE(errors().empty());
}

TEST_F(CudaColorConvertBufferTest, DownstreamChangesItsMindInTheMiddle) {
  open("");
  negotiate(kInput, kRgb);
  gst_buffer_unref(convert(grey(100)));
  gst_harness_set_sink_caps_str(harness(), "video/x-raw(memory:CUDAFrame),format=BGRA");
  gst_harness_push_upstream_event(harness(), gst_event_new_reconfigure());
  const Picture noise = noise_picture(64, 32, 7);
  GstBuffer* out = convert(input(noise));
  EXPECT_EQ(GST_VIDEO_INFO_FORMAT(&output_info()), GST_VIDEO_FORMAT_BGRA);
  expect_reference(out, noise);
  gst_buffer_unref(out);
}

// ---- Copies and passthrough

TEST_F(CudaColorConvertBufferTest, EqualCapsPassTheBufferThrough) {
  open("");
  negotiate(kInput, "video/x-raw(memory:CUDAFrame),format=NV12");
  GstBuffer* in = grey(100);
  GstBuffer* kept = gst_buffer_ref(in);
  GstBuffer* out = convert(in);
  EXPECT_EQ(out, kept);
  EXPECT_EQ(stat("frames"), 0u);
  gst_buffer_unref(out);
  gst_buffer_unref(kept);
}

TEST_F(CudaColorConvertBufferTest, APeerWithoutWishGetsTheInput) {
  for (const char* caps : {kInput, kSystemInput}) {
    for (const char* peer : {"ANY", "video/x-raw(ANY)"}) {
      open("");
      negotiate(caps, peer);
      GstBuffer* in = grey(100);
      GstBuffer* kept = gst_buffer_ref(in);
      GstBuffer* out = convert(in);
      EXPECT_EQ(out, kept) << caps << " to " << peer;
      gst_buffer_unref(out);
      gst_buffer_unref(kept);
      close();
    }
  }
}

TEST_F(CudaColorConvertBufferTest, AnotherMemoryWithTheSameFormatIsACopy) {
  const struct {
    const char* input;
    const char* output;
  } cases[] = {{kInput, "video/x-raw,format=NV12"},
               {kSystemInput, "video/x-raw(memory:CUDAFrame),format=NV12"}};
  for (const auto& one : cases) {
    open("");
    negotiate(one.input, one.output);
    const Picture noise = noise_picture(64, 32, 9);
    GstBuffer* out = convert(input(noise));
    EXPECT_EQ(read_picture(out, output_info()), noise) << one.input;
    gst_buffer_unref(out);
    close();
  }
}

// ---- Refusals

TEST_F(CudaColorConvertBufferTest, ACapsFeatureThatTheMemoryDoesNotHaveIsOneError) {
  open("");
  negotiate(kInput, kRgb);
  GstBuffer* wrong = system_buffer(grey_picture(64, 32, 100), info_of(kSystemInput));
  EXPECT_EQ(push(wrong), GST_FLOW_ERROR);
  EXPECT_EQ(errors().size(), 1u);
}

TEST_F(CudaColorConvertBufferTest, AFrameOfAnotherSizeIsOneError) {
  open("");
  negotiate(kInput, kRgb);
  GstVideoInfo other = info_of("video/x-raw,format=NV12,width=32,height=32");
  GstBuffer* wrong = gst_cuda_frame_allocator_alloc(allocator(), &other, app_stream());
  EXPECT_EQ(push(wrong), GST_FLOW_ERROR);
  EXPECT_EQ(errors().size(), 1u);
}

TEST_F(CudaColorConvertBufferTest, ABufferShorterThanThePictureIsOneError) {
  for (const bool with_meta : {false, true}) {
    open("");
    negotiate(kSystemInput, kRgb);
    GstBuffer* wrong = gst_buffer_new_memdup("0123456789abcdef0123456789abcdef", 32);
    if (with_meta) {
      // The second plane lies inside the memory, its rows do not.
      gsize offsets[GST_VIDEO_MAX_PLANES] = {0, 16};
      gint strides[GST_VIDEO_MAX_PLANES] = {64, 64};
      gst_buffer_add_video_meta_full(wrong, GST_VIDEO_FRAME_FLAG_NONE, GST_VIDEO_FORMAT_NV12, 64,
                                     32, 2, offsets, strides);
    }
    EXPECT_EQ(push(wrong), GST_FLOW_ERROR) << with_meta;
    EXPECT_EQ(errors().size(), 1u) << with_meta;
    close();
  }
}

TEST_F(CudaColorConvertBufferTest, AVideoMetaThatContradictsTheCapsIsOneError) {
  open("");
  negotiate(kSystemInput, kRgb);
  const GstVideoInfo small = info_of("video/x-raw,format=NV12,width=16,height=16");
  GstBuffer* wrong = system_buffer(grey_picture(16, 16, 100), small);
  gst_buffer_add_video_meta(wrong, GST_VIDEO_FRAME_FLAG_NONE, GST_VIDEO_FORMAT_NV12, 16, 16);
  EXPECT_EQ(push(wrong), GST_FLOW_ERROR);
  EXPECT_EQ(errors().size(), 1u);
}

TEST_F(CudaColorConvertBufferTest, PaddedRowsOfAVideoMetaAreHonoured) {
  open("");
  negotiate(kSystemInput, kRgb);
  const Picture noise = noise_picture(64, 32, 4);
  constexpr gsize kStride = 80;
  GstBuffer* padded = gst_buffer_new_allocate(nullptr, kStride * 50, nullptr);
  gst_buffer_memset(padded, 0, 0xee, kStride * 50);
  gsize offsets[GST_VIDEO_MAX_PLANES] = {kStride, kStride * 34};
  gint strides[GST_VIDEO_MAX_PLANES] = {kStride, kStride};
  gst_buffer_add_video_meta_full(padded, GST_VIDEO_FRAME_FLAG_NONE, GST_VIDEO_FORMAT_NV12, 64, 32,
                                 2, offsets, strides);
  write_picture(padded, info_of(kSystemInput), noise);
  GstBuffer* out = convert(padded);
  expect_reference(out, noise);
  gst_buffer_unref(out);
}

TEST_F(CudaColorConvertBufferTest, AMatrixThatIsNotHandledIsOneErrorThatNamesIt) {
  GstElement* pipeline = gst_parse_launch(
      "appsrc name=src format=time ! cudacolorconvert name=convert ! "
      "video/x-raw,format=RGB ! fakesink",
      nullptr);
  ASSERT_NE(pipeline, nullptr);
  GstElement* source = gst_bin_get_by_name(GST_BIN(pipeline), "src");
  GstCaps* caps = gst_caps_from_string(
      "video/x-raw,format=NV12,width=64,height=32,framerate=25/1,colorimetry=smpte240m");
  g_object_set(source, "caps", caps, nullptr);
  gst_caps_unref(caps);
  gst_element_set_state(pipeline, GST_STATE_PLAYING);
  gst_app_src_push_buffer(GST_APP_SRC(source),
                          system_buffer(grey_picture(64, 32, 100), info_of(kSystemInput)));
  GstBus* pipeline_bus = gst_element_get_bus(pipeline);
  int from_converter = 0;
  bool ended = false;
  while (!ended) {
    GstMessage* message =
        gst_bus_timed_pop_filtered(pipeline_bus, 60 * GST_SECOND, GST_MESSAGE_ERROR);
    if (!message) {
      ADD_FAILURE() << "no error";
      break;
    }
    GError* error = nullptr;
    gst_message_parse_error(message, &error, nullptr);
    if (g_str_equal(GST_OBJECT_NAME(message->src), "convert")) {
      ++from_converter;
      EXPECT_NE(std::string(error->message).find("matrix smpte240m"), std::string::npos)
          << error->message;
    } else {
      ended = true;  // the source's own, which comes last
    }
    g_error_free(error);
    gst_message_unref(message);
  }
  EXPECT_EQ(from_converter, 1);
  gst_element_set_state(pipeline, GST_STATE_NULL);
  gst_object_unref(pipeline_bus);
  gst_object_unref(source);
  gst_object_unref(pipeline);
}

}  // namespace
}  // namespace cudaframe::test
