// SPDX-License-Identifier: LGPL-2.1-or-later
// cudademux in pipelines: what its pads give, against libavformat by itself; pulled and pushed.

#include <fcntl.h>
#include <gst/app/gstappsrc.h>
#include <gst/gst.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "demux_run.h"

namespace cudaframe::test {
namespace {

bool only_video(const std::string& pad) {
  return pad == "video_0";
}

/// A file through a descriptor: only pushed, and from a pipe not seekable at all.
class Descriptor {
 public:
  explicit Descriptor(const std::string& clip) : fd_(open(demux_clip(clip).c_str(), O_RDONLY)) {}
  ~Descriptor() {
    close(fd_);
    if (writer_.joinable()) writer_.join();
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;

  static Descriptor pipe_of(const std::string& clip) {
    return Descriptor(read_bytes(demux_clip(clip)));
  }
  std::string source() const { return "fdsrc fd=" + std::to_string(fd_); }

 private:
  explicit Descriptor(std::vector<std::uint8_t> bytes) {
    int ends[2];
    if (pipe(ends) != 0) std::abort();
    fd_ = ends[0];
    writer_ = std::thread([bytes = std::move(bytes), end = ends[1]] {
      for (std::size_t at = 0; at < bytes.size();) {
        const ssize_t written = write(end, bytes.data() + at, bytes.size() - at);
        if (written < 0) break;  // the reader has gone
        at += static_cast<std::size_t>(written);
      }
      close(end);
    });
  }
  int fd_;
  std::thread writer_;
};

void expect_same(const DemuxedPad& pad, const ReferenceFile& file) {
  const std::vector<ReferencePacket> wanted = file.of_stream(pad.stream_index);
  ASSERT_EQ(pad.buffers.size(), wanted.size());
  const bool has_length = file.codecs[static_cast<std::size_t>(pad.stream_index)] == "mov_text";
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    const DemuxedBuffer& buffer = pad.buffers[i];
    if (!has_length) {
      EXPECT_EQ(buffer.size, wanted[i].size) << i;
      EXPECT_EQ(buffer.sum, wanted[i].sum) << i;
    }
    ASSERT_EQ(GST_CLOCK_TIME_IS_VALID(buffer.pts), wanted[i].pts_ns.has_value()) << i;
    if (wanted[i].pts_ns) {
      EXPECT_EQ(buffer.running_pts, *wanted[i].pts_ns - file.start_ns) << i;
    }
    if (wanted[i].dts_ns) {
      EXPECT_EQ(buffer.running_dts, *wanted[i].dts_ns - file.start_ns) << i;
    }
    EXPECT_EQ(
        GST_CLOCK_TIME_IS_VALID(buffer.duration) ? static_cast<std::int64_t>(buffer.duration) : 0,
        wanted[i].duration_ns)
        << i;
    EXPECT_EQ(!buffer.has(GST_BUFFER_FLAG_DELTA_UNIT), wanted[i].is_key) << i;
    EXPECT_EQ(buffer.has(GST_BUFFER_FLAG_DECODE_ONLY), wanted[i].is_hidden) << i;
    EXPECT_EQ(buffer.has(GST_BUFFER_FLAG_DISCONT), i == 0) << i;
  }
}

void expect_event_order(const DemuxedPad& pad, bool is_sparse) {
  // Sticky events come first, each once, and the segment before any data; EOS is the last.
  ASSERT_GE(pad.events.size(), 5u);
  EXPECT_EQ(pad.events[0], "stream-start");
  EXPECT_EQ(pad.events[1], "caps");
  for (const char* once : {"stream-start", "caps", "segment", "eos"}) {
    EXPECT_EQ(pad.count(once), 1) << once;
  }
  EXPECT_EQ(pad.events.back(), "eos");
  if (!is_sparse) {
    EXPECT_EQ(pad.count("buffers"), 1);
  }
  ASSERT_EQ(pad.segments.size(), 1u);
  EXPECT_EQ(pad.segments[0].format, GST_FORMAT_TIME);
  EXPECT_EQ(pad.segments[0].rate, 1.0);
  EXPECT_EQ(pad.segments[0].time, 0u);
}

void expect_whole_file(DemuxRun& run, const std::string& clip, std::size_t pads) {
  run.run();
  EXPECT_TRUE(run.saw_eos);
  EXPECT_TRUE(run.errors.empty()) << run.errors[0];
  EXPECT_TRUE(run.warnings.empty());
  run.stop();
  const ReferenceFile file = read_reference(demux_clip(clip));
  EXPECT_EQ(run.pads.size(), pads);
  std::set<int> streams;
  for (const auto& [name, pad] : run.pads) {
    SCOPED_TRACE(name);
    expect_event_order(pad, name.rfind("subtitle", 0) == 0);
    expect_same(pad, file);
    streams.insert(pad.stream_index);
  }
  EXPECT_EQ(streams.size(), pads) << "two pads for one stream";
}

struct ClipCase {
  const char* clip;
  std::size_t pads;
  bool can_be_pushed;  ///< Else the index is at the end, and what is read ahead must not matter.
};

class CudaDemuxClipTest : public testing::TestWithParam<ClipCase> {};

TEST_P(CudaDemuxClipTest, PulledItGivesWhatIsInTheContainer) {
  DemuxRun run(DemuxRun::pull(GetParam().clip));
  expect_whole_file(run, GetParam().clip, GetParam().pads);
}

TEST_P(CudaDemuxClipTest, PushedItGivesTheSame) {
  if (!GetParam().can_be_pushed) return;
  const Descriptor descriptor(GetParam().clip);
  DemuxRun run(descriptor.source());
  expect_whole_file(run, GetParam().clip, GetParam().pads);
}

TEST_P(CudaDemuxClipTest, ThroughAPipeItGivesTheSame) {
  if (!GetParam().can_be_pushed) return;
  const Descriptor descriptor = Descriptor::pipe_of(GetParam().clip);
  DemuxRun run(descriptor.source());
  expect_whole_file(run, GetParam().clip, GetParam().pads);
}

INSTANTIATE_TEST_SUITE_P(
    Containers, CudaDemuxClipTest,
    testing::Values(ClipCase{"av.mp4", 2, false}, ClipCase{"fast.mp4", 2, true},
                    ClipCase{"av.mkv", 2, true}, ClipCase{"av.ts", 2, true},
                    ClipCase{"fragments.mp4", 1, true}, ClipCase{"offset.ts", 1, true},
                    ClipCase{"edit.mp4", 1, false}, ClipCase{"cover.mp4", 1, false},
                    ClipCase{"tracks.mp4", 3, false}, ClipCase{"tracks.mkv", 3, true},
                    ClipCase{"other.webm", 2, true}, ClipCase{"other.mp4", 2, false}),
    [](const auto& param) {
      std::string name = param.param.clip;
      std::replace(name.begin(), name.end(), '.', '_');
      return name;
    });

// ---- Caps

struct CapsCase {
  const char* clip;
  const char* pad;
  const char* caps;  ///< Fields that must be there, with these values.
};

class CudaDemuxCapsTest : public testing::TestWithParam<CapsCase> {};

TEST_P(CudaDemuxCapsTest, DescribeTheStream) {
  DemuxRun run(DemuxRun::pull(GetParam().clip));
  run.run();
  run.stop();
  GstCaps* caps = gst_caps_from_string(run.pads[GetParam().pad].caps.c_str());
  GstCaps* wanted = gst_caps_from_string(GetParam().caps);
  EXPECT_TRUE(gst_caps_is_subset(caps, wanted)) << run.pads[GetParam().pad].caps;
  gst_caps_unref(wanted);
  gst_caps_unref(caps);
}

INSTANTIATE_TEST_SUITE_P(
    Streams, CudaDemuxCapsTest,
    testing::Values(
        CapsCase{"av.mp4", "video_0",
                 "video/x-h264,stream-format=avc,alignment=au,width=160,height=120,"
                 "framerate=25/1,pixel-aspect-ratio=1/1,profile=high"},
        CapsCase{"av.mkv", "video_0", "video/x-h264,stream-format=avc,alignment=au,width=160"},
        CapsCase{"av.ts", "video_0",
                 "video/x-h264,stream-format=byte-stream,alignment=au,width=160"},
        CapsCase{"av.mp4", "audio_0",
                 "audio/mpeg,mpegversion=4,stream-format=raw,rate=48000,channels=1"},
        CapsCase{"av.ts", "audio_0", "audio/mpeg,mpegversion=4,stream-format=adts"},
        CapsCase{"color.mp4", "video_0",
                 "video/x-h264,framerate=30000/1001,pixel-aspect-ratio=4/3,colorimetry=1:3:5:1"},
        CapsCase{"tracks.mp4", "subtitle_0", "text/x-raw,format=utf8"},
        CapsCase{"other.webm", "video_0", "video/x-vp9,width=160,height=120"},
        CapsCase{"other.webm", "audio_0", "audio/x-opus"},
        CapsCase{"other.mp4", "video_0", "video/x-h265,stream-format=hvc1,alignment=au"},
        CapsCase{"other.mp4", "audio_0", "audio/x-flac"}));

TEST(CudaDemuxTest, CodecDataIsTheContainers) {
  const ReferenceFile file = read_reference(demux_clip("av.mp4"));
  DemuxRun run(DemuxRun::pull("av.mp4"));
  run.run();
  run.stop();
  for (const auto& [name, pad] : run.pads) {
    GstCaps* caps = gst_caps_from_string(pad.caps.c_str());
    const GValue* value = gst_structure_get_value(gst_caps_get_structure(caps, 0), "codec_data");
    ASSERT_NE(value, nullptr) << name;
    const std::vector<std::uint8_t>& wanted =
        file.extradata[static_cast<std::size_t>(pad.stream_index)];
    GstBuffer* data = gst_value_get_buffer(value);
    EXPECT_EQ(gst_buffer_get_size(data), wanted.size());
    EXPECT_EQ(gst_buffer_memcmp(data, 0, wanted.data(), wanted.size()), 0);
    gst_caps_unref(caps);
  }
}

// ---- Several streams

TEST(CudaDemuxTest, PadsThatNobodyLinksStopNothing) {
  for (const char* clip : {"tracks.mp4", "tracks.mkv"}) {
    DemuxRun run(DemuxRun::pull(clip), only_video);
    run.run();
    EXPECT_TRUE(run.saw_eos) << clip;
    EXPECT_TRUE(run.errors.empty()) << clip;
    run.stop();
    expect_same(run.pads["video_0"], read_reference(demux_clip(clip)));
  }
}

TEST(CudaDemuxTest, WithoutAnyConsumerItNamesWhatTheFileHolds) {
  DemuxRun run(DemuxRun::pull("other.mp4"), [](const auto&) { return false; });
  run.run();
  EXPECT_FALSE(run.saw_eos);
  ASSERT_EQ(run.errors.size(), 1u);
  EXPECT_NE(run.errors[0].find("H.265"), std::string::npos) << run.errors[0];
  EXPECT_NE(run.errors[0].find("video_0"), std::string::npos) << run.errors[0];
  EXPECT_NE(run.errors[0].find("FLAC"), std::string::npos) << run.errors[0];
}

TEST(CudaDemuxTest, SparsePadsAreToldThatTimePasses) {
  DemuxRun run(DemuxRun::pull("tracks.mkv"));
  run.run();
  run.stop();
  EXPECT_GT(run.pads["subtitle_0"].count("gap"), 0);
  EXPECT_EQ(run.pads["video_0"].count("gap"), 0);
  EXPECT_TRUE(run.pads["subtitle_0"].flags & GST_STREAM_FLAG_SPARSE);
}

TEST(CudaDemuxTest, ACoverPictureIsNoVideo) {
  DemuxRun run(DemuxRun::pull("cover.mp4"));
  run.run();
  run.stop();
  ASSERT_EQ(run.pads.size(), 1u);
  EXPECT_EQ(run.pads.begin()->first, "video_0");
  EXPECT_EQ(run.pads.begin()->second.caps.rfind("video/x-h264", 0), 0u);
}

TEST(CudaDemuxTest, WhatAnEditListHidesIsDecodedAndNotShown) {
  DemuxRun run(DemuxRun::pull("edit.mp4"));
  run.run();
  run.stop();
  const std::vector<DemuxedBuffer>& buffers = run.pads["video_0"].buffers;
  ASSERT_FALSE(buffers.empty());
  EXPECT_TRUE(buffers[0].has(GST_BUFFER_FLAG_DECODE_ONLY));
  EXPECT_FALSE(buffers[0].has(GST_BUFFER_FLAG_DELTA_UNIT));
  GstClockTimeDiff first = G_MAXINT64;
  for (const DemuxedBuffer& buffer : buffers) {
    if (!buffer.has(GST_BUFFER_FLAG_DECODE_ONLY)) first = std::min(first, buffer.running_pts);
  }
  EXPECT_EQ(first, 0);
}

// ---- Bad input

struct BadCase {
  const char* clip;
  const char* words;
};

class CudaDemuxBadInputTest : public testing::TestWithParam<BadCase> {};

void expect_one_error(DemuxRun& run, const char* words) {
  run.run();
  EXPECT_FALSE(run.saw_eos);
  std::vector<std::string> own;
  for (const std::string& error : run.errors) {
    if (error.rfind("demux: ", 0) == 0) own.push_back(error);
  }
  ASSERT_EQ(own.size(), 1u);
  EXPECT_EQ(run.errors[0], own[0]) << "the source's comes first";
  EXPECT_NE(own[0].find(words), std::string::npos) << own[0];
}

TEST_P(CudaDemuxBadInputTest, PulledItIsOneErrorThatNamesTheCause) {
  DemuxRun run(DemuxRun::pull(GetParam().clip));
  expect_one_error(run, GetParam().words);
}

TEST_P(CudaDemuxBadInputTest, ThroughAPipeItIsOneErrorToo) {
  const Descriptor descriptor = Descriptor::pipe_of(GetParam().clip);
  DemuxRun run(descriptor.source());
  expect_one_error(run, GetParam().words);
}

INSTANTIATE_TEST_SUITE_P(Files, CudaDemuxBadInputTest,
                         testing::Values(BadCase{"note.txt", "no media"},
                                         BadCase{"empty.mp4", "empty"},
                                         BadCase{"headless.mp4", "damaged or missing"}),
                         [](const auto& param) {
                           const std::string name = param.param.clip;
                           return name.substr(0, name.find('.'));
                         });

TEST(CudaDemuxTest, AnIndexAtTheEndCantBeReadFromAPipe) {
  const Descriptor descriptor = Descriptor::pipe_of("large.mp4");
  DemuxRun run(descriptor.source());
  expect_one_error(run, "index at the end");
}

TEST(CudaDemuxTest, ACutOffFileGivesWhatItHasAndAWarning) {
  DemuxRun run(DemuxRun::pull("cut.mp4"));
  run.run();
  EXPECT_TRUE(run.saw_eos);
  EXPECT_TRUE(run.errors.empty());
  ASSERT_EQ(run.warnings.size(), 1u);
  EXPECT_NE(run.warnings[0].find("cut off"), std::string::npos);
  run.stop();
  const auto wanted = read_reference(demux_clip("fast.mp4")).of_stream(0);
  const std::vector<DemuxedBuffer>& buffers = run.pads["video_0"].buffers;
  ASSERT_GT(buffers.size(), wanted.size() / 2);
  for (std::size_t i = 0; i + 1 < buffers.size(); ++i) EXPECT_EQ(buffers[i].sum, wanted[i].sum);
}

TEST(CudaDemuxTest, AnErrorDownstreamIsNotReportedTwice) {
  // The decoder says what is wrong with what it gets; the demuxer has nothing to add.
  GstElement* pipeline = gst_parse_launch(
      (DemuxRun::pull("av.mp4") + " ! cudademux name=demux ! fakesink name=sink").c_str(), nullptr);
  GstElement* sink = gst_bin_get_by_name(GST_BIN(pipeline), "sink");
  GstPad* pad = gst_element_get_static_pad(sink, "sink");
  gst_pad_add_probe(
      pad, GST_PAD_PROBE_TYPE_BUFFER,
      [](GstPad* probed, GstPadProbeInfo* info, gpointer) {
        GstElement* owner = gst_pad_get_parent_element(probed);
        GST_ELEMENT_ERROR(owner, STREAM, DECODE, ("The picture is damaged."), (nullptr));
        gst_object_unref(owner);
        gst_buffer_unref(GST_PAD_PROBE_INFO_BUFFER(info));
        GST_PAD_PROBE_INFO_DATA(info) = nullptr;
        GST_PAD_PROBE_INFO_FLOW_RETURN(info) = GST_FLOW_ERROR;
        return GST_PAD_PROBE_HANDLED;
      },
      nullptr, nullptr);
  gst_element_set_state(pipeline, GST_STATE_PLAYING);
  GstBus* bus = gst_element_get_bus(pipeline);
  GstMessage* first = gst_bus_timed_pop_filtered(bus, 60 * GST_SECOND, GST_MESSAGE_ERROR);
  ASSERT_NE(first, nullptr);
  EXPECT_EQ(GST_MESSAGE_SRC(first), GST_OBJECT(sink));
  gst_message_unref(first);
  gst_element_set_state(pipeline, GST_STATE_READY);  // the streaming thread has left
  EXPECT_EQ(gst_bus_pop_filtered(bus, GST_MESSAGE_ERROR), nullptr);
  gst_element_set_state(pipeline, GST_STATE_NULL);
  gst_object_unref(bus);
  gst_object_unref(pad);
  gst_object_unref(sink);
  gst_object_unref(pipeline);
}

// ---- Seeks and queries

class CudaDemuxSeekTest : public testing::TestWithParam<const char*> {};

TEST_P(CudaDemuxSeekTest, AFlushingSeekStartsAtTheKeyFrameBefore) {
  constexpr GstClockTime kTarget = 1300 * GST_MSECOND;  // between the key frames at 0.96 and 1.44
  const ReferenceFile file = read_reference(demux_clip(GetParam()));
  DemuxRun run(DemuxRun::pull(GetParam()));
  run.run();
  for (const bool to_key : {true, false}) {
    run.await([&] {
      run.pads["video_0"] = DemuxedPad{};  // nothing streams: all pads have ended
      return true;
    });
    const int flags = GST_SEEK_FLAG_FLUSH | (to_key ? GST_SEEK_FLAG_KEY_UNIT : 0);
    GstEvent* seek = gst_event_new_seek(1.0, GST_FORMAT_TIME, static_cast<GstSeekFlags>(flags),
                                        GST_SEEK_TYPE_SET, kTarget, GST_SEEK_TYPE_NONE, 0);
    const guint32 seqnum = gst_event_get_seqnum(seek);
    ASSERT_TRUE(gst_element_send_event(run.pipeline(), seek));
    run.wait();
    EXPECT_TRUE(run.saw_eos);
    EXPECT_TRUE(run.errors.empty());
    run.await([&] {
      const DemuxedPad& pad = run.pads["video_0"];
      EXPECT_EQ(pad.count("flush-start"), 1);
      EXPECT_EQ(pad.count("flush-stop"), 1);
      EXPECT_EQ(pad.segments.size(), 1u);
      EXPECT_EQ(pad.segment_seqnum, seqnum);
      const auto wanted = file.of_stream(file.video());
      // The packets from that key frame on, in decode order.
      std::size_t from = 0;
      for (std::size_t i = 0; i < wanted.size(); ++i) {
        if (wanted[i].is_key &&
            *wanted[i].pts_ns - file.start_ns <= static_cast<std::int64_t>(kTarget)) {
          from = i;
        }
      }
      EXPECT_GT(from, 0u);
      EXPECT_EQ(pad.buffers.size(), wanted.size() - from);
      if (pad.buffers.size() != wanted.size() - from) return true;
      for (std::size_t i = 0; i < pad.buffers.size(); ++i) {
        EXPECT_EQ(pad.buffers[i].sum, wanted[from + i].sum) << i;
      }
      EXPECT_TRUE(pad.buffers[0].has(GST_BUFFER_FLAG_DISCONT));
      EXPECT_FALSE(pad.buffers[0].has(GST_BUFFER_FLAG_DELTA_UNIT));
      // To the key frame, that is where running time starts; else the target is.
      const auto key = *wanted[from].pts_ns - file.start_ns;
      EXPECT_EQ(pad.segments[0].time, to_key ? static_cast<guint64>(key) : kTarget);
      EXPECT_EQ(pad.buffers[0].running_pts, to_key ? 0 : key - static_cast<std::int64_t>(kTarget));
      return true;
    });
  }
}

INSTANTIATE_TEST_SUITE_P(Containers, CudaDemuxSeekTest,
                         testing::Values("av.mp4", "av.mkv", "av.ts"),
                         [](const auto& param) { return std::string(param.param).substr(3); });

TEST(CudaDemuxTest, ASeekInTheMiddleComesThrough) {
  DemuxRun run(DemuxRun::pull("av.mkv"));
  run.play();
  run.await([&] { return run.pads["video_0"].buffers.size() > 5; });
  for (int round = 0; round < 20; ++round) {
    EXPECT_TRUE(gst_element_seek_simple(
        run.pipeline(), GST_FORMAT_TIME,
        static_cast<GstSeekFlags>(GST_SEEK_FLAG_FLUSH | GST_SEEK_FLAG_KEY_UNIT),
        static_cast<gint64>(round % 5 * 400 * GST_MSECOND)));
  }
  run.wait();
  EXPECT_TRUE(run.saw_eos);
  EXPECT_TRUE(run.errors.empty());
}

TEST(CudaDemuxTest, QueriesAnswerInTime) {
  DemuxRun run(DemuxRun::pull("av.mp4"));
  run.run();
  GstPad* pad = gst_element_get_static_pad(run.demux(), "video_0");
  ASSERT_NE(pad, nullptr);
  gint64 duration = 0, position = 0;
  EXPECT_TRUE(gst_pad_query_duration(pad, GST_FORMAT_TIME, &duration));
  EXPECT_NEAR(static_cast<double>(duration), 2.4e9, 0.05e9);
  EXPECT_TRUE(gst_pad_query_position(pad, GST_FORMAT_TIME, &position));
  EXPECT_NEAR(static_cast<double>(position), 2.4e9, 0.1e9);
  EXPECT_FALSE(gst_pad_query_duration(pad, GST_FORMAT_BYTES, &duration));
  GstQuery* query = gst_query_new_seeking(GST_FORMAT_TIME);
  gboolean seekable = FALSE;
  EXPECT_TRUE(gst_pad_query(pad, query));
  gst_query_parse_seeking(query, nullptr, &seekable, nullptr, nullptr);
  EXPECT_TRUE(seekable);
  gst_query_unref(query);
  gst_object_unref(pad);
}

TEST(CudaDemuxTest, WhatComesThroughAPipeSaysThatItCantSeek) {
  const Descriptor descriptor = Descriptor::pipe_of("av.mkv");
  DemuxRun run(descriptor.source());
  run.run();
  GstPad* pad = gst_element_get_static_pad(run.demux(), "video_0");
  GstQuery* query = gst_query_new_seeking(GST_FORMAT_TIME);
  gboolean seekable = TRUE;
  EXPECT_TRUE(gst_pad_query(pad, query));
  gst_query_parse_seeking(query, nullptr, &seekable, nullptr, nullptr);
  EXPECT_FALSE(seekable);
  EXPECT_FALSE(gst_element_seek_simple(run.pipeline(), GST_FORMAT_TIME, GST_SEEK_FLAG_FLUSH, 0));
  gst_query_unref(query);
  gst_object_unref(pad);
}

// ---- States

class CudaDemuxStopTest : public testing::TestWithParam<int> {};

// An input that stops coming: before the first byte, inside the headers, inside the packets.
TEST_P(CudaDemuxStopTest, AStopEndsTheWaitForInput) {
  const std::vector<std::uint8_t> bytes = read_bytes(demux_clip("fast.mp4"));
  const auto size = bytes.size() * static_cast<std::size_t>(GetParam()) / 100;
  DemuxRun run("appsrc name=source");
  GstElement* source = run.at("source");
  run.play();
  if (size > 0) {
    gst_app_src_push_buffer(GST_APP_SRC(source), gst_buffer_new_memdup(bytes.data(), size));
  }
  if (GetParam() > 50) run.await([&] { return run.pads["video_0"].buffers.size() > 10; });
  run.stop();
  EXPECT_TRUE(run.errors.empty());
  gst_object_unref(source);
}

INSTANTIATE_TEST_SUITE_P(Percent, CudaDemuxStopTest, testing::Values(0, 2, 90));

TEST(CudaDemuxTest, StartsAgainAfterAStop) {
  DemuxRun run(DemuxRun::pull("av.ts"), [](const auto&) { return false; });
  for (int round = 0; round < 30; ++round) {
    run.await([&] {
      run.pads.clear();
      return true;
    });
    run.play();
    // At once, after the pads, or after some data.
    if (round % 3 > 0) run.await([&] { return !run.pads.empty(); });
    run.stop();
    EXPECT_EQ(gst_element_get_static_pad(run.demux(), "video_0"), nullptr) << "pads are gone";
  }
}

GstPadProbeReturn keep_buffer(GstPad*, GstPadProbeInfo* info, gpointer kept) {
  gst_buffer_replace(static_cast<GstBuffer**>(kept), GST_PAD_PROBE_INFO_BUFFER(info));
  return GST_PAD_PROBE_OK;
}

TEST(CudaDemuxTest, BuffersOutliveTheElement) {
  GstBuffer* kept = nullptr;
  {
    DemuxRun run(DemuxRun::pull("av.mp4"));
    // Before the first buffer: the pad is there, and nothing has been pushed.
    const auto on_pad = +[](GstElement*, GstPad* pad, gpointer to) {
      if (only_video(GST_PAD_NAME(pad))) {
        gst_pad_add_probe(pad, GST_PAD_PROBE_TYPE_BUFFER, keep_buffer, to, nullptr);
      }
    };
    g_signal_connect(run.demux(), "pad-added", G_CALLBACK(on_pad), &kept);
    run.run();
  }
  ASSERT_NE(kept, nullptr);
  const auto packets = read_reference(demux_clip("av.mp4")).of_stream(0);
  GstMapInfo map;
  ASSERT_TRUE(gst_buffer_map(kept, &map, GST_MAP_READ));
  EXPECT_EQ(sum_of(map.data, map.size), packets.back().sum);
  gst_buffer_unmap(kept, &map);
  gst_buffer_unref(kept);
}

}  // namespace
}  // namespace cudaframe::test
