// SPDX-License-Identifier: LGPL-2.1-or-later
// The simulated decoder's surfaces: maps and their streams, limits, creation, capabilities.
#include <gtest/gtest.h>

#include <cstring>
#include <optional>

#include "decode_clip.h"
#include "sim_player.h"

using cudaframe::test::Clip;
using cudaframe::test::decode_reference;
using cudaframe::test::make_clip;

namespace {

using SimDecoder = SimDeviceTest;

class SimSurfaces : public SimDeviceTest {
 protected:
  /// Decodes a clip without showing it and leaves the decoder as it is.
  void SetUp() override {
    SimDeviceTest::SetUp();
    source_ = make_clip({.frames = 25, .gop = 12, .repeat_headers = true});
    player_.emplace();
    player_->output_surfaces = 2;
    player_->answer_display = [](const CUVIDPARSERDISPINFO&) { return 1; };
    feed_all(source_);
    ASSERT_OK(player_->finish());
    ASSERT_OK(cuStreamCreate(&stream_, CU_STREAM_NON_BLOCKING));
    ASSERT_OK(cuStreamCreate(&other_, CU_STREAM_NON_BLOCKING));
    ASSERT_OK(cuMemHostAlloc(&pinned_, 16, 0));
  }
  void TearDown() override {
    player_.reset();
    EXPECT_OK(cuStreamDestroy(stream_));
    EXPECT_OK(cuStreamDestroy(other_));
    EXPECT_OK(cuMemFreeHost(pinned_));
    SimDeviceTest::TearDown();
  }

  void feed_all(const Clip& clip) {
    for (size_t i = 0; i < clip.packets.size(); ++i) {
      ASSERT_OK(player_->feed(clip.packets[i], clip.pts[i]));
    }
  }
  CUresult map(int index, CUstream stream, unsigned long long* surface) {
    CUVIDPROCPARAMS params = {};
    params.output_stream = stream;
    unsigned pitch = 0;
    return cuvidMapVideoFrame64(player_->decoder(), index, surface, &pitch, &params);
  }
  CUresult unmap(unsigned long long surface) {
    return cuvidUnmapVideoFrame64(player_->decoder(), surface);
  }
  int pinned_byte() const { return *static_cast<volatile unsigned char*>(pinned_); }

  Clip source_;
  std::optional<SimPlayer> player_;
  CUstream stream_ = nullptr, other_ = nullptr;
  void* pinned_ = nullptr;
};

TEST_F(SimSurfaces, OnlySoManyAreMappedAtOnce) {
  unsigned long long first = 0, second = 0, third = 0;
  ASSERT_OK(map(0, stream_, &first));
  EXPECT_EQ(map(0, stream_, &third), CUDA_ERROR_ALREADY_MAPPED);
  ASSERT_OK(map(1, stream_, &second));
  EXPECT_NE(first, second);
  EXPECT_EQ(map(2, stream_, &third), CUDA_ERROR_MAP_FAILED);
  EXPECT_EQ(live().mapped_surfaces, 2u);
  ASSERT_OK(unmap(first));
  EXPECT_EQ(unmap(first), CUDA_ERROR_NOT_MAPPED);
  ASSERT_OK(map(2, stream_, &third));
  EXPECT_EQ(third, first);
  EXPECT_EQ(map(-1, stream_, &first), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(map(200, stream_, &first), CUDA_ERROR_INVALID_VALUE);
  ASSERT_OK(unmap(second));
  ASSERT_OK(unmap(third));
}

TEST_F(SimSurfaces, WorkOnTheMapsStreamSurvivesAnImmediateUnmap) {
  unsigned long long surface = 0;
  ASSERT_EQ(cudaframe_sim_block_stream(stream_), 0);
  ASSERT_OK(map(0, stream_, &surface));
  ASSERT_OK(cuMemcpyDtoHAsync(pinned_, surface, 16, stream_));
  ASSERT_OK(unmap(surface));
  EXPECT_EQ(pinned_byte(), 0xdd);
  ASSERT_EQ(cudaframe_sim_unblock_stream(stream_), 0);
  unsigned long long again = 0;
  ASSERT_OK(map(0, stream_, &again));
  unsigned char expected[16];
  ASSERT_OK(cuMemcpyDtoH(expected, again, 16));
  EXPECT_EQ(memcmp(pinned_, expected, 16), 0);
  EXPECT_NE(pinned_byte(), 0xdd);
  ASSERT_OK(unmap(again));
}

// As measured on an H200: such reads come too late.
TEST_F(SimSurfaces, AReadOnAnotherStreamFindsPoisonAfterUnmap) {
  unsigned long long surface = 0;
  ASSERT_OK(map(0, stream_, &surface));
  ASSERT_EQ(cudaframe_sim_block_stream(other_), 0);
  ASSERT_OK(cuMemcpyDtoHAsync(pinned_, surface, 16, other_));
  ASSERT_OK(unmap(surface));
  memset(pinned_, 0, 16);
  ASSERT_EQ(cudaframe_sim_unblock_stream(other_), 0);
  EXPECT_EQ(pinned_byte(), 0xdd);
}

TEST_F(SimSurfaces, AMapKeepsThePictureOfTheMoment) {
  const auto reference = decode_reference(source_);
  unsigned long long surface = 0;
  ASSERT_EQ(cudaframe_sim_block_stream(stream_), 0);
  const int index = player_->decoded.back();
  ASSERT_OK(map(index, stream_, &surface));
  ASSERT_OK(cuMemcpyDtoHAsync(pinned_, surface, 16, stream_));
  // Another clip overwrites that very index before the copy runs.
  player_->keeps_decoder = true;
  player_->answer_decode = [&](const CUVIDPICPARAMS& params) {
    CUVIDPICPARAMS copy = params;
    copy.CurrPicIdx = index;
    return static_cast<int>(cuvidDecodePicture(player_->decoder(), &copy) == CUDA_SUCCESS);
  };
  feed_all(make_clip({.frames = 5, .repeat_headers = true, .seed = 9}));
  ASSERT_OK(unmap(surface));
  ASSERT_EQ(cudaframe_sim_unblock_stream(stream_), 0);
  EXPECT_EQ(memcmp(pinned_, reference.back().nv12.data(), 16), 0);
}

TEST_F(SimSurfaces, StatusAndStaleHandles) {
  CUVIDGETDECODESTATUS status = {};
  ASSERT_OK(cuvidGetDecodeStatus(player_->decoder(), 0, &status));
  EXPECT_EQ(status.decodeStatus, cuvidDecodeStatus_Success);
  EXPECT_EQ(cuvidGetDecodeStatus(player_->decoder(), 99, &status), CUDA_ERROR_INVALID_VALUE);
  CUVIDPICPARAMS params = {};
  params.CurrPicIdx = 77;
  EXPECT_EQ(cuvidDecodePicture(player_->decoder(), &params), CUDA_ERROR_INVALID_VALUE);
  params.CurrPicIdx = 0;
  const unsigned char foreign[16] = {};
  params.pBitstreamData = foreign;
  params.nBitstreamDataLen = sizeof foreign;
  EXPECT_EQ(cuvidDecodePicture(player_->decoder(), &params), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuvidDestroyDecoder(reinterpret_cast<CUvideodecoder>(0x77)), CUDA_ERROR_INVALID_HANDLE);
}

CUVIDDECODECREATEINFO plain_decoder() {
  CUVIDDECODECREATEINFO info = {};
  info.ulWidth = info.ulTargetWidth = 320;
  info.ulHeight = info.ulTargetHeight = 240;
  info.ulNumDecodeSurfaces = 8;
  info.ulNumOutputSurfaces = 2;
  info.CodecType = cudaVideoCodec_H264;
  info.ChromaFormat = cudaVideoChromaFormat_420;
  return info;
}

TEST_F(SimDecoder, DecoderCreationIsChecked) {
  struct Case {
    const char* what;
    void (*change)(CUVIDDECODECREATEINFO&);
    CUresult result;
  };
  const Case cases[] = {
      {"plain", [](auto&) {}, CUDA_SUCCESS},
      {"AV1", [](auto& i) { i.CodecType = cudaVideoCodec_AV1; }, CUDA_ERROR_NOT_SUPPORTED},
      {"no codec", [](auto& i) { i.CodecType = static_cast<cudaVideoCodec>(99); },
       CUDA_ERROR_INVALID_VALUE},
      {"10 bits", [](auto& i) { i.bitDepthMinus8 = 2; }, CUDA_ERROR_NOT_SUPPORTED},
      {"4:2:2", [](auto& i) { i.ChromaFormat = cudaVideoChromaFormat_422; },
       CUDA_ERROR_NOT_SUPPORTED},
      {"P016", [](auto& i) { i.OutputFormat = cudaVideoSurfaceFormat_P016; },
       CUDA_ERROR_INVALID_VALUE},
      {"no surfaces", [](auto& i) { i.ulNumDecodeSurfaces = 0; }, CUDA_ERROR_INVALID_VALUE},
      {"32 surfaces", [](auto& i) { i.ulNumDecodeSurfaces = 32; }, CUDA_SUCCESS},
      {"33 surfaces", [](auto& i) { i.ulNumDecodeSurfaces = 33; }, CUDA_ERROR_INVALID_VALUE},
      {"64 outputs", [](auto& i) { i.ulNumOutputSurfaces = 64; }, CUDA_SUCCESS},
      {"65 outputs", [](auto& i) { i.ulNumOutputSurfaces = 65; }, CUDA_ERROR_INVALID_VALUE},
      {"too wide", [](auto& i) { i.ulWidth = i.ulTargetWidth = 4112; }, CUDA_ERROR_INVALID_VALUE},
      {"no target", [](auto& i) { i.ulTargetWidth = 0; }, CUDA_ERROR_OUT_OF_MEMORY},
      {"area outside",
       [](auto& i) {
         i.display_area = {0, 0, 400, 240};
       },
       CUDA_ERROR_INVALID_VALUE},
  };
  size_t before = 0, after = 0, total = 0;
  ASSERT_OK(cuMemGetInfo(&before, &total));
  for (const Case& tried : cases) {
    CUVIDDECODECREATEINFO info = plain_decoder();
    tried.change(info);
    CUvideodecoder decoder = nullptr;
    EXPECT_EQ(cuvidCreateDecoder(&decoder, &info), tried.result) << tried.what;
    if (decoder) {
      EXPECT_EQ(live().decoders, 1u);
      ASSERT_OK(cuMemGetInfo(&after, &total));
      EXPECT_LT(after, before);
      EXPECT_OK(cuvidDestroyDecoder(decoder));
    }
  }
  ASSERT_OK(cuMemGetInfo(&after, &total));
  EXPECT_EQ(after, before);
}

TEST_F(SimDecoder, ReconfiguresWithinItsMaximum) {
  CUVIDDECODECREATEINFO info = plain_decoder();
  info.ulMaxWidth = 640;
  info.ulMaxHeight = 480;
  CUvideodecoder decoder = nullptr;
  ASSERT_OK(cuvidCreateDecoder(&decoder, &info));
  CUVIDRECONFIGUREDECODERINFO change = {};
  change.ulWidth = change.ulTargetWidth = 640;
  change.ulHeight = change.ulTargetHeight = 480;
  change.ulNumDecodeSurfaces = 4;
  EXPECT_OK(cuvidReconfigureDecoder(decoder, &change));
  CUVIDPROCPARAMS params = {};
  unsigned long long surface = 0;
  unsigned pitch = 0;
  EXPECT_EQ(cuvidMapVideoFrame64(decoder, 4, &surface, &pitch, &params), CUDA_ERROR_INVALID_VALUE);
  ASSERT_OK(cuvidMapVideoFrame64(decoder, 3, &surface, &pitch, &params));
  EXPECT_EQ(pitch, 768u);
  ASSERT_OK(cuvidUnmapVideoFrame64(decoder, surface));
  change.ulWidth = 656;
  EXPECT_EQ(cuvidReconfigureDecoder(decoder, &change), CUDA_ERROR_INVALID_VALUE);
  ASSERT_OK(cuvidDestroyDecoder(decoder));
}

TEST_F(SimDecoder, CapsAreTheH200s) {
  CUVIDDECODECAPS caps = {};
  caps.eCodecType = cudaVideoCodec_H264;
  caps.eChromaFormat = cudaVideoChromaFormat_420;
  ASSERT_OK(cuvidGetDecoderCaps(&caps));
  EXPECT_EQ(caps.bIsSupported, 1);
  EXPECT_EQ(caps.nNumNVDECs, 7);
  EXPECT_EQ(caps.nMaxWidth, 4096u);
  EXPECT_EQ(caps.nMaxMBCount, 65536u);
  EXPECT_EQ(caps.nMinWidth, 48);
  EXPECT_EQ(caps.nOutputFormatMask, 1);
  caps.nBitDepthMinus8 = 2;
  ASSERT_OK(cuvidGetDecoderCaps(&caps));
  EXPECT_EQ(caps.bIsSupported, 0);
  EXPECT_EQ(caps.nMaxWidth, 0u);
  caps.eCodecType = cudaVideoCodec_HEVC;
  ASSERT_OK(cuvidGetDecoderCaps(&caps));
  EXPECT_EQ(caps.nOutputFormatMask, 3);
  ASSERT_OK(cuCtxPopCurrent(nullptr));
  EXPECT_EQ(cuvidGetDecoderCaps(&caps), CUDA_ERROR_INVALID_CONTEXT);
  ASSERT_OK(cuCtxPushCurrent(context_));
}

TEST_F(SimDecoder, FaultsAndCountsReachThisLibrary) {
  cudaframe_sim_reset_counts();
  cudaframe_sim_fail_call("cuvidCreateDecoder", 1, 0);
  CUVIDDECODECREATEINFO info = plain_decoder();
  CUvideodecoder decoder = nullptr;
  EXPECT_EQ(cuvidCreateDecoder(&decoder, &info), CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_OK(cuvidCreateDecoder(&decoder, &info));
  unsigned long long surface = 0;
  unsigned pitch = 0;
  CUVIDPROCPARAMS params = {};
  EXPECT_OK(cuvidMapVideoFrame64(decoder, 0, &surface, &pitch, &params));
  EXPECT_EQ(cudaframe_sim_call_count("cuvidCreateDecoder"), 2u);
  EXPECT_EQ(cudaframe_sim_call_count("cuvidMapVideoFrame"), 1u);
  EXPECT_OK(cuvidDestroyDecoder(decoder));  // mapped surfaces go with it
}

}  // namespace
