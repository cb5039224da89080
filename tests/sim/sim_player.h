// SPDX-License-Identifier: LGPL-2.1-or-later
// The plainest NVCUVID application, for tests that are linked to the simulator: parses, decodes,
// copies every shown picture to the host.
#pragma once

#include <cuda.h>

#include <ffnvcodec/dynlink_cuviddec.h>
#include <ffnvcodec/dynlink_nvcuvid.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "sim_test_device.h"

extern "C" {
tcuvidGetDecoderCaps cuvidGetDecoderCaps;
tcuvidCreateDecoder cuvidCreateDecoder;
tcuvidDestroyDecoder cuvidDestroyDecoder;
tcuvidDecodePicture cuvidDecodePicture;
tcuvidGetDecodeStatus cuvidGetDecodeStatus;
tcuvidReconfigureDecoder cuvidReconfigureDecoder;
CUresult cuvidMapVideoFrame64(CUvideodecoder, int, unsigned long long*, unsigned*,
                              CUVIDPROCPARAMS*);
CUresult cuvidUnmapVideoFrame64(CUvideodecoder, unsigned long long);
tcuvidCreateVideoParser cuvidCreateVideoParser;
tcuvidParseVideoData cuvidParseVideoData;
tcuvidDestroyVideoParser cuvidDestroyVideoParser;
}

/// What one surface holds, row by row without padding: luma, then interleaved chroma.
inline std::vector<uint8_t> read_surface(CUdeviceptr surface, unsigned pitch, unsigned row_bytes,
                                         unsigned height) {
  const unsigned chroma_rows = (height + 1) / 2;
  std::vector<uint8_t> bytes(size_t{row_bytes} * (height + chroma_rows));
  const auto copy_rows = [&](CUdeviceptr from, uint8_t* to, unsigned rows) {
    CUDA_MEMCPY2D copy = {};
    copy.srcMemoryType = CU_MEMORYTYPE_DEVICE;
    copy.srcDevice = from;
    copy.srcPitch = pitch;
    copy.dstMemoryType = CU_MEMORYTYPE_HOST;
    copy.dstHost = to;
    copy.dstPitch = copy.WidthInBytes = row_bytes;
    copy.Height = rows;
    EXPECT_OK(cuMemcpy2D(&copy));
  };
  copy_rows(surface, bytes.data(), height);
  copy_rows(surface + size_t{pitch} * ((height + 1) / 2 * 2), &bytes[size_t{row_bytes} * height],
            chroma_rows);
  return bytes;
}

class SimPlayer {
 public:
  struct Shown {
    int index;
    int64_t timestamp;
    unsigned width, height;
    std::vector<uint8_t> pixels;
  };

  explicit SimPlayer(cudaVideoCodec codec = cudaVideoCodec_H264, unsigned display_delay = 0) {
    CUVIDPARSERPARAMS params = {};
    params.CodecType = codec;
    params.ulMaxNumDecodeSurfaces = 1;
    params.ulMaxDisplayDelay = display_delay;
    params.ulErrorThreshold = 100;
    params.pUserData = this;
    params.pfnSequenceCallback = on_sequence;
    params.pfnDecodePicture = on_decode;
    params.pfnDisplayPicture = on_display;
    EXPECT_OK(cuvidCreateVideoParser(&parser_, &params));
  }

  ~SimPlayer() {
    EXPECT_OK(cuvidDestroyVideoParser(parser_));
    if (decoder_) {
      EXPECT_OK(cuvidDestroyDecoder(decoder_));
    }
  }
  SimPlayer(const SimPlayer&) = delete;
  SimPlayer& operator=(const SimPlayer&) = delete;

  CUresult feed(std::span<const uint8_t> data, int64_t timestamp,
                unsigned long flags = CUVID_PKT_TIMESTAMP | CUVID_PKT_ENDOFPICTURE) {
    CUVIDSOURCEDATAPACKET packet = {flags, data.size(), data.data(), timestamp};
    return cuvidParseVideoData(parser_, &packet);
  }
  CUresult finish(unsigned long more_flags = 0) {
    return feed({}, 0, CUVID_PKT_ENDOFSTREAM | more_flags);
  }

  CUvideodecoder decoder() const { return decoder_; }

  // Set by the test.
  unsigned extra_surfaces = 0;
  unsigned output_surfaces = 1;
  bool keeps_decoder = false;  ///< over further sequences, which must be like the first
  CUstream stream = nullptr;
  std::function<int(const CUVIDEOFORMAT&)> answer_sequence;
  std::function<int(const CUVIDPICPARAMS&)> answer_decode;
  std::function<int(const CUVIDPARSERDISPINFO&)> answer_display;  ///< in place of copying

  std::vector<CUVIDEOFORMAT> sequences;
  std::vector<int> decoded;  ///< picture indices
  std::vector<Shown> shown;
  std::vector<char> order;  ///< 'S', 'D', 'P' as the callbacks came, 'E' for the end
  CUresult create_result = CUDA_SUCCESS;

 private:
  static int on_sequence(void* user, CUVIDEOFORMAT* format) {
    return static_cast<SimPlayer*>(user)->sequence(*format);
  }
  static int on_decode(void* user, CUVIDPICPARAMS* params) {
    return static_cast<SimPlayer*>(user)->decode(params);
  }
  static int on_display(void* user, CUVIDPARSERDISPINFO* info) {
    return static_cast<SimPlayer*>(user)->display(info);
  }

  int sequence(const CUVIDEOFORMAT& format) {
    sequences.push_back(format);
    order.push_back('S');
    if (answer_sequence) {
      const int answer = answer_sequence(format);
      if (answer == 0) return 0;
    }
    if (decoder_ && keeps_decoder) {
      return static_cast<int>(format.min_num_decode_surfaces + extra_surfaces);
    }
    if (decoder_) {
      EXPECT_OK(cuvidDestroyDecoder(decoder_));
    }
    decoder_ = nullptr;
    const auto& area = format.display_area;
    CUVIDDECODECREATEINFO info = {};
    info.ulWidth = format.coded_width;
    info.ulHeight = format.coded_height;
    info.ulNumDecodeSurfaces = format.min_num_decode_surfaces + extra_surfaces;
    info.CodecType = format.codec;
    info.ChromaFormat = format.chroma_format;
    info.bitDepthMinus8 = format.bit_depth_luma_minus8;
    info.display_area = {static_cast<short>(area.left), static_cast<short>(area.top),
                         static_cast<short>(area.right), static_cast<short>(area.bottom)};
    info.OutputFormat =
        format.bit_depth_luma_minus8 ? cudaVideoSurfaceFormat_P016 : cudaVideoSurfaceFormat_NV12;
    info.ulTargetWidth = static_cast<unsigned long>(area.right - area.left);
    info.ulTargetHeight = static_cast<unsigned long>(area.bottom - area.top);
    info.ulNumOutputSurfaces = output_surfaces;
    create_result = cuvidCreateDecoder(&decoder_, &info);
    if (create_result != CUDA_SUCCESS) return 0;
    width_ = static_cast<unsigned>(info.ulTargetWidth);
    height_ = static_cast<unsigned>(info.ulTargetHeight);
    sample_bytes_ = format.bit_depth_luma_minus8 ? 2 : 1;
    return static_cast<int>(info.ulNumDecodeSurfaces);
  }

  int decode(CUVIDPICPARAMS* params) {
    decoded.push_back(params->CurrPicIdx);
    order.push_back('D');
    if (answer_decode) return answer_decode(*params);
    return cuvidDecodePicture(decoder_, params) == CUDA_SUCCESS;
  }

  int display(CUVIDPARSERDISPINFO* info) {
    order.push_back(info ? 'P' : 'E');
    if (!info) return 1;
    if (answer_display) return answer_display(*info);
    CUVIDPROCPARAMS params = {};
    params.progressive_frame = info->progressive_frame;
    params.output_stream = stream;
    unsigned long long surface = 0;
    unsigned pitch = 0;
    EXPECT_OK(cuvidMapVideoFrame64(decoder_, info->picture_index, &surface, &pitch, &params));
    EXPECT_GT(pitch, width_ * sample_bytes_);
    shown.push_back({info->picture_index, info->timestamp, width_, height_,
                     read_surface(surface, pitch, width_ * sample_bytes_, height_)});
    EXPECT_OK(cuvidUnmapVideoFrame64(decoder_, surface));
    return 1;
  }

  CUvideoparser parser_ = nullptr;
  CUvideodecoder decoder_ = nullptr;
  unsigned width_ = 0, height_ = 0, sample_bytes_ = 1;
};
