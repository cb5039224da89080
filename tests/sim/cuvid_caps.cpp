// SPDX-License-Identifier: LGPL-2.1-or-later
#include "cuvid_caps.h"

#include <algorithm>
#include <iterator>

#include "entry_points.h"

namespace cudaframe::sim {
namespace {

constexpr CodecInfo kCodecs[] = {
    {cudaVideoCodec_MPEG1, AV_CODEC_ID_MPEG1VIDEO, 16, false, 2},
    {cudaVideoCodec_MPEG2, AV_CODEC_ID_MPEG2VIDEO, 16, false, 2},
    {cudaVideoCodec_MPEG4, AV_CODEC_ID_MPEG4, 16, false, 2},
    {cudaVideoCodec_VC1, AV_CODEC_ID_VC1, 16, false, 2},
    {cudaVideoCodec_H264, AV_CODEC_ID_H264, 1, true, 1},
    {cudaVideoCodec_JPEG, AV_CODEC_ID_MJPEG, 8, false, 1},
    {cudaVideoCodec_HEVC, AV_CODEC_ID_HEVC, 1, true, 6},
    {cudaVideoCodec_VP8, AV_CODEC_ID_VP8, 16, false, 3},
    {cudaVideoCodec_VP9, AV_CODEC_ID_VP9, 8, false, 8},
};

constexpr auto k400 = cudaVideoChromaFormat_Monochrome;
constexpr auto k420 = cudaVideoChromaFormat_420;
constexpr auto k422 = cudaVideoChromaFormat_422;
constexpr auto k444 = cudaVideoChromaFormat_444;

constexpr PixelInfo kPixels[] = {
    {AV_PIX_FMT_GRAY8, k400, 8, 0, 0},      {AV_PIX_FMT_YUV420P, k420, 8, 1, 1},
    {AV_PIX_FMT_YUVJ420P, k420, 8, 1, 1},   {AV_PIX_FMT_YUV422P, k422, 8, 1, 0},
    {AV_PIX_FMT_YUVJ422P, k422, 8, 1, 0},   {AV_PIX_FMT_YUV444P, k444, 8, 0, 0},
    {AV_PIX_FMT_YUVJ444P, k444, 8, 0, 0},   {AV_PIX_FMT_YUV420P10, k420, 10, 1, 1},
    {AV_PIX_FMT_YUV420P12, k420, 12, 1, 1}, {AV_PIX_FMT_YUV422P10, k422, 10, 1, 0},
    {AV_PIX_FMT_YUV444P10, k444, 10, 0, 0}, {AV_PIX_FMT_YUV444P12, k444, 12, 0, 0},
};

constexpr unsigned kNv12 = 1u << cudaVideoSurfaceFormat_NV12;
constexpr unsigned kP016 = 1u << cudaVideoSurfaceFormat_P016;
constexpr unsigned k444Out = 1u << cudaVideoSurfaceFormat_YUV444;
constexpr unsigned k444Out16 = 1u << cudaVideoSurfaceFormat_YUV444_16Bit;

struct Capability {
  cudaVideoCodec codec;
  cudaVideoChromaFormat chroma;
  unsigned min_bits, max_bits;
  DecoderLimits limits;
};

// Measured on an H200; a size in macroblocks where no lower limit was reported is the whole area.
constexpr Capability kH200[] = {
    {cudaVideoCodec_MPEG1, k420, 8, 8, {48, 16, 4080, 4080, 65280, kNv12, 7}},
    {cudaVideoCodec_MPEG2, k420, 8, 8, {48, 16, 4080, 4080, 65280, kNv12, 7}},
    {cudaVideoCodec_MPEG4, k420, 8, 8, {48, 16, 2048, 2048, 8192, kNv12, 7}},
    {cudaVideoCodec_VC1, k420, 8, 8, {48, 16, 2048, 2048, 8192, kNv12, 7}},
    {cudaVideoCodec_H264, k420, 8, 8, {48, 16, 4096, 4096, 65536, kNv12, 7}},
    {cudaVideoCodec_HEVC, k420, 8, 8, {144, 144, 8192, 8192, 262144, kNv12, 7}},
    {cudaVideoCodec_HEVC, k420, 9, 12, {144, 144, 8192, 8192, 262144, kNv12 | kP016, 7}},
    {cudaVideoCodec_HEVC, k444, 8, 8, {144, 144, 8192, 8192, 262144, k444Out, 7}},
    {cudaVideoCodec_HEVC, k444, 9, 12, {144, 144, 8192, 8192, 262144, k444Out | k444Out16, 7}},
    {cudaVideoCodec_VP8, k420, 8, 8, {48, 16, 4096, 4096, 65536, kNv12, 7}},
    {cudaVideoCodec_VP9, k420, 8, 8, {128, 128, 8192, 8192, 262144, kNv12, 7}},
    {cudaVideoCodec_VP9, k420, 9, 12, {128, 128, 8192, 8192, 262144, kNv12 | kP016, 7}},
    {cudaVideoCodec_JPEG, k400, 8, 8, {64, 64, 32768, 16384, 2097152, kNv12, 1}},
    {cudaVideoCodec_JPEG, k420, 8, 8, {64, 64, 32768, 16384, 2097152, kNv12, 1}},
    {cudaVideoCodec_JPEG, k422, 8, 8, {64, 64, 32768, 16384, 2097152, kNv12, 1}},
    {cudaVideoCodec_JPEG, k444, 8, 8, {64, 64, 32768, 16384, 2097152, kNv12, 1}},
};

template <typename Table, typename Predicate>
auto find_in(const Table& table, Predicate predicate) -> decltype(std::begin(table)) {
  const auto found = std::find_if(std::begin(table), std::end(table), predicate);
  return found == std::end(table) ? nullptr : found;
}

}  // namespace

const CodecInfo* find_codec(cudaVideoCodec codec) {
  return find_in(kCodecs, [codec](const CodecInfo& c) { return c.codec == codec; });
}

const PixelInfo* find_pixels(AVPixelFormat format) {
  return find_in(kPixels, [format](const PixelInfo& p) { return p.format == format; });
}

const DecoderLimits* find_limits(cudaVideoCodec codec, cudaVideoChromaFormat chroma,
                                 unsigned bits) {
  const Capability* found = find_in(kH200, [=](const Capability& c) {
    return c.codec == codec && c.chroma == chroma && bits >= c.min_bits && bits <= c.max_bits &&
           (bits & 1) == 0;
  });
  return found ? &found->limits : nullptr;
}

}  // namespace cudaframe::sim

CUDAFRAME_SIM_ENTRY_POINT CUresult cuvidGetDecoderCaps(CUVIDDECODECAPS* caps) {
  CUDAFRAME_SIM_ENTER(true);
  if (!caps) return CUDA_ERROR_INVALID_VALUE;
  const CUVIDDECODECAPS asked = *caps;
  *caps = {.eCodecType = asked.eCodecType,
           .eChromaFormat = asked.eChromaFormat,
           .nBitDepthMinus8 = asked.nBitDepthMinus8};
  const auto* limits =
      cudaframe::sim::find_limits(asked.eCodecType, asked.eChromaFormat, asked.nBitDepthMinus8 + 8);
  if (!limits) return CUDA_SUCCESS;
  caps->bIsSupported = 1;
  caps->nNumNVDECs = static_cast<unsigned char>(limits->engines);
  caps->nOutputFormatMask = static_cast<unsigned short>(limits->output_formats);
  caps->nMaxWidth = limits->max_width;
  caps->nMaxHeight = limits->max_height;
  caps->nMaxMBCount = limits->max_macroblocks;
  caps->nMinWidth = static_cast<unsigned short>(limits->min_width);
  caps->nMinHeight = static_cast<unsigned short>(limits->min_height);
  return CUDA_SUCCESS;
}
