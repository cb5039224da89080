// SPDX-License-Identifier: LGPL-2.1-or-later
#include "elements/gstcudademuxcaps.h"

#include <gst/audio/audio.h>
#include <gst/pbutils/pbutils.h>
#include <gst/video/video.h>

#include <cstring>

using cudaframe::ColorRange;
using cudaframe::Rational;
using cudaframe::demux::ColorTags;
using cudaframe::demux::FieldOrder;
using cudaframe::demux::MediaType;
using cudaframe::demux::StreamInfo;

namespace {

struct Container {
  const char* name;  ///< One of the names that libavformat has for it.
  const char* caps;
};

constexpr Container kContainers[] = {
    {"mov", "video/quicktime; audio/x-m4a; application/x-3gp; video/mj2"},
    {"matroska", "video/x-matroska; audio/x-matroska; video/webm; audio/webm"},
    {"mpegts", "video/mpegts"},
    {"mpeg", "video/mpeg, systemstream=(boolean)true"},
    {"avi", "video/x-msvideo"},
    {"flv", "video/x-flv"},
    {"asf", "video/x-ms-asf"},
    {"ogg", "application/ogg; video/ogg; audio/ogg"},
    {"mxf", "application/mxf"},
    {"ivf", "video/x-ivf"},
};

void set_codec_data(const StreamInfo& stream, GstCaps* caps) {
  if (stream.extradata.empty()) return;
  g_autoptr(GstBuffer) data =
      gst_buffer_new_memdup(stream.extradata.data(), stream.extradata.size());
  gst_caps_set_simple(caps, "codec_data", GST_TYPE_BUFFER, data, nullptr);
}

bool is_tagged(const StreamInfo& stream, const char (&tag)[5]) {
  return stream.codec_tag == GST_MAKE_FOURCC(tag[0], tag[1], tag[2], tag[3]);
}

/// The SPS (without its NAL header) of Annex B parameter sets, where they begin with one or an AUD.
const guint8* find_annexb_sps(const StreamInfo& stream, guint* size) {
  const auto& data = stream.extradata;
  for (std::size_t i = 0; i + 7 < data.size(); ++i) {
    if (data[i] != 0 || data[i + 1] != 0 || data[i + 2] != 1) continue;
    if ((data[i + 3] & 0x1f) != 7) continue;
    *size = static_cast<guint>(data.size() - i - 4);
    return data.data() + i + 4;
  }
  return nullptr;
}

void refine_h264(const StreamInfo& stream, GstCaps* caps) {
  const auto& data = stream.extradata;
  if (data.size() >= 7 && data[0] == 1) {
    const char* format = is_tagged(stream, "avc3") ? "avc3" : "avc";
    gst_caps_set_simple(caps, "stream-format", G_TYPE_STRING, format, nullptr);
    set_codec_data(stream, caps);
    gst_codec_utils_h264_caps_set_level_and_profile(caps, data.data() + 1, 3);
    return;
  }
  gst_caps_set_simple(caps, "stream-format", G_TYPE_STRING, "byte-stream", nullptr);
  guint size = 0;
  const guint8* sps = find_annexb_sps(stream, &size);
  if (sps) gst_codec_utils_h264_caps_set_level_and_profile(caps, sps, size);
}

void refine_h265(const StreamInfo& stream, GstCaps* caps) {
  const auto& data = stream.extradata;
  // hvcC; the first version of the format said 0 here, as some writers still do. Annex B begins
  // with two zeros at least.
  if (data.size() >= 23 && (data[0] == 1 || (data[0] == 0 && data[1] != 0))) {
    const char* format = is_tagged(stream, "hev1") ? "hev1" : "hvc1";
    gst_caps_set_simple(caps, "stream-format", G_TYPE_STRING, format, nullptr);
    set_codec_data(stream, caps);
    gst_codec_utils_h265_caps_set_level_tier_and_profile(caps, data.data() + 1, 12);
    return;
  }
  gst_caps_set_simple(caps, "stream-format", G_TYPE_STRING, "byte-stream", nullptr);
}

void refine_vp9(const StreamInfo& stream, GstCaps* caps) {
  static constexpr const char* kProfiles[] = {"0", "1", "2", "3"};
  if (stream.profile < 0 || stream.profile > 3) return;
  gst_caps_set_simple(caps, "profile", G_TYPE_STRING, kProfiles[stream.profile], nullptr);
}

void refine_aac(const StreamInfo& stream, GstCaps* caps) {
  if (stream.extradata.size() < 2) {
    gst_caps_set_simple(caps, "stream-format", G_TYPE_STRING, "adts", nullptr);
    return;
  }
  gst_caps_set_simple(caps, "stream-format", G_TYPE_STRING, "raw", nullptr);
  set_codec_data(stream, caps);
  gst_codec_utils_aac_caps_set_level_and_profile(caps, stream.extradata.data(),
                                                 static_cast<guint>(stream.extradata.size()));
}

void append_header(GValue* headers, gconstpointer data, std::size_t size) {
  GValue value = G_VALUE_INIT;
  g_value_init(&value, GST_TYPE_BUFFER);
  GstBuffer* buffer = gst_buffer_new_memdup(data, size);
  GST_BUFFER_FLAG_SET(buffer, GST_BUFFER_FLAG_HEADER);
  g_value_take_boxed(&value, buffer);
  gst_value_array_append_and_take_value(headers, &value);
}

void take_headers(GstCaps* caps, GValue* headers) {
  if (gst_value_array_get_size(headers) > 0) {
    gst_structure_set_value(gst_caps_get_structure(caps, 0), "streamheader", headers);
  }
  g_value_unset(headers);
}

/// Vorbis and Theora: three headers, either laced as in Xiph's format or each behind its size in
/// two bytes.
void refine_xiph(const StreamInfo& stream, GstCaps* caps) {
  const auto& data = stream.extradata;
  GValue headers = G_VALUE_INIT;
  g_value_init(&headers, GST_TYPE_ARRAY);
  std::size_t at = 0;
  if (data.size() > 3 && data[0] == 2) {
    std::size_t sizes[2] = {};
    at = 1;
    for (std::size_t& size : sizes) {
      while (at < data.size() && data[at] == 255) size += data[at++];
      if (at < data.size()) size += data[at++];
    }
    if (at + sizes[0] + sizes[1] < data.size()) {
      append_header(&headers, data.data() + at, sizes[0]);
      append_header(&headers, data.data() + at + sizes[0], sizes[1]);
      at += sizes[0] + sizes[1];
      append_header(&headers, data.data() + at, data.size() - at);
    }
  } else {
    while (at + 2 <= data.size()) {
      const std::size_t size = static_cast<std::size_t>(data[at]) << 8 | data[at + 1];
      at += 2;
      if (size == 0 || at + size > data.size()) break;
      append_header(&headers, data.data() + at, size);
      at += size;
    }
  }
  take_headers(caps, &headers);
}

void refine_opus(const StreamInfo& stream, GstCaps* caps) {
  if (stream.extradata.size() < 19) return;
  g_autoptr(GstBuffer) head =
      gst_buffer_new_memdup(stream.extradata.data(), stream.extradata.size());
  g_autoptr(GstCaps) parsed = gst_codec_utils_opus_create_caps_from_header(head, nullptr);
  if (!parsed) return;
  gst_caps_remove_structure(caps, 0);
  gst_caps_append_structure(caps, gst_structure_copy(gst_caps_get_structure(parsed, 0)));
}

void refine_flac(const StreamInfo& stream, GstCaps* caps) {
  constexpr std::size_t kStreamInfoBytes = 34;
  const auto& data = stream.extradata;
  if (data.size() < kStreamInfoBytes) return;
  // libavformat keeps the bare STREAMINFO; the header is the marker and a last-block head before
  // it.
  guint8 header[8 + kStreamInfoBytes] = {'f', 'L', 'a', 'C', 0x80, 0, 0, kStreamInfoBytes};
  const bool is_whole = std::memcmp(data.data(), "fLaC", 4) == 0;
  if (is_whole && data.size() < sizeof header) return;
  std::memcpy(header + 8, data.data() + (is_whole ? 8 : 0), kStreamInfoBytes);
  GValue headers = G_VALUE_INIT;
  g_value_init(&headers, GST_TYPE_ARRAY);
  append_header(&headers, header, sizeof header);
  take_headers(caps, &headers);
}

void refine_pcm(const StreamInfo& stream, GstCaps* caps) {
  const auto& audio = stream.audio;
  if (audio.channels <= 1) return;
  guint64 mask = audio.channel_mask;
  if (mask == 0 && audio.channels == 2) mask = 0x3;
  gst_caps_set_simple(caps, "channel-mask", GST_TYPE_BITMASK, mask, nullptr);
}

struct Codec {
  MediaType type;
  const char* name;  ///< libavcodec's.
  const char* caps;
  void (*refine)(const StreamInfo&, GstCaps*);
  bool has_text_length = false;
};

constexpr MediaType kVideo = MediaType::video;
constexpr MediaType kAudio = MediaType::audio;
constexpr MediaType kSubtitle = MediaType::subtitle;

constexpr Codec kCodecs[] = {
    {kVideo, "h264", "video/x-h264, alignment=(string)au", refine_h264},
    {kVideo, "hevc", "video/x-h265, alignment=(string)au", refine_h265},
    {kVideo, "av1", "video/x-av1, stream-format=(string)obu-stream, alignment=(string)tu",
     set_codec_data},
    {kVideo, "vp8", "video/x-vp8", nullptr},
    {kVideo, "vp9", "video/x-vp9, alignment=(string)super-frame", refine_vp9},
    {kVideo, "mpeg1video", "video/mpeg, mpegversion=(int)1, systemstream=(boolean)false", nullptr},
    {kVideo, "mpeg2video", "video/mpeg, mpegversion=(int)2, systemstream=(boolean)false", nullptr},
    {kVideo, "mpeg4", "video/mpeg, mpegversion=(int)4, systemstream=(boolean)false",
     set_codec_data},
    {kVideo, "mjpeg", "image/jpeg", nullptr},
    {kVideo, "vc1", "video/x-wmv, wmvversion=(int)3, format=(string)WVC1", set_codec_data},
    {kVideo, "wmv3", "video/x-wmv, wmvversion=(int)3, format=(string)WMV3", set_codec_data},
    {kVideo, "theora", "video/x-theora", refine_xiph},
    {kAudio, "aac", "audio/mpeg, mpegversion=(int)4, framed=(boolean)true", refine_aac},
    {kAudio, "mp3", "audio/mpeg, mpegversion=(int)1, layer=(int)3, parsed=(boolean)true", nullptr},
    {kAudio, "mp2", "audio/mpeg, mpegversion=(int)1, layer=(int)2, parsed=(boolean)true", nullptr},
    {kAudio, "ac3", "audio/x-ac3, framed=(boolean)true", nullptr},
    {kAudio, "eac3", "audio/x-eac3, framed=(boolean)true", nullptr},
    {kAudio, "opus", "audio/x-opus, channel-mapping-family=(int)0", refine_opus},
    {kAudio, "vorbis", "audio/x-vorbis", refine_xiph},
    {kAudio, "flac", "audio/x-flac, framed=(boolean)true", refine_flac},
    {kAudio, "pcm_u8", "audio/x-raw, format=(string)U8, layout=(string)interleaved", refine_pcm},
    {kAudio, "pcm_s16le", "audio/x-raw, format=(string)S16LE, layout=(string)interleaved",
     refine_pcm},
    {kAudio, "pcm_s16be", "audio/x-raw, format=(string)S16BE, layout=(string)interleaved",
     refine_pcm},
    {kAudio, "pcm_s24le", "audio/x-raw, format=(string)S24LE, layout=(string)interleaved",
     refine_pcm},
    {kAudio, "pcm_s32le", "audio/x-raw, format=(string)S32LE, layout=(string)interleaved",
     refine_pcm},
    {kAudio, "pcm_f32le", "audio/x-raw, format=(string)F32LE, layout=(string)interleaved",
     refine_pcm},
    {kSubtitle, "subrip", "text/x-raw, format=(string)utf8", nullptr},
    {kSubtitle, "text", "text/x-raw, format=(string)utf8", nullptr},
    {kSubtitle, "mov_text", "text/x-raw, format=(string)utf8", nullptr, true},
    {kSubtitle, "ass", "application/x-ass", set_codec_data},
    {kSubtitle, "hdmv_pgs_subtitle", "subpicture/x-pgs", nullptr},
};

const Codec* find_codec(const StreamInfo& stream) {
  for (const Codec& codec : kCodecs) {
    if (codec.type == stream.type && stream.codec == codec.name) return &codec;
  }
  return nullptr;
}

void set_colorimetry(const StreamInfo& stream, GstCaps* caps) {
  constexpr int kUnspecified = 2;
  const ColorTags& tags = stream.video.color;
  const bool has_color = tags.matrix != kUnspecified || tags.transfer != kUnspecified ||
                         tags.primaries != kUnspecified;
  if (has_color || tags.range == ColorRange::full) {
    // What isn't tagged stays GStreamer's default for the size: parsers refuse a missing matrix.
    GstVideoInfo info;
    gst_video_info_init(&info);
    gst_video_info_set_format(&info, GST_VIDEO_FORMAT_NV12, static_cast<guint>(stream.video.width),
                              static_cast<guint>(stream.video.height));
    GstVideoColorimetry color = info.colorimetry;
    color.range =
        tags.range == ColorRange::full ? GST_VIDEO_COLOR_RANGE_0_255 : GST_VIDEO_COLOR_RANGE_16_235;
    if (tags.matrix != kUnspecified) {
      color.matrix = gst_video_color_matrix_from_iso(static_cast<guint>(tags.matrix));
    }
    if (tags.transfer != kUnspecified) {
      color.transfer = gst_video_transfer_function_from_iso(static_cast<guint>(tags.transfer));
    }
    if (tags.primaries != kUnspecified) {
      color.primaries = gst_video_color_primaries_from_iso(static_cast<guint>(tags.primaries));
    }
    g_autofree gchar* text = gst_video_colorimetry_to_string(&color);
    if (text) gst_caps_set_simple(caps, "colorimetry", G_TYPE_STRING, text, nullptr);
  }
  // In the order of ITU-T H.273's Chroma420SampleLocType.
  static constexpr const char* kSites[] = {"mpeg2", "jpeg", "cosited", "v-cosited"};
  // GStreamer 1.22 has no names for the two others, bottom left and bottom.
  if (tags.chroma_location && *tags.chroma_location >= 0 && *tags.chroma_location < 4) {
    gst_caps_set_simple(caps, "chroma-site", G_TYPE_STRING, kSites[*tags.chroma_location], nullptr);
  }
}

void set_fraction(GstCaps* caps, const char* field, Rational value) {
  if (value.num <= 0 || value.den <= 0) return;
  gst_caps_set_simple(caps, field, GST_TYPE_FRACTION, value.num, value.den, nullptr);
}

void set_video_fields(const StreamInfo& stream, GstCaps* caps) {
  const auto& video = stream.video;
  if (video.width > 0 && video.height > 0) {
    gst_caps_set_simple(caps, "width", G_TYPE_INT, video.width, "height", G_TYPE_INT, video.height,
                        nullptr);
    set_colorimetry(stream, caps);
  }
  set_fraction(caps, "framerate", video.frame_rate);
  set_fraction(caps, "pixel-aspect-ratio", video.pixel_aspect_ratio);
  if (video.field_order == FieldOrder::progressive) {
    gst_caps_set_simple(caps, "interlace-mode", G_TYPE_STRING, "progressive", nullptr);
  } else if (video.field_order != FieldOrder::unknown) {
    const bool top = video.field_order == FieldOrder::top_first;
    gst_caps_set_simple(caps, "interlace-mode", G_TYPE_STRING, "interleaved", "field-order",
                        G_TYPE_STRING, top ? "top-field-first" : "bottom-field-first", nullptr);
  }
}

void set_audio_fields(const StreamInfo& stream, GstCaps* caps) {
  if (stream.audio.sample_rate > 0) {
    gst_caps_set_simple(caps, "rate", G_TYPE_INT, stream.audio.sample_rate, nullptr);
  }
  if (stream.audio.channels > 0) {
    gst_caps_set_simple(caps, "channels", G_TYPE_INT, stream.audio.channels, nullptr);
  }
}

}  // namespace

GstCaps* gst_cuda_demux_container_caps() {
  GstCaps* all = gst_caps_new_empty();
  for (const Container& container : kContainers) {
    gst_caps_append(all, gst_caps_from_string(container.caps));
  }
  return all;
}

std::string gst_cuda_demux_container_names() {
  std::string names;
  for (const Container& container : kContainers) {
    if (!names.empty()) names += ',';
    names += container.name;
  }
  return names;
}

GstCaps* gst_cuda_demux_template_caps(MediaType type) {
  GstCaps* all = gst_caps_new_empty();
  for (const Codec& codec : kCodecs) {
    if (codec.type != type) continue;
    GstCaps* caps = gst_caps_from_string(codec.caps);
    // A mapping family is what one of several kinds of stream has; others count too.
    gst_structure_remove_field(gst_caps_get_structure(caps, 0), "channel-mapping-family");
    all = gst_caps_merge(all, caps);
  }
  return all;
}

GstCaps* gst_cuda_demux_stream_caps(const StreamInfo& stream) {
  const Codec* codec = stream.is_attached_picture ? nullptr : find_codec(stream);
  if (!codec) return nullptr;
  GstCaps* caps = gst_caps_from_string(codec->caps);
  if (stream.type == MediaType::video) set_video_fields(stream, caps);
  if (stream.type == MediaType::audio) set_audio_fields(stream, caps);
  if (codec->refine) codec->refine(stream, caps);
  return caps;
}

bool gst_cuda_demux_has_text_length(const StreamInfo& stream) {
  const Codec* codec = find_codec(stream);
  return codec && codec->has_text_length;
}
