// SPDX-License-Identifier: LGPL-2.1-or-later
// cudademux's source pads: what is announced on them, and how packets become buffers.
#pragma once

#include <gst/base/gstflowcombiner.h>
#include <gst/gst.h>

#include <optional>
#include <string>
#include <vector>

#include "demux/demuxer.h"

/// Thread-bound to the streaming thread (or whoever holds its lock), but for send_to_all().
class GstCudaDemuxPads {
 public:
  /// Functions that the element sets on each pad.
  struct Functions {
    GstPadEventFunction event;
    GstPadQueryFunction query;
  };

  GstCudaDemuxPads(GstElement* element, Functions functions);
  ~GstCudaDemuxPads();
  GstCudaDemuxPads(const GstCudaDemuxPads&) = delete;
  GstCudaDemuxPads& operator=(const GstCudaDemuxPads&) = delete;

  /// A pad for each stream that has caps, with stream-start, caps, collection, `segment` and tags
  /// on it, then no-more-pads; deselects the other streams. False when there is none.
  bool expose(cudaframe::demux::Demuxer& demuxer, GstPad* sink_pad, GstEvent* segment);
  /// Takes all pads off the element.
  void remove_all();

  /// `segment` is in buffer time. Returns the flow of all pads together; a packet whose decode time
  /// is past the segment's stop ends its pad.
  GstFlowReturn push(cudaframe::demux::Packet packet, GstSegment* segment);
  /// (transfer full): to each pad.
  void send(GstEvent* event) { send_to_all(element_, event); }
  /// After a flush or damage: the next buffer of each pad doesn't follow on the last one.
  void set_discont();
  /// After a flush: no pad has ended, sparse pads are at `position`.
  void reset_flow(GstClockTime position);

  /// (transfer full): each pad's name and what comes there, for people.
  gchar* describe() const;

  /// (transfer full). Thread-safe.
  static void send_to_all(GstElement* element, GstEvent* event);

 private:
  struct Stream {
    cudaframe::demux::StreamInfo info;
    GstPad* pad = nullptr;
    GstStream* stream = nullptr;
    bool is_sparse = false;
    bool has_text_length = false;
    bool discont = true;
    GstClockTime position = 0;  ///< Of sparse pads: up to where downstream knows.
  };

  void add_stream(const cudaframe::demux::StreamInfo& info, GstCaps* caps);
  void announce(Stream& stream, GstEvent* collection, guint group_id);
  GstTagList* tags_of(const cudaframe::demux::StreamInfo& info, const GstCaps* caps) const;
  Stream* find(int stream_index);
  GstBuffer* make_buffer(Stream& stream, cudaframe::demux::Packet packet);
  void update_codec_data(Stream& stream, std::span<const std::uint8_t> data);
  void fill_gaps(const GstSegment& segment);

  GstElement* const element_;
  const Functions functions_;
  GstFlowCombiner* const combiner_;
  std::vector<Stream> streams_;
  guint counts_[3] = {};
};
