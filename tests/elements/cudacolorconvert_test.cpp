// SPDX-License-Identifier: LGPL-2.1-or-later
// cudacolorconvert on the simulated device, in a harness where each picture, each stream and each
// reference is in the test's hand: order, reuse, the bound, streams. What buffers carry and which
// are refused: cudacolorconvert_buffers_test.cpp. What the pixels are:
// cudacolorconvert_colors_test.cpp.

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
