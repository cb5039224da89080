// SPDX-License-Identifier: LGPL-2.1-or-later
// The simulated libnvcuvid.so.1 with codecs beside H.264: the same frames as libavcodec gives.
#include <gtest/gtest.h>

extern "C" {
#include <libavcodec/avcodec.h>
#include <libavutil/opt.h>
}

#include <string>
#include <vector>

#include "sim_player.h"

// The HEVC encoder loses some of its own parameters.
extern "C" const char* __lsan_default_suppressions() {
  return "leak:libx265\n";
}

namespace {

constexpr int kWidth = 322;
constexpr int kHeight = 244;
constexpr int kFrames = 12;

struct Codec {
  const char* name;
  cudaVideoCodec cuvid;
  const char* encoder;
  AVCodecID id;
  AVPixelFormat format;
  int b_frames;
  const char* option;
  const char* value;
  unsigned coded_width, coded_height;  ///< what the sequence callback must say
  bool is_interlaced = false;
};

using Bytes = std::vector<uint8_t>;

struct Encoded {
  std::vector<Bytes> packets;
  std::vector<int64_t> pts;
};

void draw(AVFrame* frame, int number, bool is_wide) {
  for (int plane = 0; plane < 3; ++plane) {
    const int width = plane ? (kWidth + 1) / 2 : kWidth;
    const int height = plane ? (kHeight + 1) / 2 : kHeight;
    for (int y = 0; y < height; ++y) {
      uint8_t* row = frame->data[plane] + y * frame->linesize[plane];
      for (int x = 0; x < width; ++x) {
        const int value = (x * (plane + 1) + y * 2 + number * 7) & 255;
        if (is_wide) {
          reinterpret_cast<uint16_t*>(row)[x] = static_cast<uint16_t>(value * 4 + (x & 3));
        } else {
          row[x] = static_cast<uint8_t>(value);
        }
      }
    }
  }
}

void collect(AVCodecContext* encoder, AVPacket* packet, Encoded* encoded) {
  while (avcodec_receive_packet(encoder, packet) == 0) {
    encoded->packets.emplace_back(packet->data, packet->data + packet->size);
    encoded->pts.push_back(packet->pts);
    av_packet_unref(packet);
  }
}

bool encode(const Codec& codec, Encoded* encoded) {
  const AVCodec* found = avcodec_find_encoder_by_name(codec.encoder);
  if (!found) return false;
  AVCodecContext* encoder = avcodec_alloc_context3(found);
  encoder->width = kWidth;
  encoder->height = kHeight;
  encoder->pix_fmt = codec.format;
  encoder->time_base = {1, 25};
  encoder->framerate = {25, 1};
  encoder->gop_size = 6;
  encoder->max_b_frames = codec.b_frames;
  encoder->thread_count = 1;
  encoder->bit_rate = 2'000'000;
  if (codec.option) av_opt_set(encoder->priv_data, codec.option, codec.value, 0);
  EXPECT_EQ(avcodec_open2(encoder, found, nullptr), 0);
  AVFrame* frame = av_frame_alloc();
  AVPacket* packet = av_packet_alloc();
  for (int i = 0; i < kFrames; ++i) {
    frame->width = kWidth;
    frame->height = kHeight;
    frame->format = codec.format;
    EXPECT_EQ(av_frame_get_buffer(frame, 0), 0);
    draw(frame, i, codec.format == AV_PIX_FMT_YUV420P10);
    frame->pts = i;
    EXPECT_EQ(avcodec_send_frame(encoder, frame), 0);
    av_frame_unref(frame);
    collect(encoder, packet, encoded);
  }
  avcodec_send_frame(encoder, nullptr);
  collect(encoder, packet, encoded);
  av_packet_free(&packet);
  av_frame_free(&frame);
  avcodec_free_context(&encoder);
  return true;
}

/// NV12, or P016 above 8 bits, in rows without padding.
Bytes semi_planar(const AVFrame& frame) {
  const bool is_wide = frame.format == AV_PIX_FMT_YUV420P10;
  Bytes bytes;
  const auto put = [&](int plane, int x, int y) {
    const uint8_t* row = frame.data[plane] + y * frame.linesize[plane];
    if (!is_wide) return bytes.push_back(row[x]);
    const int value = reinterpret_cast<const uint16_t*>(row)[x] << 6;
    bytes.push_back(static_cast<uint8_t>(value));
    bytes.push_back(static_cast<uint8_t>(value >> 8));
  };
  for (int y = 0; y < frame.height; ++y) {
    for (int x = 0; x < frame.width; ++x) put(0, x, y);
  }
  for (int y = 0; y < (frame.height + 1) / 2; ++y) {
    for (int x = 0; x < (frame.width + 1) / 2; ++x) {
      put(1, x, y);
      put(2, x, y);
    }
  }
  return bytes;
}

std::vector<Bytes> decode(AVCodecID id, const Encoded& encoded) {
  AVCodecContext* decoder = avcodec_alloc_context3(avcodec_find_decoder(id));
  decoder->thread_count = 1;
  EXPECT_EQ(avcodec_open2(decoder, nullptr, nullptr), 0);
  AVFrame* frame = av_frame_alloc();
  AVPacket* packet = av_packet_alloc();
  std::vector<Bytes> frames;
  const auto receive = [&] {
    while (avcodec_receive_frame(decoder, frame) == 0) {
      frames.push_back(semi_planar(*frame));
      av_frame_unref(frame);
    }
  };
  for (const Bytes& bytes : encoded.packets) {
    EXPECT_EQ(av_new_packet(packet, static_cast<int>(bytes.size())), 0);
    std::copy(bytes.begin(), bytes.end(), packet->data);
    EXPECT_EQ(avcodec_send_packet(decoder, packet), 0);
    av_packet_unref(packet);
    receive();
  }
  avcodec_send_packet(decoder, nullptr);
  receive();
  av_packet_free(&packet);
  av_frame_free(&frame);
  avcodec_free_context(&decoder);
  return frames;
}

class SimCodecs : public SimDeviceTest {};

class SimCodec : public SimDeviceTest, public testing::WithParamInterface<Codec> {};

TEST_P(SimCodec, EqualsTheSoftwareDecoder) {
  const Codec& codec = GetParam();
  Encoded encoded;
  if (!encode(codec, &encoded)) GTEST_SKIP() << "libavcodec has no " << codec.encoder;
  SimPlayer player(codec.cuvid);
  for (size_t i = 0; i < encoded.packets.size(); ++i) {
    ASSERT_OK(player.feed(encoded.packets[i], encoded.pts[i] * 100));
  }
  ASSERT_OK(player.finish());
  const std::vector<Bytes> reference = decode(codec.id, encoded);
  ASSERT_EQ(player.shown.size(), reference.size());
  ASSERT_EQ(reference.size(), size_t{kFrames});
  for (size_t i = 0; i < reference.size(); ++i) {
    EXPECT_EQ(player.shown[i].timestamp, static_cast<int64_t>(i) * 100);
    EXPECT_TRUE(player.shown[i].pixels == reference[i]) << "frame " << i;
  }
  ASSERT_EQ(player.sequences.size(), 1u);
  const CUVIDEOFORMAT& format = player.sequences[0];
  EXPECT_EQ(format.progressive_sequence, !codec.is_interlaced);
  EXPECT_EQ(format.coded_width, codec.coded_width);
  EXPECT_EQ(format.coded_height, codec.coded_height);
  EXPECT_EQ(format.display_area.right, kWidth);
  EXPECT_EQ(format.display_area.bottom, kHeight);
}

INSTANTIATE_TEST_SUITE_P(
    All, SimCodec,
    testing::Values(Codec{"Mpeg1", cudaVideoCodec_MPEG1, "mpeg1video", AV_CODEC_ID_MPEG1VIDEO,
                          AV_PIX_FMT_YUV420P, 2, nullptr, nullptr, 336, 256},
                    Codec{"Mpeg2", cudaVideoCodec_MPEG2, "mpeg2video", AV_CODEC_ID_MPEG2VIDEO,
                          AV_PIX_FMT_YUV420P, 2, nullptr, nullptr, 336, 256},
                    Codec{"Mpeg4", cudaVideoCodec_MPEG4, "mpeg4", AV_CODEC_ID_MPEG4,
                          AV_PIX_FMT_YUV420P, 0, nullptr, nullptr, 336, 256},
                    Codec{"H264Interlaced", cudaVideoCodec_H264, "libx264", AV_CODEC_ID_H264,
                          AV_PIX_FMT_YUV420P, 2, "x264-params", "tff=1", 336, 256, true},
                    Codec{"Hevc", cudaVideoCodec_HEVC, "libx265", AV_CODEC_ID_HEVC,
                          AV_PIX_FMT_YUV420P, 2, "x265-params",
                          "log-level=none:pools=none:frame-threads=1", 328, 248},
                    Codec{"Hevc10", cudaVideoCodec_HEVC, "libx265", AV_CODEC_ID_HEVC,
                          AV_PIX_FMT_YUV420P10, 2, "x265-params",
                          "log-level=none:pools=none:frame-threads=1", 328, 248},
                    Codec{"Vp8", cudaVideoCodec_VP8, "libvpx", AV_CODEC_ID_VP8, AV_PIX_FMT_YUV420P,
                          0, "lag-in-frames", "0", 336, 256},
                    Codec{"Vp9", cudaVideoCodec_VP9, "libvpx-vp9", AV_CODEC_ID_VP9,
                          AV_PIX_FMT_YUV420P, 0, "lag-in-frames", "0", 328, 248},
                    Codec{"Jpeg", cudaVideoCodec_JPEG, "mjpeg", AV_CODEC_ID_MJPEG,
                          AV_PIX_FMT_YUVJ420P, 0, nullptr, nullptr, 328, 248}),
    [](const auto& parameter) { return std::string(parameter.param.name); });

TEST_F(SimCodecs, WhatCannotBeSimulatedIsRefused) {
  CUVIDPARSERPARAMS params = {};
  CUvideoparser parser = nullptr;
  params.CodecType = cudaVideoCodec_AV1;
  EXPECT_EQ(cuvidCreateVideoParser(&parser, &params), CUDA_ERROR_NOT_SUPPORTED);
  params.CodecType = static_cast<cudaVideoCodec>(99);
  EXPECT_EQ(cuvidCreateVideoParser(&parser, &params), CUDA_ERROR_INVALID_VALUE);
}

}  // namespace
