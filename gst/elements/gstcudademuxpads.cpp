// SPDX-License-Identifier: LGPL-2.1-or-later
#include "elements/gstcudademuxpads.h"

#include <gst/pbutils/pbutils.h>
#include <gst/tag/tag.h>

#include <memory>
#include <utility>

#include "elements/gstcudademuxcaps.h"

GST_DEBUG_CATEGORY_EXTERN(gst_cuda_demux_debug);
#define GST_CAT_DEFAULT gst_cuda_demux_debug

using cudaframe::demux::Demuxer;
using cudaframe::demux::MediaType;
using cudaframe::demux::Packet;
using cudaframe::demux::StreamInfo;

namespace {

// How far a sparse pad may lag before downstream is told that nothing comes.
constexpr GstClockTime kMaxSparseLag = 500 * GST_MSECOND;

struct Kind {
  MediaType type;
  const char* pad_template;
  const char* codec_tag;
  GstStreamType stream_type;
};

constexpr Kind kKinds[] = {
    {MediaType::video, "video_%u", GST_TAG_VIDEO_CODEC, GST_STREAM_TYPE_VIDEO},
    {MediaType::audio, "audio_%u", GST_TAG_AUDIO_CODEC, GST_STREAM_TYPE_AUDIO},
    {MediaType::subtitle, "subtitle_%u", GST_TAG_SUBTITLE_CODEC, GST_STREAM_TYPE_TEXT},
};

const Kind& kind_of(MediaType type) {
  for (const Kind& kind : kKinds) {
    if (kind.type == type) return kind;
  }
  return kKinds[0];  // not reached: other types have no caps
}

GstClockTime to_clock_time(std::optional<std::int64_t> ns) {
  // Packets from before the start of the file (a jump in MPEG-TS) have no time a buffer can carry.
  return ns && *ns >= 0 ? static_cast<GstClockTime>(*ns) : GST_CLOCK_TIME_NONE;
}

void delete_packet(gpointer packet) {
  delete static_cast<Packet*>(packet);
}

guint group_id_of(GstPad* sink_pad) {
  g_autoptr(GstEvent) start = gst_pad_get_sticky_event(sink_pad, GST_EVENT_STREAM_START, 0);
  guint group_id = 0;
  if (start && gst_event_parse_group_id(start, &group_id)) return group_id;
  return gst_util_group_id_next();
}

}  // namespace

GstCudaDemuxPads::GstCudaDemuxPads(GstElement* element, Functions functions)
    : element_(element), functions_(functions), combiner_(gst_flow_combiner_new()) {}

GstCudaDemuxPads::~GstCudaDemuxPads() {
  remove_all();
  gst_flow_combiner_free(combiner_);
}

void GstCudaDemuxPads::remove_all() {
  for (Stream& stream : streams_) {
    gst_flow_combiner_remove_pad(combiner_, stream.pad);
    gst_pad_set_active(stream.pad, FALSE);
    gst_element_remove_pad(element_, stream.pad);
    gst_clear_object(&stream.stream);
  }
  streams_.clear();
  for (guint& count : counts_) count = 0;
}

void GstCudaDemuxPads::send_to_all(GstElement* element, GstEvent* event) {
  gst_element_foreach_src_pad(
      element,
      [](GstElement*, GstPad* pad, gpointer data) -> gboolean {
        gst_pad_push_event(pad, gst_event_ref(static_cast<GstEvent*>(data)));
        return TRUE;
      },
      event);
  gst_event_unref(event);
}

gchar* GstCudaDemuxPads::describe() const {
  GString* text = g_string_new(nullptr);
  for (const Stream& stream : streams_) {
    g_autoptr(GstCaps) caps = gst_stream_get_caps(stream.stream);
    g_autofree gchar* codec = gst_pb_utils_get_codec_description(caps);
    g_string_append_printf(text, "%s%s (%s)", text->len > 0 ? ", " : "",
                           codec ? codec : stream.info.codec.c_str(), GST_PAD_NAME(stream.pad));
  }
  return g_string_free(text, FALSE);
}

bool GstCudaDemuxPads::expose(Demuxer& demuxer, GstPad* sink_pad, GstEvent* segment) {
  for (const StreamInfo& info : demuxer.streams()) {
    g_autoptr(GstCaps) caps = gst_cuda_demux_stream_caps(info);
    if (!caps) {
      GST_DEBUG_OBJECT(element_, "stream %d (%s%s) is skipped: no caps for it", info.index,
                       info.codec.c_str(), info.is_attached_picture ? ", a cover picture" : "");
      demuxer.select(info.index, false);
      continue;
    }
    add_stream(info, caps);
  }
  if (streams_.empty()) return false;

  GstStreamCollection* collection = gst_stream_collection_new(nullptr);
  for (Stream& stream : streams_) {
    gst_stream_collection_add_stream(collection,
                                     static_cast<GstStream*>(gst_object_ref(stream.stream)));
  }
  g_autoptr(GstEvent) collection_event = gst_event_new_stream_collection(collection);
  gst_element_post_message(element_,
                           gst_message_new_stream_collection(GST_OBJECT(element_), collection));
  gst_object_unref(collection);

  g_autoptr(GstTagList) container =
      gst_tag_list_new(GST_TAG_CONTAINER_FORMAT, demuxer.format_name().c_str(), nullptr);
  gst_tag_list_set_scope(container, GST_TAG_SCOPE_GLOBAL);
  const guint group_id = group_id_of(sink_pad);
  for (Stream& stream : streams_) {
    announce(stream, collection_event, group_id);
    gst_pad_push_event(stream.pad, gst_event_ref(segment));
    gst_pad_push_event(stream.pad, gst_event_new_tag(gst_tag_list_ref(container)));
    GstTagList* tags = gst_stream_get_tags(stream.stream);
    if (tags) gst_pad_push_event(stream.pad, gst_event_new_tag(tags));
  }
  gst_element_no_more_pads(element_);
  return true;
}

void GstCudaDemuxPads::add_stream(const StreamInfo& info, GstCaps* caps) {
  const Kind& kind = kind_of(info.type);
  g_autofree gchar* name = g_strdup_printf(kind.pad_template, counts_[&kind - kKinds]++);
  GstPadTemplate* pad_template =
      gst_element_class_get_pad_template(GST_ELEMENT_GET_CLASS(element_), kind.pad_template);
  Stream stream;
  stream.info = info;
  stream.is_sparse = info.type == MediaType::subtitle;
  stream.has_text_length = gst_cuda_demux_has_text_length(info);
  stream.pad = gst_pad_new_from_template(pad_template, name);
  gst_pad_set_event_function(stream.pad, functions_.event);
  gst_pad_set_query_function(stream.pad, functions_.query);
  gst_pad_use_fixed_caps(stream.pad);

  g_autofree gchar* id = gst_pad_create_stream_id_printf(stream.pad, element_, "%03d", info.index);
  int flags = GST_STREAM_FLAG_NONE;
  if (stream.is_sparse) flags |= GST_STREAM_FLAG_SPARSE;
  if (info.is_default) flags |= GST_STREAM_FLAG_SELECT;
  stream.stream = gst_stream_new(id, caps, kind.stream_type, static_cast<GstStreamFlags>(flags));
  g_autoptr(GstTagList) tags = tags_of(info, caps);
  gst_stream_set_tags(stream.stream, tags);
  streams_.push_back(std::move(stream));
}

void GstCudaDemuxPads::announce(Stream& stream, GstEvent* collection, guint group_id) {
  gst_pad_set_active(stream.pad, TRUE);
  GstEvent* start = gst_event_new_stream_start(gst_stream_get_stream_id(stream.stream));
  gst_event_set_group_id(start, group_id);
  gst_event_set_stream_flags(start, gst_stream_get_stream_flags(stream.stream));
  gst_event_set_stream(start, stream.stream);
  gst_pad_push_event(stream.pad, start);
  g_autoptr(GstCaps) caps = gst_stream_get_caps(stream.stream);
  GST_INFO_OBJECT(element_, "stream %d on %s: %" GST_PTR_FORMAT, stream.info.index,
                  GST_PAD_NAME(stream.pad), caps);
  gst_pad_push_event(stream.pad, gst_event_new_caps(caps));
  gst_pad_push_event(stream.pad, gst_event_ref(collection));
  gst_flow_combiner_add_pad(combiner_, stream.pad);
  gst_element_add_pad(element_, stream.pad);
}

GstTagList* GstCudaDemuxPads::tags_of(const StreamInfo& info, const GstCaps* caps) const {
  GstTagList* tags = gst_tag_list_new_empty();
  gst_pb_utils_add_codec_description_to_tag_list(tags, kind_of(info.type).codec_tag, caps);
  if (info.bit_rate > 0 && info.bit_rate <= G_MAXUINT) {
    gst_tag_list_add(tags, GST_TAG_MERGE_REPLACE, GST_TAG_BITRATE,
                     static_cast<guint>(info.bit_rate), nullptr);
  }
  if (!info.language.empty() && info.language != "und") {
    const gchar* code = gst_tag_get_language_code(info.language.c_str());
    if (code) gst_tag_list_add(tags, GST_TAG_MERGE_REPLACE, GST_TAG_LANGUAGE_CODE, code, nullptr);
  }
  if (!info.title.empty() && g_utf8_validate(info.title.c_str(), -1, nullptr)) {
    gst_tag_list_add(tags, GST_TAG_MERGE_REPLACE, GST_TAG_TITLE, info.title.c_str(), nullptr);
  }
  return tags;
}

GstCudaDemuxPads::Stream* GstCudaDemuxPads::find(int stream_index) {
  for (Stream& stream : streams_) {
    if (stream.info.index == stream_index) return &stream;
  }
  return nullptr;
}

void GstCudaDemuxPads::set_discont() {
  for (Stream& stream : streams_) stream.discont = true;
}

void GstCudaDemuxPads::reset_flow(GstClockTime position) {
  gst_flow_combiner_reset(combiner_);
  for (Stream& stream : streams_) stream.position = position;
}

GstBuffer* GstCudaDemuxPads::make_buffer(Stream& stream, Packet packet) {
  gsize offset = 0;
  gsize size = packet.bytes.size();
  if (stream.has_text_length && size >= 2) {
    const gsize text = static_cast<gsize>(packet.bytes[0]) << 8 | packet.bytes[1];
    offset = 2;
    size = MIN(text, size - 2);
  }
  // The buffer shares the packet's memory, which lives until the last reference is dropped.
  auto* owner = new Packet(std::move(packet));
  GstBuffer* buffer = gst_buffer_new_wrapped_full(
      GST_MEMORY_FLAG_READONLY, const_cast<std::uint8_t*>(owner->bytes.data()), owner->bytes.size(),
      offset, size, owner, &delete_packet);
  GST_BUFFER_PTS(buffer) = to_clock_time(owner->pts_ns);
  GST_BUFFER_DTS(buffer) = to_clock_time(owner->dts_ns);
  GST_BUFFER_DURATION(buffer) = to_clock_time(owner->duration_ns);
  if (!owner->is_key) GST_BUFFER_FLAG_SET(buffer, GST_BUFFER_FLAG_DELTA_UNIT);
  if (owner->is_discardable) GST_BUFFER_FLAG_SET(buffer, GST_BUFFER_FLAG_DECODE_ONLY);
  if (owner->is_corrupt) GST_BUFFER_FLAG_SET(buffer, GST_BUFFER_FLAG_CORRUPTED);
  if (std::exchange(stream.discont, false)) GST_BUFFER_FLAG_SET(buffer, GST_BUFFER_FLAG_DISCONT);
  return buffer;
}

void GstCudaDemuxPads::update_codec_data(Stream& stream, std::span<const std::uint8_t> data) {
  stream.info.extradata.assign(data.begin(), data.end());
  g_autoptr(GstCaps) caps = gst_cuda_demux_stream_caps(stream.info);
  if (!caps) return;
  GST_DEBUG_OBJECT(stream.pad, "new codec data: %" GST_PTR_FORMAT, caps);
  gst_pad_push_event(stream.pad, gst_event_new_caps(caps));
}

void GstCudaDemuxPads::fill_gaps(const GstSegment& segment) {
  for (Stream& stream : streams_) {
    if (!stream.is_sparse || segment.position < stream.position + kMaxSparseLag) continue;
    gst_pad_push_event(stream.pad,
                       gst_event_new_gap(stream.position, segment.position - stream.position));
    stream.position = segment.position;
  }
}

GstFlowReturn GstCudaDemuxPads::push(Packet packet, GstSegment* segment) {
  Stream* stream = find(packet.stream_index);
  if (!stream) return GST_FLOW_OK;
  if (!packet.new_extradata.empty()) update_codec_data(*stream, packet.new_extradata);
  if (packet.bytes.empty()) return GST_FLOW_OK;

  GstBuffer* buffer = make_buffer(*stream, std::move(packet));
  // No later packet has a smaller decode time, and none is shown before it is decoded.
  const GstClockTime decode_time = GST_BUFFER_DTS_OR_PTS(buffer);
  if (GST_CLOCK_TIME_IS_VALID(segment->stop) && GST_CLOCK_TIME_IS_VALID(decode_time) &&
      decode_time >= segment->stop) {
    gst_buffer_unref(buffer);
    return gst_flow_combiner_update_pad_flow(combiner_, stream->pad, GST_FLOW_EOS);
  }
  GstClockTime end = GST_BUFFER_PTS(buffer);
  if (!GST_CLOCK_TIME_IS_VALID(end)) end = decode_time;
  if (GST_CLOCK_TIME_IS_VALID(end)) {
    if (stream->is_sparse) {
      stream->position = end;
      if (GST_BUFFER_DURATION_IS_VALID(buffer)) stream->position += GST_BUFFER_DURATION(buffer);
    } else if (end > segment->position) {
      segment->position = end;
    }
  }
  GST_TRACE_OBJECT(stream->pad, "%" GST_PTR_FORMAT, buffer);
  const GstFlowReturn flow = gst_pad_push(stream->pad, buffer);
  const GstFlowReturn combined = gst_flow_combiner_update_pad_flow(combiner_, stream->pad, flow);
  if (combined == GST_FLOW_OK) fill_gaps(*segment);
  return combined;
}
