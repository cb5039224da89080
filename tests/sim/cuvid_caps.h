// SPDX-License-Identifier: LGPL-2.1-or-later
// What the simulated NVDEC decodes, and how its names map to libavcodec's.
#pragma once

#include <cuda.h>

#include <ffnvcodec/dynlink_cuviddec.h>
#include <ffnvcodec/dynlink_nvcuvid.h>

extern "C" {
#include <libavcodec/codec_id.h>
#include <libavutil/pixfmt.h>
}

namespace cudaframe::sim {

struct CodecInfo {
  cudaVideoCodec codec;
  AVCodecID av_codec;
  unsigned coded_alignment;  ///< coded sizes that libavcodec reports unrounded are rounded up to it
  bool is_one_picture;       ///< a packet starts one picture; further ones only fill gaps
  int references;            ///< that a stream may keep; more if libavcodec says so
};

/// Null for a codec that can't be simulated.
const CodecInfo* find_codec(cudaVideoCodec codec);

struct PixelInfo {
  AVPixelFormat format;
  cudaVideoChromaFormat chroma;
  unsigned bits;
  unsigned chroma_shift_x, chroma_shift_y;
};

const PixelInfo* find_pixels(AVPixelFormat format);

struct DecoderLimits {
  unsigned min_width, min_height, max_width, max_height, max_macroblocks;
  unsigned output_formats;  ///< bit mask of cudaVideoSurfaceFormat
  unsigned engines;
};

/// Null for what the device doesn't decode.
const DecoderLimits* find_limits(cudaVideoCodec codec, cudaVideoChromaFormat chroma, unsigned bits);

}  // namespace cudaframe::sim
