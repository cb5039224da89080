// SPDX-License-Identifier: LGPL-2.1-or-later
// cudapacketdec on the simulated device, in a harness where each packet and each frame is in the
// test's hand. In pipelines: cudapacketdec_pipelines_test.cpp.

#include <gst/check/gstharness.h>
#include <gst/gst.h>
#include <gst/video/video.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "gst/cudaframe/cudaframe.h"
#include "packetdec_support.h"
#include "tests/support/gst_helpers.h"
#include "tests/support/simulator.h"

namespace cudaframe::test {
namespace {

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
    EXPECT_LE(sim().live().decoders, 4U) << "more than are kept idle";
    EXPECT_EQ(sim().live().parsers, 0U);
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
  const std::uint64_t created = sim().call_count("cuvidCreateDecoder");
  set_src_caps(clip, ",colorimetry=bt709");
  EXPECT_EQ(gst_harness_buffers_received(harness_), 10U) << "frames of the old caps are late";
  for (std::size_t i = 10; i < 20; ++i) gst_harness_push(harness_, packet(clip, i));
  push_eos();
  GstCaps* caps = gst_pad_get_current_caps(harness_->sinkpad);
  EXPECT_STREQ(gst_structure_get_string(gst_caps_get_structure(caps, 0), "colorimetry"), "bt709");
  gst_caps_unref(caps);
  EXPECT_EQ(sim().call_count("cuvidCreateDecoder"), created)
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
  while (stat_of(decoder(), "host-waits") == 0) std::this_thread::yield();
  EXPECT_EQ(gst_harness_buffers_received(harness_), 8U);
  EXPECT_EQ(stat_of(decoder(), "in-flight"), 8U);
  for (int i = 8; i < 30; ++i) {
    gst_buffer_unref(held.front());
    held.erase(held.begin());
    held.push_back(gst_harness_pull(harness_));
    ASSERT_NE(held.back(), nullptr) << i;
    EXPECT_EQ(GST_BUFFER_PTS(held.back()), static_cast<guint64>(i) * kFrameDuration);
  }
  pusher.join();
  EXPECT_EQ(pushed, GST_FLOW_OK);
  EXPECT_EQ(stat_of(decoder(), "frames"), 30U);
  EXPECT_EQ(stat_of(decoder(), "peak-in-flight"), 8U);
  EXPECT_EQ(stat_of(decoder(), "blocks-created"), 8U);
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
  while (stat_of(decoder(), "host-waits") == 0) std::this_thread::yield();
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
        EXPECT_EQ(sim().call_count("cuCtxPushCurrent"), sim().call_count("cuCtxPopCurrent"));
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
  EXPECT_EQ(sim().call_count("cuvidMapVideoFrame"), 30U);
  for (const char* call :
       {"cuMemAlloc", "cuMemFree", "cuMemHostAlloc", "cuMemFreeHost", "cuStreamSynchronize",
        "cuEventSynchronize", "cuCtxSynchronize", "cuEventCreate", "cuEventDestroy"}) {
    EXPECT_EQ(sim().call_count(call), 0U) << call;
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

}  // namespace
}  // namespace cudaframe::test
