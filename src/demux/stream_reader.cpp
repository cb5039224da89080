// SPDX-License-Identifier: LGPL-2.1-or-later
#include "demux/stream_reader.h"

extern "C" {
#include <libavcodec/avcodec.h>
#include <libavformat/avformat.h>
#include <libavutil/channel_layout.h>
#include <libavutil/dict.h>
}

namespace cudaframe::demux {
namespace {

Rational to_rational(AVRational value) {
  return value.num > 0 && value.den > 0 ? Rational{value.num, value.den} : Rational{};
}

MediaType to_media_type(AVMediaType type) {
  switch (type) {
    case AVMEDIA_TYPE_VIDEO:
      return MediaType::video;
    case AVMEDIA_TYPE_AUDIO:
      return MediaType::audio;
    case AVMEDIA_TYPE_SUBTITLE:
      return MediaType::subtitle;
    default:
      return MediaType::other;
  }
}

FieldOrder to_field_order(AVFieldOrder order) {
  switch (order) {
    case AV_FIELD_PROGRESSIVE:
      return FieldOrder::progressive;
    case AV_FIELD_TT:
    case AV_FIELD_BT:  // coded bottom first, shown top first
      return FieldOrder::top_first;
    case AV_FIELD_BB:
    case AV_FIELD_TB:
      return FieldOrder::bottom_first;
    default:
      return FieldOrder::unknown;
  }
}

ColorTags to_color(const AVCodecParameters& parameters) {
  // libavutil's enumerations have the code points of ITU-T H.273.
  ColorTags color{
      .primaries = static_cast<int>(parameters.color_primaries),
      .transfer = static_cast<int>(parameters.color_trc),
      .matrix = static_cast<int>(parameters.color_space),
  };
  if (parameters.color_range == AVCOL_RANGE_MPEG) color.range = ColorRange::limited;
  if (parameters.color_range == AVCOL_RANGE_JPEG) color.range = ColorRange::full;
  if (parameters.chroma_location != AVCHROMA_LOC_UNSPECIFIED) {
    color.chroma_location = static_cast<int>(parameters.chroma_location) - 1;
  }
  return color;
}

std::string tag_of(const AVStream* stream, const char* key) {
  const AVDictionaryEntry* entry = av_dict_get(stream->metadata, key, nullptr, 0);
  return entry ? entry->value : "";
}

}  // namespace

StreamInfo read_stream_info(AVFormatContext* format, AVStream* stream) {
  const AVCodecParameters& parameters = *stream->codecpar;
  StreamInfo info;
  info.index = stream->index;
  info.type = to_media_type(parameters.codec_type);
  info.codec = avcodec_get_name(parameters.codec_id);
  info.codec_tag = parameters.codec_tag;
  info.profile = parameters.profile;
  if (parameters.extradata && parameters.extradata_size > 0) {
    info.extradata.assign(parameters.extradata, parameters.extradata + parameters.extradata_size);
  }
  info.time_base = to_rational(stream->time_base);
  info.bit_rate = parameters.bit_rate;
  info.is_default = (stream->disposition & AV_DISPOSITION_DEFAULT) != 0;
  info.is_attached_picture = (stream->disposition & AV_DISPOSITION_ATTACHED_PIC) != 0;
  info.language = tag_of(stream, "language");
  info.title = tag_of(stream, "title");
  info.video = {
      .width = parameters.width,
      .height = parameters.height,
      .frame_rate = to_rational(stream->avg_frame_rate),
      .pixel_aspect_ratio = to_rational(av_guess_sample_aspect_ratio(format, stream, nullptr)),
      .field_order = to_field_order(parameters.field_order),
      .color = to_color(parameters),
  };
  const AVChannelLayout& layout = parameters.ch_layout;
  info.audio = {
      .sample_rate = parameters.sample_rate,
      .channels = layout.nb_channels,
      .channel_mask = layout.order == AV_CHANNEL_ORDER_NATIVE ? layout.u.mask : 0,
      .block_align = parameters.block_align,
      .bits_per_coded_sample = parameters.bits_per_coded_sample,
  };
  return info;
}

}  // namespace cudaframe::demux
