// SPDX-License-Identifier: LGPL-2.1-or-later
// What a container says about one of its streams, as plain values.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/media_types.h"

namespace cudaframe::demux {

enum class MediaType { video, audio, subtitle, other };

enum class FieldOrder { unknown, progressive, top_first, bottom_first };

/// ITU-T H.273 code points; 2 is "unspecified" for the first three.
struct ColorTags {
  int primaries = 2;
  int transfer = 2;
  int matrix = 2;
  std::optional<ColorRange> range;
  std::optional<int> chroma_location;  ///< Chroma420SampleLocType, 0 to 5.
  bool operator==(const ColorTags&) const = default;
};

struct VideoInfo {
  int width = 0;
  int height = 0;
  Rational frame_rate;          ///< Mean frames a second; num 0 where it isn't known.
  Rational pixel_aspect_ratio;  ///< num 0 where it isn't known.
  FieldOrder field_order = FieldOrder::unknown;
  ColorTags color;
};

struct AudioInfo {
  int sample_rate = 0;
  int channels = 0;
  /// Speaker positions, FFmpeg's AV_CH_* bits (the order of WAVEFORMATEXTENSIBLE); 0 unknown.
  std::uint64_t channel_mask = 0;
  int block_align = 0;
  int bits_per_coded_sample = 0;
};

struct StreamInfo {
  int index = 0;  ///< In the container, over all media types.
  MediaType type = MediaType::other;
  std::string codec;            ///< libavcodec's name, such as "h264".
  std::uint32_t codec_tag = 0;  ///< The container's four characters, the first one lowest; or 0.
  int profile = -1;             ///< Codec-specific, below 0 where it isn't known.
  std::vector<std::uint8_t> extradata;
  Rational time_base;
  std::int64_t bit_rate = 0;  ///< Bits a second, 0 where it isn't known.
  bool is_default = false;
  bool is_attached_picture = false;  ///< A cover, not moving pictures.
  std::string language;              ///< As the container has it, mostly ISO 639-2; may be empty.
  std::string title;
  VideoInfo video;
  AudioInfo audio;
};

}  // namespace cudaframe::demux
