// SPDX-License-Identifier: LGPL-2.1-or-later
// The simulated libnvcuvid.so.1 against libavcodec: every frame, in order, and the rules of
// surfaces, maps and callbacks.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <vector>

#include "decode_clip.h"
#include "sim_player.h"

using cudaframe::test::ByteVector;
using cudaframe::test::Clip;
using cudaframe::test::ClipSpec;
using cudaframe::test::crop_clip;
using cudaframe::test::decode_reference;
using cudaframe::test::make_clip;
using cudaframe::test::ReferenceFrame;

namespace {

constexpr int64_t kTick = 333;  // of a frame, in these tests

class SimCuvid : public SimDeviceTest {
 protected:
  static Clip clip(int b_frames = 3, int width = 320, int height = 240) {
    return make_clip({.width = width,
                      .height = height,
                      .frames = 25,
                      .gop = 12,
                      .b_frames = b_frames,
                      .repeat_headers = true});
  }

  static void feed_all(SimPlayer& player, const Clip& clip, int64_t offset = 0) {
    for (size_t i = 0; i < clip.packets.size(); ++i) {
      ASSERT_OK(player.feed(clip.packets[i], (clip.pts[i] + offset) * kTick));
    }
  }

  static void expect_equal(const SimPlayer& player, const std::vector<ReferenceFrame>& reference,
                           size_t first = 0, int64_t offset = 0) {
    ASSERT_EQ(player.shown.size() - first, reference.size());
    for (size_t i = 0; i < reference.size(); ++i) {
      const auto& shown = player.shown[first + i];
      EXPECT_EQ(shown.width, static_cast<unsigned>(reference[i].width));
      EXPECT_EQ(shown.height, static_cast<unsigned>(reference[i].height));
      EXPECT_EQ(shown.timestamp, (reference[i].pts + offset) * kTick) << "frame " << i;
      EXPECT_TRUE(shown.pixels == reference[i].nv12) << "frame " << i;
    }
  }
};

TEST_F(SimCuvid, EqualsTheSoftwareDecoder) {
  const Clip source = clip();
  SimPlayer player;
  feed_all(player, source);
  ASSERT_OK(player.finish());
  expect_equal(player, decode_reference(source));
  ASSERT_EQ(player.sequences.size(), 1u);
  const CUVIDEOFORMAT& format = player.sequences[0];
  EXPECT_EQ(format.coded_width, 320u);
  EXPECT_EQ(format.coded_height, 240u);
  EXPECT_EQ(format.display_area.right, 320);
  EXPECT_EQ(format.display_area.bottom, 240);
  EXPECT_EQ(format.chroma_format, cudaVideoChromaFormat_420);
  EXPECT_EQ(format.bit_depth_luma_minus8, 0);
  EXPECT_EQ(format.progressive_sequence, 1);
  EXPECT_GE(format.min_num_decode_surfaces, 4);  // three references and the picture itself
  EXPECT_EQ(format.display_aspect_ratio.x, 4);
  EXPECT_EQ(format.display_aspect_ratio.y, 3);
  EXPECT_EQ(player.order[0], 'S');
  EXPECT_EQ(player.order[1], 'D');
}

TEST_F(SimCuvid, CropsOnEverySide) {
  const Clip source = crop_clip(clip(2, 480, 272), 64, 2, 16, 6);
  SimPlayer player;
  feed_all(player, source);
  ASSERT_OK(player.finish());
  expect_equal(player, decode_reference(source));
  ASSERT_EQ(player.sequences.size(), 1u);
  const auto& format = player.sequences[0];
  EXPECT_EQ(format.coded_width, 480u);
  EXPECT_EQ(format.coded_height, 272u);
  EXPECT_EQ(format.display_area.left, 64);
  EXPECT_EQ(format.display_area.top, 16);
  EXPECT_EQ(format.display_area.right, 478);
  EXPECT_EQ(format.display_area.bottom, 266);
  EXPECT_EQ(player.shown[0].width, 414u);
}

TEST_F(SimCuvid, SizesThatAreNoMultipleOf16) {
  const Clip source = clip(3, 318, 238);
  SimPlayer player;
  feed_all(player, source);
  ASSERT_OK(player.finish());
  expect_equal(player, decode_reference(source));
  EXPECT_EQ(player.sequences.at(0).coded_width, 320u);
  EXPECT_EQ(player.sequences.at(0).display_area.bottom, 238);
}

TEST_F(SimCuvid, ArbitraryPiecesGiveTheSameFrames) {
  const Clip source = clip();
  ByteVector all;
  for (const ByteVector& packet : source.packets)
    all.insert(all.end(), packet.begin(), packet.end());
  SimPlayer player;
  for (size_t at = 0; at < all.size(); at += 777) {
    const size_t size = std::min<size_t>(777, all.size() - at);
    ASSERT_OK(player.feed({&all[at], size}, 0, 0));
  }
  ASSERT_OK(player.finish());
  const auto reference = decode_reference(source);
  ASSERT_EQ(player.shown.size(), reference.size());
  for (size_t i = 0; i < reference.size(); ++i) {
    EXPECT_TRUE(player.shown[i].pixels == reference[i].nv12) << "frame " << i;
  }
}

TEST_F(SimCuvid, MissingTimestampsFollowTheFrameRate) {
  const Clip source = clip(0);
  SimPlayer player;
  for (size_t i = 0; i < source.packets.size(); ++i) {
    const bool has_time = i % 5 == 0;
    ASSERT_OK(player.feed(source.packets[i], static_cast<int64_t>(i) * 1'000'000,
                          CUVID_PKT_ENDOFPICTURE | (has_time ? CUVID_PKT_TIMESTAMP : 0)));
  }
  ASSERT_OK(player.finish());
  ASSERT_EQ(player.shown.size(), source.packets.size());
  const auto& rate = player.sequences.at(0).frame_rate;
  ASSERT_GT(rate.numerator, 0u);
  const int64_t step = 10'000'000LL * rate.denominator / rate.numerator;
  for (int64_t i = 0; i < static_cast<int64_t>(player.shown.size()); ++i) {
    const int64_t known = i / 5 * 5;
    EXPECT_EQ(player.shown[static_cast<size_t>(i)].timestamp,
              known * 1'000'000 + (i - known) * step);
  }
}

TEST_F(SimCuvid, GoesOnAfterTheEndOfAStream) {
  const Clip source = clip();
  const auto reference = decode_reference(source);
  SimPlayer player;
  feed_all(player, source);
  ASSERT_OK(player.finish(CUVID_PKT_NOTIFY_EOS));
  EXPECT_EQ(player.order.back(), 'E');
  feed_all(player, source, 1000);
  ASSERT_OK(player.finish());
  expect_equal(player, reference, reference.size(), 1000);
  // Measured on an H200: the sequence is announced again.
  EXPECT_EQ(player.sequences.size(), 2u);
}

TEST_F(SimCuvid, AChangeOfSizeShowsTheOldOnesFirst) {
  const Clip small = clip(3, 320, 240);
  const Clip large = clip(2, 400, 304);
  SimPlayer player;
  feed_all(player, small);
  feed_all(player, large, 1000);
  ASSERT_OK(player.finish());
  const auto first = decode_reference(small);
  auto reference = decode_reference(large);
  for (auto& frame : reference) frame.pts += 1000;
  reference.insert(reference.begin(), first.begin(), first.end());
  expect_equal(player, reference);
  EXPECT_EQ(player.sequences.size(), 2u);
  const auto change = std::find(player.order.begin() + 1, player.order.end(), 'S');
  EXPECT_EQ(std::count(player.order.begin(), change, 'P'),
            static_cast<std::ptrdiff_t>(first.size()));
}

TEST_F(SimCuvid, DisplayDelayHoldsPicturesBackWhileSurfacesLast) {
  const Clip source = clip(0);
  const auto reference = decode_reference(source);
  SimPlayer player(cudaVideoCodec_H264, 3);
  player.extra_surfaces = 8;
  feed_all(player, source);
  EXPECT_EQ(player.shown.size() + 3, reference.size());
  ASSERT_OK(player.finish());
  expect_equal(player, reference);
}

TEST_F(SimCuvid, IndicesStayBelowWhatTheSequenceCallbackSaid) {
  const Clip source = clip();
  SimPlayer player;
  feed_all(player, source);
  ASSERT_OK(player.finish());
  const int surfaces = player.sequences.at(0).min_num_decode_surfaces;
  EXPECT_LT(*std::max_element(player.decoded.begin(), player.decoded.end()), surfaces);
}

// Measured on an H200, driver 580: whatever the callbacks say, the parse succeeds.
TEST_F(SimCuvid, ARefusedSequenceIsNotDecodedUntilTheNext) {
  const Clip source = clip();
  SimPlayer player;
  player.answer_sequence = [&](const CUVIDEOFORMAT&) { return player.sequences.size() > 1; };
  feed_all(player, source);
  ASSERT_OK(player.finish());
  EXPECT_EQ(player.order, std::vector<char>{'S'});
  feed_all(player, source);
  ASSERT_OK(player.finish());
  expect_equal(player, decode_reference(source));
}

TEST_F(SimCuvid, APictureThatFailedToDecodeIsNotShown) {
  const Clip source = clip(0);
  SimPlayer player;
  int calls = 0;
  player.answer_decode = [&](const CUVIDPICPARAMS& params) {
    CUVIDPICPARAMS copy = params;
    return ++calls != 3 && cuvidDecodePicture(player.decoder(), &copy) == CUDA_SUCCESS;
  };
  feed_all(player, source);
  ASSERT_OK(player.finish());
  auto reference = decode_reference(source);
  reference.erase(reference.begin() + 2);
  expect_equal(player, reference);
}

TEST_F(SimCuvid, GarbageShowsNothingAndBreaksNothing) {
  const Clip source = clip();
  SimPlayer player;
  ByteVector noise(5000);
  unsigned state = 1;
  for (uint8_t& byte : noise) {
    state = state * 1103515245 + 12345;
    byte = static_cast<uint8_t>(state >> 16);
  }
  ASSERT_OK(player.feed(noise, 0));
  ASSERT_OK(player.feed(noise, 0, 0));
  ASSERT_OK(player.finish());
  EXPECT_TRUE(player.order.empty());
  // Every packet damaged somewhere: whatever comes, comes in order.
  for (size_t i = 0; i < source.packets.size(); ++i) {
    ByteVector damaged = source.packets[i];
    for (size_t at = 20 + i; at < damaged.size(); at += 97) damaged[at] ^= 0x5a;
    ASSERT_OK(player.feed(damaged, source.pts[i] * kTick));
  }
  ASSERT_OK(player.finish());
  player.shown.clear();
  feed_all(player, source);
  ASSERT_OK(player.finish());
  expect_equal(player, decode_reference(source));
}

class SimSurfaces : public SimCuvid {
 protected:
  /// Decodes a clip without showing it and leaves the decoder as it is.
  void SetUp() override {
    SimCuvid::SetUp();
    source_ = clip(0);
    player_.emplace();
    player_->output_surfaces = 2;
    player_->answer_display = [](const CUVIDPARSERDISPINFO&) { return 1; };
    feed_all(*player_, source_);
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
    SimCuvid::TearDown();
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
  feed_all(*player_, make_clip({.frames = 5, .repeat_headers = true, .seed = 9}));
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

TEST_F(SimCuvid, DecoderCreationIsChecked) {
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

TEST_F(SimCuvid, ReconfiguresWithinItsMaximum) {
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

TEST_F(SimCuvid, CapsAreTheH200s) {
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

TEST_F(SimCuvid, FaultsAndCountsReachThisLibrary) {
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
