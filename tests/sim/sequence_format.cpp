// SPDX-License-Identifier: LGPL-2.1-or-later
#include "sequence_format.h"

extern "C" {
#include <libavutil/mathematics.h>
}

#include <algorithm>
#include <cstring>

namespace cudaframe::sim {
namespace {

constexpr int kMaxSurfaces = 32;
constexpr unsigned kUnspecifiedVideoFormat = 5;

unsigned rounded(int value, unsigned alignment) {
  return (static_cast<unsigned>(value) + alignment - 1) / alignment * alignment;
}

void describe_size(const CodecInfo& codec, const AVCodecContext& context, const Picture& picture,
                   CUVIDEOFORMAT* format) {
  format->coded_width = rounded(picture.width, codec.coded_alignment);
  format->coded_height = rounded(picture.height, codec.coded_alignment);
  auto& area = format->display_area;
  area.left = picture.crop_left;
  area.top = picture.crop_top;
  area.right = picture.width - picture.crop_right;
  area.bottom = picture.height - picture.crop_bottom;
  AVRational shape = context.sample_aspect_ratio;
  if (shape.num <= 0 || shape.den <= 0) shape = {1, 1};
  av_reduce(&format->display_aspect_ratio.x, &format->display_aspect_ratio.y,
            static_cast<int64_t>(area.right - area.left) * shape.num,
            static_cast<int64_t>(area.bottom - area.top) * shape.den, INT32_MAX);
}

}  // namespace

CUVIDEOFORMAT describe_sequence(const CodecInfo& codec, const SoftwareDecoder& decoder,
                                const Picture& picture) {
  const AVCodecContext& context = decoder.context();
  CUVIDEOFORMAT format;
  memset(&format, 0, sizeof format);
  format.codec = codec.codec;
  if (context.framerate.num > 0 && context.framerate.den > 0) {
    format.frame_rate.numerator = static_cast<unsigned>(context.framerate.num);
    format.frame_rate.denominator = static_cast<unsigned>(context.framerate.den);
  }
  format.progressive_sequence = !decoder.is_interlaced();
  if (const PixelInfo* pixels = find_pixels(picture.format)) {
    format.bit_depth_luma_minus8 = static_cast<unsigned char>(pixels->bits - 8);
    format.bit_depth_chroma_minus8 = format.bit_depth_luma_minus8;
    format.chroma_format = pixels->chroma;
  }
  // Measured: as many as the stream keeps (references and waiting ones share the buffer), and one.
  const int needed = std::max({context.refs, context.has_b_frames, codec.references}) + 1;
  format.min_num_decode_surfaces = static_cast<unsigned char>(std::min(needed, kMaxSurfaces));
  describe_size(codec, context, picture, &format);
  auto& signal = format.video_signal_description;
  signal.video_format = kUnspecifiedVideoFormat;
  signal.video_full_range_flag = context.color_range == AVCOL_RANGE_JPEG;
  signal.color_primaries = static_cast<unsigned char>(context.color_primaries);
  signal.transfer_characteristics = static_cast<unsigned char>(context.color_trc);
  signal.matrix_coefficients = static_cast<unsigned char>(context.colorspace);
  return format;
}

}  // namespace cudaframe::sim
