// SPDX-License-Identifier: LGPL-2.1-or-later
// The one table of what the decode stage knows about each codec.
#pragma once

#include <cstdint>  // before libavcodec: its headers want UINT64_C

extern "C" {
#include <libavcodec/codec_id.h>
}

#include "base/media_types.h"
#include "cuda/driver.h"

namespace cudaframe::decode {

struct CodecInfo {
  Codec codec;
  cudaVideoCodec nvdec;
  AVCodecID libav;
  const char* name;       ///< For messages.
  const char* to_annexb;  ///< libavcodec's filter from length prefixes to start codes.
};

inline constexpr CodecInfo kCodecs[] = {
    {Codec::h264, cudaVideoCodec_H264, AV_CODEC_ID_H264, "H.264", "h264_mp4toannexb"},
};

/// Every Codec has its line.
constexpr const CodecInfo& codec_info(Codec codec) {
  for (const CodecInfo& info : kCodecs) {
    if (info.codec == codec) return info;
  }
  return kCodecs[0];
}

}  // namespace cudaframe::decode
