// SPDX-License-Identifier: LGPL-2.1-or-later
// cudacolorconvert on the simulated device, in a harness where each picture, each stream and each
// reference is in the test's hand: order, reuse, allocation, states, refusals. What the pixels are:
// cudacolorconvert_colors_test.cpp.

#include <gst/app/gstappsink.h>
#include <gst/app/gstappsrc.h>
#include <gst/base/gstbasetransform.h>
#include <gst/check/gstharness.h>
#include <gst/video/video.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "color_harness.h"
#include "gst/cudaframe/cudaframe.h"
#include "tests/support/simulator.h"

namespace cudaframe::test {
namespace {

constexpr char kInput[] =
    "video/x-raw(memory:CUDAFrame),format=NV12,width=64,height=32,framerate=25/1";
constexpr char kSystemInput[] = "video/x-raw,format=NV12,width=64,height=32,framerate=25/1";
constexpr char kRgb[] = "video/x-raw(memory:CUDAFrame),format=RGB";
constexpr char kSystemRgb[] = "video/x-raw,format=RGB";

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

// ---- Order

TEST_F(CudaColorConvertTest, TheOutputIsReadyOnlyAfterTheInputAndTheHostWaitsForNeither) {
  open("");
  negotiate(kInput, kRgb);
  const CUstream own = converter_stream();
  EXPECT_NE(own, app_stream());
  GstBuffer* in = grey(120);
  HeldStream held(app_stream());
  fill_on_stream(in, 50);  // a second write, that will not run yet
  sim().reset_counts();
  GstBuffer* out = convert(in);
  EXPECT_EQ(sim().host_synchronizations(), 0u);
  EXPECT_FALSE(gst_cuda_frame_memory_is_ready(memory_of(out)));
  held.let_go();
  EXPECT_TRUE(gst_cuda_frame_memory_synchronize(memory_of(out)));
  // All planes are 50: Y, Cb and Cr.
  expect_reference(out, uniform_picture(64, 32, 50, 50, 50));
  gst_buffer_unref(out);
}

TEST_F(CudaColorConvertTest, AnInputThatWasDroppedIsNotOverwrittenWhileItIsBeingRead) {
  open("");
  negotiate(kInput, kRgb);
  const CUstream own = converter_stream();
  use_allocator(GST_CUDA_FRAME_REUSE_BOUNDED_POOL, 1);
  GstBuffer* in = grey(200);
  const CUdeviceptr address = address_of(in);
  HeldStream held(own);
  GstBuffer* out = convert(in);  // the converter has dropped it, and its kernel has not run
  GstBuffer* next = allocate();
  EXPECT_EQ(address_of(next), address) << "the only block";
  fill_on_stream(next, 16);
  EXPECT_FALSE(gst_cuda_frame_memory_is_ready(memory_of(next))) << "the write waits for the read";
  held.let_go();
  EXPECT_EQ(value_of(out), grey_of(200));
  gst_buffer_unref(out);
  gst_buffer_unref(next);
}

TEST_F(CudaColorConvertTest, AnOutputIsNotOverwrittenWhileAnApplicationReadsIt) {
  open("max-frames=2");
  negotiate(kInput, kRgb);
  GstBuffer* first = convert(grey(100));
  const CUdeviceptr address = address_of(first);
  const CUstream other = app_stream(1);
  {
    HeldStream held(other);
    EXPECT_TRUE(gst_cuda_frame_memory_wait(memory_of(first), other));
    EXPECT_TRUE(gst_cuda_frame_memory_record_stream(memory_of(first), other));
    gst_buffer_unref(first);
    GstBuffer* second = convert(grey(110));
    GstBuffer* third = convert(grey(120));
    GstBuffer* reused = address_of(second) == address ? second : third;
    ASSERT_EQ(address_of(reused), address);
    EXPECT_FALSE(gst_cuda_frame_memory_is_ready(memory_of(reused)));
    held.let_go();
    EXPECT_EQ(value_of(second), grey_of(110));
    EXPECT_EQ(value_of(third), grey_of(120));
    gst_buffer_unref(second);
    gst_buffer_unref(third);
  }
}

TEST_F(CudaColorConvertTest, SteadyStateCallsNoAllocationAndNoWait) {
  for (const char* policy : {"reuse-policy=bounded-pool", "reuse-policy=record-stream"}) {
    open(policy);
    negotiate(kInput, kRgb);
    use_allocator(GST_CUDA_FRAME_REUSE_BOUNDED_POOL, 4);
    for (int i = 0; i < 20; ++i) {
      if (i == 5) sim().reset_counts();
      GstBuffer* in = allocate();
      fill_on_stream(in, 100);
      gst_buffer_unref(convert(in));
    }
    EXPECT_EQ(sim().host_synchronizations(), 0u) << policy;
    EXPECT_EQ(sim().driver_allocations(), 0u) << policy;
    close();
  }
}

struct MemoryCase {
  const char* name;
  const char* input;
  const char* output;
};

class CudaColorConvertMemoryTest : public CudaColorConvertTest,
                                   public testing::WithParamInterface<MemoryCase> {};

TEST_P(CudaColorConvertMemoryTest, SteadyStateAllocatesNothing) {
  open("");
  negotiate(GetParam().input, GetParam().output);
  for (int i = 0; i < 20; ++i) {
    if (i == 6) sim().reset_counts();
    GstBuffer* out = convert(grey(100 + i));
    EXPECT_EQ(value_of(out), grey_of(100 + i));
    gst_buffer_unref(out);
  }
  EXPECT_EQ(sim().call_count("cuMemAlloc"), 0u);
  EXPECT_EQ(sim().call_count("cuMemFree"), 0u);
  EXPECT_EQ(sim().call_count("cuMemHostAlloc"), 0u);
  EXPECT_EQ(sim().call_count("cuMemFreeHost"), 0u);
}

TEST_P(CudaColorConvertMemoryTest, TheHostWaitsForNothing) {
  open(on_app_stream());
  negotiate(GetParam().input, GetParam().output);
  GstBuffer* in[4];
  for (int i = 0; i < 4; ++i) in[i] = grey(100 + i);
  std::vector<GstBuffer*> out;
  {
    HeldStream held(app_stream(1));
    sim().reset_counts();
    for (GstBuffer* buffer : in) out.push_back(convert(buffer));
    EXPECT_EQ(sim().host_synchronizations(), 0u);
    held.let_go();
  }
  for (int i = 0; i < 4; ++i) {
    EXPECT_EQ(value_of(out[static_cast<std::size_t>(i)]), grey_of(100 + i));
    gst_buffer_unref(out[static_cast<std::size_t>(i)]);
  }
}

// More than there are buffers to upload from: the CPU must not write into one that is being copied.
TEST_P(CudaColorConvertMemoryTest, ManyPicturesUnderWayKeepTheirContents) {
  open("max-frames=16");
  negotiate(GetParam().input, GetParam().output);
  std::vector<GstBuffer*> out;
  for (int i = 0; i < 12; ++i) out.push_back(convert(grey(100 + i)));
  for (int i = 0; i < 12; ++i) {
    EXPECT_EQ(value_of(out[static_cast<std::size_t>(i)]), grey_of(100 + i));
    gst_buffer_unref(out[static_cast<std::size_t>(i)]);
  }
}

INSTANTIATE_TEST_SUITE_P(Memories, CudaColorConvertMemoryTest,
                         testing::Values(MemoryCase{"CudaToCuda", kInput, kRgb},
                                         MemoryCase{"CudaToSystem", kInput, kSystemRgb},
                                         MemoryCase{"SystemToCuda", kSystemInput, kRgb},
                                         MemoryCase{"SystemToSystem", kSystemInput, kSystemRgb}),
                         [](const auto& param) { return std::string(param.param.name); });

// ---- The bound

TEST_F(CudaColorConvertTest, WaitsWhileAllFramesAreHeldAndGoesOnWhenOneComesBack) {
  open("max-frames=3");
  negotiate(kInput, kRgb);
  std::vector<GstBuffer*> held;
  for (int i = 0; i < 3; ++i) held.push_back(convert(grey(100)));
  GstBuffer* fourth = nullptr;
  std::thread thread([&] { fourth = convert(grey(140)); });
  while (stat("host-waits") == 0) std::this_thread::yield();
  EXPECT_EQ(stat("blocks-created"), 3u);
  gst_buffer_unref(held.back());
  held.pop_back();
  thread.join();
  ASSERT_NE(fourth, nullptr);
  EXPECT_EQ(value_of(fourth), grey_of(140));
  EXPECT_EQ(stat("blocks-created"), 3u);
  EXPECT_EQ(stat("peak-in-flight"), 3u);
  EXPECT_EQ(stat("in-flight"), 3u);
  EXPECT_EQ(stat("frames"), 4u);
  EXPECT_EQ(stat("blocks-reused"), 1u);
  gst_buffer_unref(fourth);
  for (GstBuffer* buffer : held) gst_buffer_unref(buffer);
  cuCtxSynchronize();  // the maps' copies are readers
  EXPECT_EQ(stat("in-flight"), 0u);
}

TEST_F(CudaColorConvertTest, FlushStartWakesTheWaitAndFlushStopGoesOn) {
  open("max-frames=2");
  negotiate(kInput, kRgb);
  GstBuffer* held[] = {convert(grey(100)), convert(grey(100))};
  GstFlowReturn flow = GST_FLOW_OK;
  GstBuffer* in = grey(100);
  std::thread thread([&] { flow = push(in); });
  while (stat("host-waits") == 0) std::this_thread::yield();
  EXPECT_TRUE(gst_harness_push_event(harness(), gst_event_new_flush_start()));
  thread.join();
  EXPECT_EQ(flow, GST_FLOW_FLUSHING);
  for (GstBuffer* buffer : held) gst_buffer_unref(buffer);
  EXPECT_TRUE(gst_harness_push_event(harness(), gst_event_new_flush_stop(TRUE)));
  push_segment();
  GstBuffer* out = convert(grey(130));
  ASSERT_NE(out, nullptr);
  EXPECT_EQ(value_of(out), grey_of(130));
  gst_buffer_unref(out);
  EXPECT_TRUE(errors().empty());
}

TEST_F(CudaColorConvertTest, ReadyWakesTheWait) {
  open("max-frames=2");
  negotiate(kInput, kRgb);
  GstBuffer* held[] = {convert(grey(100)), convert(grey(100))};
  GstFlowReturn flow = GST_FLOW_OK;
  GstBuffer* in = grey(100);
  std::thread thread([&] { flow = push(in); });
  while (stat("host-waits") == 0) std::this_thread::yield();
  EXPECT_EQ(gst_element_set_state(element(), GST_STATE_NULL), GST_STATE_CHANGE_SUCCESS);
  thread.join();
  EXPECT_EQ(flow, GST_FLOW_FLUSHING);
  for (GstBuffer* buffer : held) {
    EXPECT_EQ(value_of(buffer), grey_of(100)) << "frames outlive the element's work";
    gst_buffer_unref(buffer);
  }
  EXPECT_TRUE(errors().empty());
}

// Runs a function in place of the base class's change_state, then that.
class InsideStateChange {
 public:
  explicit InsideStateChange(std::function<void()> hook) {
    original_ = base_class()->change_state;
    hook_ = std::move(hook);
    base_class()->change_state = [](GstElement* element, GstStateChange transition) {
      if (transition == GST_STATE_CHANGE_PAUSED_TO_READY) std::exchange(hook_, [] {})();
      return original_(element, transition);
    };
  }
  ~InsideStateChange() { base_class()->change_state = original_; }
  InsideStateChange(const InsideStateChange&) = delete;
  InsideStateChange& operator=(const InsideStateChange&) = delete;

 private:
  static GstElementClass* base_class() {
    return GST_ELEMENT_CLASS(g_type_class_peek(GST_TYPE_BASE_TRANSFORM));
  }
  static inline decltype(GstElementClass::change_state) original_ = nullptr;
  static inline std::function<void()> hook_;
};

// Streaming ends only after the wake-up, when the pads are deactivated.
TEST_F(CudaColorConvertTest, AFlushStopDuringTheStopLetsNothingWaitAgain) {
  open("max-frames=2");
  negotiate(kInput, kRgb);
  GstBuffer* held[] = {convert(grey(100)), convert(grey(100))};
  GstBuffer* late = grey(100);
  GstFlowReturn flow = GST_FLOW_OK;
  InsideStateChange inside([&] {
    gst_harness_push_event(harness(), gst_event_new_flush_start());
    gst_harness_push_event(harness(), gst_event_new_flush_stop(FALSE));
    push_segment();
    flow = push(late);
  });
  gst_element_set_state(element(), GST_STATE_READY);
  EXPECT_EQ(flow, GST_FLOW_FLUSHING);
  for (GstBuffer* buffer : held) gst_buffer_unref(buffer);
}

TEST_F(CudaColorConvertTest, ALongWaitIsReportedOnceAndSaysWhatToDo) {
  open("max-frames=2");
  negotiate(kInput, kRgb);
  GstBuffer* held[] = {convert(grey(100)), convert(grey(100))};
  GstBuffer* third = nullptr;
  std::thread thread([&] { third = convert(grey(100)); });
  GstMessage* message = gst_bus_timed_pop_filtered(bus(), 60 * GST_SECOND, GST_MESSAGE_WARNING);
  ASSERT_NE(message, nullptr);
  GError* error = nullptr;
  gst_message_parse_warning(message, &error, nullptr);
  EXPECT_NE(std::string(error->message).find("max-frames"), std::string::npos) << error->message;
  g_error_free(error);
  gst_message_unref(message);
  for (GstBuffer* buffer : held) gst_buffer_unref(buffer);
  thread.join();
  gst_buffer_unref(third);
  EXPECT_EQ(gst_bus_pop_filtered(bus(), GST_MESSAGE_WARNING), nullptr);
  EXPECT_GT(stat("host-wait-time"), 0u);
}

/// Answers allocation queries on the element's source pad with a pool of `min` buffers.
class KeepingSink {
 public:
  KeepingSink(GstElement* element, guint min) : min_(min) {
    pad_ = gst_element_get_static_pad(element, "src");
    probe_ = gst_pad_add_probe(
        pad_,
        static_cast<GstPadProbeType>(GST_PAD_PROBE_TYPE_QUERY_DOWNSTREAM | GST_PAD_PROBE_TYPE_PUSH),
        [](GstPad*, GstPadProbeInfo* info, gpointer self) {
          GstQuery* query = GST_PAD_PROBE_INFO_QUERY(info);
          if (GST_QUERY_TYPE(query) != GST_QUERY_ALLOCATION) return GST_PAD_PROBE_OK;
          gst_query_add_allocation_pool(query, nullptr, 100, static_cast<KeepingSink*>(self)->min_,
                                        0);
          return GST_PAD_PROBE_HANDLED;
        },
        this, nullptr);
  }
  ~KeepingSink() {
    gst_pad_remove_probe(pad_, probe_);
    gst_object_unref(pad_);
  }
  KeepingSink(const KeepingSink&) = delete;
  KeepingSink& operator=(const KeepingSink&) = delete;
  void change(guint min) {
    min_ = min;
    gst_pad_mark_reconfigure(pad_);
  }

 private:
  GstPad* pad_ = nullptr;
  gulong probe_ = 0;
  guint min_;
};

TEST_F(CudaColorConvertTest, WhatDownstreamKeepsRaisesTheBound) {
  open("max-frames=2");
  KeepingSink sink(element(), 6);
  negotiate(kInput, kRgb);
  std::vector<GstBuffer*> held;
  for (int i = 0; i < 7; ++i) held.push_back(convert(grey(100)));
  EXPECT_EQ(stat("host-waits"), 0u);
  EXPECT_EQ(stat("in-flight"), 7u);
  // Asked again, downstream keeps fewer: the bound is never below what is still kept.
  sink.change(3);
  gst_buffer_unref(held.back());
  held.pop_back();
  held.push_back(convert(grey(100)));
  EXPECT_EQ(stat("host-waits"), 0u) << "a bound that falls while frames are out would stall";
  for (GstBuffer* buffer : held) gst_buffer_unref(buffer);
}

TEST_F(CudaColorConvertTest, StatsStayReadableAfterTheStop) {
  open("");
  EXPECT_EQ(stat("frames"), 0u);
  negotiate(kInput, kRgb);
  gst_buffer_unref(convert(grey(100)));
  EXPECT_GT(stat("bytes"), 0u);
  gst_element_set_state(element(), GST_STATE_NULL);
  EXPECT_EQ(stat("frames"), 1u);
  EXPECT_EQ(stat("bytes"), 0u);
  EXPECT_GT(stat("peak-bytes"), 0u);
}

// ---- Streams and devices

TEST_F(CudaColorConvertTest, WorksOnTheLegacyStreamAndOnAnApplicationsOwn) {
  open("cuda-stream=1");
  negotiate(kInput, kRgb);
  GstBuffer* out = convert(grey(90));
  EXPECT_EQ(writer_of(out), CU_STREAM_LEGACY);
  EXPECT_EQ(value_of(out), grey_of(90));
  gst_buffer_unref(out);
  close();

  open(on_app_stream());
  negotiate(kInput, kRgb);
  HeldStream held(app_stream(1));
  out = convert(grey(90));
  EXPECT_EQ(writer_of(out), app_stream(1));
  EXPECT_FALSE(gst_cuda_frame_memory_is_ready(memory_of(out)));
  held.let_go();
  EXPECT_EQ(value_of(out), grey_of(90));
  gst_buffer_unref(out);
  close();  // the stream outlives the element
}

TEST_F(CudaColorConvertTest, APerThreadStreamAndAMissingDeviceAreOneErrorEach) {
  for (const char* properties : {"cuda-stream=2", "cuda-device-id=7"}) {
    make(properties);
    EXPECT_EQ(gst_element_set_state(element(), GST_STATE_PLAYING), GST_STATE_CHANGE_FAILURE)
        << properties;
    EXPECT_EQ(errors().size(), 1u) << properties;
    close();
  }
}

TEST_F(CudaColorConvertTest, AContextQueryIsAnsweredWhileStarted) {
  open("");
  GstPad* src = gst_element_get_static_pad(element(), "src");
  GstPad* sink = gst_element_get_static_pad(element(), "sink");
  for (GstPad* pad : {src, sink}) {
    GstQuery* query = gst_query_new_context(GST_CUDA_FRAME_CONTEXT_TYPE);
    ASSERT_TRUE(gst_pad_query(pad, query));
    GstContext* context = nullptr;
    gst_query_parse_context(query, &context);
    gint device = -1;
    EXPECT_TRUE(gst_context_get_cuda_frame(context, &device));
    EXPECT_EQ(device, 0);
    gst_query_unref(query);
  }
  gst_object_unref(src);
  gst_object_unref(sink);
}

TEST_F(CudaColorConvertTest, UpstreamIsToldWhichMetasAreUnderstood) {
  open("");
  negotiate(kInput, kRgb);
  GstCaps* caps = gst_caps_from_string(kInput);
  GstQuery* query = gst_query_new_allocation(caps, FALSE);
  ASSERT_TRUE(gst_pad_peer_query(harness()->srcpad, query));
  EXPECT_TRUE(gst_query_find_allocation_meta(query, GST_VIDEO_META_API_TYPE, nullptr));
  EXPECT_TRUE(gst_query_find_allocation_meta(query, GST_CUDA_EVENT_META_API_TYPE, nullptr));
  gst_query_unref(query);
  gst_caps_unref(caps);
}

// ---- Buffers

TEST_F(CudaColorConvertTest, TimesFlagsAndOffsetsAreKept) {
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

TEST_F(CudaColorConvertTest, MetasOfTheMemoryAreTheOutputsOwnAndOthersFollow) {
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

TEST_F(CudaColorConvertTest, AFrameOutlivesTheElement) {
  for (const char* output : {kRgb, kSystemRgb}) {
    open("");
    negotiate(kInput, output);
    GstBuffer* out = convert(grey(77));
    close();
    EXPECT_EQ(value_of(out), grey_of(77));
    gst_buffer_unref(out);
  }
}

TEST_F(CudaColorConvertTest, SizeAndFormatChangeInTheMiddle) {
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

TEST_F(CudaColorConvertTest, DownstreamChangesItsMindInTheMiddle) {
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

TEST_F(CudaColorConvertTest, EqualCapsPassTheBufferThrough) {
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

TEST_F(CudaColorConvertTest, APeerWithoutWishGetsTheInput) {
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

TEST_F(CudaColorConvertTest, AnotherMemoryWithTheSameFormatIsACopy) {
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

TEST_F(CudaColorConvertTest, ACapsFeatureThatTheMemoryDoesNotHaveIsOneError) {
  open("");
  negotiate(kInput, kRgb);
  GstBuffer* wrong = system_buffer(grey_picture(64, 32, 100), info_of(kSystemInput));
  EXPECT_EQ(push(wrong), GST_FLOW_ERROR);
  EXPECT_EQ(errors().size(), 1u);
}

TEST_F(CudaColorConvertTest, AFrameOfAnotherSizeIsOneError) {
  open("");
  negotiate(kInput, kRgb);
  GstVideoInfo other = info_of("video/x-raw,format=NV12,width=32,height=32");
  GstBuffer* wrong = gst_cuda_frame_allocator_alloc(allocator(), &other, app_stream());
  EXPECT_EQ(push(wrong), GST_FLOW_ERROR);
  EXPECT_EQ(errors().size(), 1u);
}

TEST_F(CudaColorConvertTest, ABufferShorterThanThePictureIsOneError) {
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

TEST_F(CudaColorConvertTest, AVideoMetaThatContradictsTheCapsIsOneError) {
  open("");
  negotiate(kSystemInput, kRgb);
  const GstVideoInfo small = info_of("video/x-raw,format=NV12,width=16,height=16");
  GstBuffer* wrong = system_buffer(grey_picture(16, 16, 100), small);
  gst_buffer_add_video_meta(wrong, GST_VIDEO_FRAME_FLAG_NONE, GST_VIDEO_FORMAT_NV12, 16, 16);
  EXPECT_EQ(push(wrong), GST_FLOW_ERROR);
  EXPECT_EQ(errors().size(), 1u);
}

TEST_F(CudaColorConvertTest, PaddedRowsOfAVideoMetaAreHonoured) {
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

TEST_F(CudaColorConvertTest, AMatrixThatIsNotHandledIsOneErrorThatNamesIt) {
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

// ---- Two converters on one frame

TEST_F(CudaColorConvertTest, TwoConvertersReadOneFrame) {
  open("");
  negotiate(kInput, kRgb);
  ColorHarness second;
  second.open(second.on_app_stream());
  second.negotiate(kInput, "video/x-raw(memory:CUDAFrame),format=BGRx");
  const CUstream streams[] = {converter_stream(), second.app_stream(1)};
  EXPECT_NE(streams[0], streams[1]);
  use_allocator(GST_CUDA_FRAME_REUSE_BOUNDED_POOL, 1);
  const Picture noise = noise_picture(64, 32, 11);
  GstBuffer* in = input(noise);
  HeldStream held_first(streams[0]);
  HeldStream held_second(streams[1]);
  GstBuffer* first_out = convert(gst_buffer_ref(in));
  GstBuffer* second_out = second.convert(in);
  GstBuffer* next = allocate();
  fill_on_stream(next, 0);
  held_first.let_go();
  EXPECT_FALSE(gst_cuda_frame_memory_is_ready(memory_of(next))) << "the other still reads";
  held_second.let_go();
  expect_reference(first_out, noise);
  second.expect_reference(second_out, noise);
  gst_buffer_unref(next);
  gst_buffer_unref(first_out);
  gst_buffer_unref(second_out);
  second.close();
}

}  // namespace
}  // namespace cudaframe::test
