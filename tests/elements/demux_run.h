// SPDX-License-Identifier: LGPL-2.1-or-later
// A pipeline with a cudademux in it, and all that came out of the demuxer's pads.
#pragma once

#include <gst/gst.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <condition_variable>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "tests/support/demux_reference.h"

namespace cudaframe::test {

struct DemuxedBuffer {
  GstClockTime pts;
  GstClockTime dts;
  GstClockTime duration;
  GstClockTimeDiff running_pts;  ///< By the segment at that time; may lie before 0.
  GstClockTimeDiff running_dts;
  guint flags;
  std::size_t size;
  std::uint32_t sum;
  bool has(guint flag) const { return (flags & flag) != 0; }
};

struct DemuxedPad {
  int stream_index = -1;            ///< In the container, from the stream's id.
  std::vector<std::string> events;  ///< Type names, each run of buffers as "buffers".
  std::vector<DemuxedBuffer> buffers;
  std::vector<GstSegment> segments;
  guint32 segment_seqnum = GST_SEQNUM_INVALID;
  std::string caps;
  guint flags = 0;  ///< GstStreamFlags.
  long count(const char* event) const { return std::count(events.begin(), events.end(), event); }
};

class DemuxRun {
 public:
  using Link = std::function<bool(const std::string& pad)>;

  /// `source` is a launch line without the demuxer. Pads for which `link` is true get a fakesink.
  explicit DemuxRun(
      const std::string& source, Link link = [](const auto&) { return true; })
      : link_(std::move(link)) {
    GError* error = nullptr;
    pipeline_ = gst_parse_launch((source + " ! cudademux name=demux").c_str(), &error);
    if (!pipeline_) {
      ADD_FAILURE() << (error ? error->message : "no pipeline");
      std::abort();
    }
    g_clear_error(&error);
    bus_ = gst_element_get_bus(pipeline_);
    demux_ = at("demux");
    g_signal_connect(demux_, "pad-added", G_CALLBACK(&DemuxRun::on_pad_added), this);
  }
  ~DemuxRun() {
    stop();
    gst_object_unref(demux_);
    gst_object_unref(bus_);
    gst_object_unref(pipeline_);
  }
  DemuxRun(const DemuxRun&) = delete;
  DemuxRun& operator=(const DemuxRun&) = delete;

  static std::string pull(const std::string& clip) {
    return "filesrc location=\"" + demux_clip(clip) + "\"";
  }

  void play() { gst_element_set_state(pipeline_, GST_STATE_PLAYING); }
  void stop() { gst_element_set_state(pipeline_, GST_STATE_NULL); }
  /// To EOS or the first error, and then what else is on the bus.
  void wait() {
    const auto ends =
        static_cast<GstMessageType>(GST_MESSAGE_EOS | GST_MESSAGE_ERROR | GST_MESSAGE_WARNING);
    GstMessageType type = GST_MESSAGE_WARNING;
    while (type == GST_MESSAGE_WARNING) {
      GstMessage* message = gst_bus_timed_pop_filtered(bus_, 60 * GST_SECOND, ends);
      if (!message) {
        ADD_FAILURE() << "neither end nor error";
        return;
      }
      type = GST_MESSAGE_TYPE(message);
      note(message);
    }
    saw_eos = type == GST_MESSAGE_EOS;
    while (GstMessage* message = gst_bus_pop_filtered(bus_, ends)) note(message);
  }
  void run() {
    play();
    wait();
  }

  /// (transfer full)
  GstElement* at(const char* name) { return gst_bin_get_by_name(GST_BIN(pipeline_), name); }
  GstElement* pipeline() { return pipeline_; }
  GstElement* demux() { return demux_; }

  /// Waits until `enough` is true; asked after each buffer and event.
  void await(const std::function<bool()>& enough) {
    std::unique_lock lock(mutex_);
    EXPECT_TRUE(changed_.wait_for(lock, std::chrono::seconds(60), enough)) << "never happened";
  }
  /// Only inside await(), or when nothing streams.
  std::map<std::string, DemuxedPad> pads;
  std::vector<std::string> errors, warnings;
  bool saw_eos = false;

 private:
  void note(GstMessage* message) {
    if (GST_MESSAGE_TYPE(message) != GST_MESSAGE_EOS) {
      GError* error = nullptr;
      const bool is_error = GST_MESSAGE_TYPE(message) == GST_MESSAGE_ERROR;
      is_error ? gst_message_parse_error(message, &error, nullptr)
               : gst_message_parse_warning(message, &error, nullptr);
      (is_error ? errors : warnings)
          .push_back(std::string(GST_OBJECT_NAME(message->src)) + ": " + error->message);
      g_error_free(error);
    }
    gst_message_unref(message);
  }

  static void on_pad_added(GstElement*, GstPad* pad, DemuxRun* self) {
    gchar* name = gst_pad_get_name(pad);
    const std::string pad_name = name;
    g_free(name);
    {
      std::lock_guard lock(self->mutex_);
      self->pads[pad_name];
    }
    // What is sticky went out before the pad was added: it comes once more, to the new peer.
    gst_pad_add_probe(
        pad,
        static_cast<GstPadProbeType>(GST_PAD_PROBE_TYPE_EVENT_DOWNSTREAM |
                                     GST_PAD_PROBE_TYPE_EVENT_FLUSH | GST_PAD_PROBE_TYPE_BUFFER),
        &DemuxRun::on_data, self, nullptr);
    if (!self->link_(pad_name)) return;
    GstElement* sink = gst_element_factory_make("fakesink", nullptr);
    g_object_set(sink, "sync", FALSE, "async", FALSE, nullptr);
    gst_bin_add(GST_BIN(self->pipeline_), sink);
    GstPad* sink_pad = gst_element_get_static_pad(sink, "sink");
    EXPECT_EQ(gst_pad_link(pad, sink_pad), GST_PAD_LINK_OK);
    gst_object_unref(sink_pad);
    gst_element_sync_state_with_parent(sink);
  }

  static GstPadProbeReturn on_data(GstPad* pad, GstPadProbeInfo* info, gpointer user_data) {
    auto* self = static_cast<DemuxRun*>(user_data);
    std::lock_guard lock(self->mutex_);
    DemuxedPad& to = self->pads[GST_PAD_NAME(pad)];
    if (GST_PAD_PROBE_INFO_TYPE(info) & GST_PAD_PROBE_TYPE_BUFFER) {
      take(to, GST_PAD_PROBE_INFO_BUFFER(info));
    } else {
      take(to, GST_PAD_PROBE_INFO_EVENT(info));
    }
    self->changed_.notify_all();
    return GST_PAD_PROBE_OK;
  }

  static void take(DemuxedPad& to, GstEvent* event) {
    to.events.emplace_back(GST_EVENT_TYPE_NAME(event));
    if (GST_EVENT_TYPE(event) == GST_EVENT_SEGMENT) {
      const GstSegment* segment = nullptr;
      gst_event_parse_segment(event, &segment);
      to.segments.push_back(*segment);
      to.segment_seqnum = gst_event_get_seqnum(event);
    } else if (GST_EVENT_TYPE(event) == GST_EVENT_CAPS) {
      GstCaps* caps = nullptr;
      gst_event_parse_caps(event, &caps);
      gchar* text = gst_caps_to_string(caps);
      to.caps = text;
      g_free(text);
    } else if (GST_EVENT_TYPE(event) == GST_EVENT_STREAM_START) {
      const gchar* id = nullptr;
      gst_event_parse_stream_start(event, &id);
      to.stream_index = std::atoi(std::string(id).substr(std::string(id).rfind('/') + 1).c_str());
      GstStreamFlags flags;
      gst_event_parse_stream_flags(event, &flags);
      to.flags = flags;
    }
  }

  static void take(DemuxedPad& to, GstBuffer* buffer) {
    GstMapInfo map;
    ASSERT_TRUE(gst_buffer_map(buffer, &map, GST_MAP_READ));
    ASSERT_FALSE(to.segments.empty()) << "a buffer before the segment";
    const auto running = [&](GstClockTime time) {
      guint64 value = 0;
      if (!GST_CLOCK_TIME_IS_VALID(time)) return GST_CLOCK_STIME_NONE;
      const gint sign =
          gst_segment_to_running_time_full(&to.segments.back(), GST_FORMAT_TIME, time, &value);
      return sign * static_cast<GstClockTimeDiff>(value);
    };
    to.buffers.push_back({GST_BUFFER_PTS(buffer), GST_BUFFER_DTS(buffer),
                          GST_BUFFER_DURATION(buffer), running(GST_BUFFER_PTS(buffer)),
                          running(GST_BUFFER_DTS(buffer)), GST_BUFFER_FLAGS(buffer), map.size,
                          sum_of(map.data, map.size)});
    gst_buffer_unmap(buffer, &map);
    if (to.events.empty() || to.events.back() != "buffers") to.events.emplace_back("buffers");
  }

  const Link link_;
  GstElement* pipeline_ = nullptr;
  GstElement* demux_ = nullptr;
  GstBus* bus_ = nullptr;
  std::mutex mutex_;
  std::condition_variable changed_;
};

}  // namespace cudaframe::test
