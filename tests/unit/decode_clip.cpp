// SPDX-License-Identifier: LGPL-2.1-or-later
#include "decode_clip.h"

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>

extern "C" {
#include <libavcodec/avcodec.h>
#include <libavcodec/bsf.h>
#include <libavformat/avformat.h>
#include <libavutil/opt.h>
}

namespace cudaframe::test {
namespace {

struct FreeContext {
  void operator()(AVCodecContext* context) const { avcodec_free_context(&context); }
};
struct FreePacket {
  void operator()(AVPacket* packet) const { av_packet_free(&packet); }
};
struct FreeFrame {
  void operator()(AVFrame* frame) const { av_frame_free(&frame); }
};
using ContextPtr = std::unique_ptr<AVCodecContext, FreeContext>;
using PacketPtr = std::unique_ptr<AVPacket, FreePacket>;
using FramePtr = std::unique_ptr<AVFrame, FreeFrame>;

void require(bool condition, const char* what) {
  if (condition) return;
  std::fprintf(stderr, "test clip: %s\n", what);
  std::abort();
}

ContextPtr open_encoder(const ClipSpec& spec) {
  const AVCodec* codec = avcodec_find_encoder_by_name("libx264");
  require(codec, "libavcodec has no libx264");
  ContextPtr context(avcodec_alloc_context3(codec));
  context->width = spec.width;
  context->height = spec.height;
  context->time_base = {1, 30};
  context->framerate = {30, 1};
  context->pix_fmt = spec.high10 ? AV_PIX_FMT_YUV420P10 : AV_PIX_FMT_YUV420P;
  context->gop_size = spec.gop;
  context->max_b_frames = spec.b_frames;
  context->refs = spec.refs;
  context->thread_count = 1;
  if (!spec.repeat_headers) context->flags |= AV_CODEC_FLAG_GLOBAL_HEADER;
  av_opt_set(context->priv_data, "preset", "veryfast", 0);
  std::string params = "scenecut=0:force-cfr=1:open-gop=";
  params += spec.open_gop ? "1" : "0";
  params += ":b-adapt=0:ref=" + std::to_string(spec.refs);
  av_opt_set(context->priv_data, "x264-params", params.c_str(), 0);
  require(avcodec_open2(context.get(), codec, nullptr) == 0, "libx264 refuses the settings");
  return context;
}

// A gradient that moves, with blocks that jump: every frame differs from every other.
void paint(AVFrame* frame, int number, const ClipSpec& spec) {
  const int shift = spec.high10 ? 2 : 0;
  const auto put = [&](int plane, int x, int y, int value) {
    std::uint8_t* row =
        frame->data[plane] + static_cast<std::ptrdiff_t>(y) * frame->linesize[plane];
    if (spec.high10) {
      reinterpret_cast<std::uint16_t*>(row)[x] = static_cast<std::uint16_t>(value << shift);
    } else {
      row[x] = static_cast<std::uint8_t>(value);
    }
  };
  for (int y = 0; y < spec.height; ++y) {
    for (int x = 0; x < spec.width; ++x) {
      const bool block = ((x / 16 + y / 16 + number + spec.seed) % 7) == 0;
      put(0, x, y, 16 + (x + 2 * y + 5 * number + 31 * spec.seed + (block ? 90 : 0)) % 220);
    }
  }
  for (int plane = 1; plane < 3; ++plane) {
    for (int y = 0; y < spec.height / 2; ++y) {
      for (int x = 0; x < spec.width / 2; ++x) {
        put(plane, x, y, 16 + (plane * 40 + x + y + 3 * number + spec.seed) % 224);
      }
    }
  }
}

void collect_packets(AVCodecContext* encoder, Clip* clip) {
  PacketPtr packet(av_packet_alloc());
  while (avcodec_receive_packet(encoder, packet.get()) == 0) {
    clip->packets.emplace_back(packet->data, packet->data + packet->size);
    clip->pts.push_back(packet->pts);
    clip->is_key.push_back((packet->flags & AV_PKT_FLAG_KEY) != 0);
    av_packet_unref(packet.get());
  }
}

ReferenceFrame to_reference(const AVFrame& frame) {
  ReferenceFrame out{.width = frame.width, .height = frame.height, .pts = frame.pts, .nv12 = {}};
  require(frame.format == AV_PIX_FMT_YUV420P, "the reference decodes 4:2:0 with 8 bits only");
  for (int y = 0; y < frame.height; ++y) {
    const std::uint8_t* row = frame.data[0] + static_cast<std::ptrdiff_t>(y) * frame.linesize[0];
    out.nv12.insert(out.nv12.end(), row, row + frame.width);
  }
  for (int y = 0; y < (frame.height + 1) / 2; ++y) {
    for (int x = 0; x < (frame.width + 1) / 2; ++x) {
      out.nv12.push_back(frame.data[1][static_cast<std::ptrdiff_t>(y) * frame.linesize[1] + x]);
      out.nv12.push_back(frame.data[2][static_cast<std::ptrdiff_t>(y) * frame.linesize[2] + x]);
    }
  }
  return out;
}

void collect_frames(AVCodecContext* decoder, std::vector<ReferenceFrame>* frames) {
  FramePtr frame(av_frame_alloc());
  while (avcodec_receive_frame(decoder, frame.get()) == 0) {
    frames->push_back(to_reference(*frame));
    av_frame_unref(frame.get());
  }
}

}  // namespace

Clip make_clip(const ClipSpec& spec) {
  av_log_set_level(AV_LOG_ERROR);
  Clip clip;
  clip.width = spec.width;
  clip.height = spec.height;
  ContextPtr encoder = open_encoder(spec);
  if (encoder->extradata_size > 0) {
    clip.headers.assign(encoder->extradata, encoder->extradata + encoder->extradata_size);
  }
  FramePtr frame(av_frame_alloc());
  frame->format = encoder->pix_fmt;
  frame->width = spec.width;
  frame->height = spec.height;
  require(av_frame_get_buffer(frame.get(), 0) == 0, "out of memory");
  for (int i = 0; i < spec.frames; ++i) {
    require(av_frame_make_writable(frame.get()) == 0, "out of memory");
    paint(frame.get(), i, spec);
    frame->pts = i;
    require(avcodec_send_frame(encoder.get(), frame.get()) == 0, "the encoder failed");
    collect_packets(encoder.get(), &clip);
  }
  avcodec_send_frame(encoder.get(), nullptr);
  collect_packets(encoder.get(), &clip);
  require(static_cast<int>(clip.packets.size()) == spec.frames, "packets are missing");
  return clip;
}

Clip crop_clip(const Clip& clip, int left, int right, int top, int bottom) {
  Clip out = clip;
  out.width -= left + right;
  out.height -= top + bottom;
  AVBSFContext* filter = nullptr;
  require(av_bsf_alloc(av_bsf_get_by_name("h264_metadata"), &filter) == 0, "no h264_metadata");
  filter->par_in->codec_id = AV_CODEC_ID_H264;
  av_opt_set_int(filter->priv_data, "crop_left", left, 0);
  av_opt_set_int(filter->priv_data, "crop_right", right, 0);
  av_opt_set_int(filter->priv_data, "crop_top", top, 0);
  av_opt_set_int(filter->priv_data, "crop_bottom", bottom, 0);
  require(av_bsf_init(filter) == 0, "h264_metadata refuses the margins");
  PacketPtr packet(av_packet_alloc());
  for (ByteVector& bytes : out.packets) {
    require(av_new_packet(packet.get(), static_cast<int>(bytes.size())) == 0, "out of memory");
    std::copy(bytes.begin(), bytes.end(), packet->data);
    require(av_bsf_send_packet(filter, packet.get()) == 0, "h264_metadata failed");
    require(av_bsf_receive_packet(filter, packet.get()) == 0, "h264_metadata failed");
    bytes.assign(packet->data, packet->data + packet->size);
    av_packet_unref(packet.get());
  }
  av_bsf_free(&filter);
  return out;
}

Clip read_clip(const char* path) {
  av_log_set_level(AV_LOG_ERROR);
  AVFormatContext* format = nullptr;
  require(avformat_open_input(&format, path, nullptr, nullptr) == 0, "can't open the file");
  require(avformat_find_stream_info(format, nullptr) >= 0, "can't read the file");
  const int index = av_find_best_stream(format, AVMEDIA_TYPE_VIDEO, -1, -1, nullptr, 0);
  require(index >= 0, "no video in the file");
  const AVCodecParameters& parameters = *format->streams[index]->codecpar;
  Clip clip;
  clip.width = parameters.width;
  clip.height = parameters.height;
  clip.headers.assign(parameters.extradata, parameters.extradata + parameters.extradata_size);
  PacketPtr packet(av_packet_alloc());
  while (av_read_frame(format, packet.get()) == 0) {
    if (packet->stream_index == index) {
      clip.packets.emplace_back(packet->data, packet->data + packet->size);
      clip.pts.push_back(packet->pts);
      clip.is_key.push_back((packet->flags & AV_PKT_FLAG_KEY) != 0);
    }
    av_packet_unref(packet.get());
  }
  avformat_close_input(&format);
  return clip;
}

std::vector<ByteVector> split_nals(std::span<const std::uint8_t> annexb) {
  std::vector<ByteVector> nals;
  std::size_t i = 0;
  bool inside = false;
  while (i < annexb.size()) {
    if (i + 3 <= annexb.size() && annexb[i] == 0 && annexb[i + 1] == 0 && annexb[i + 2] == 1) {
      // The zero in front of a 4-byte start code is not the unit's.
      while (inside && !nals.back().empty() && nals.back().back() == 0) nals.back().pop_back();
      nals.emplace_back();
      inside = true;
      i += 3;
      continue;
    }
    if (inside) nals.back().push_back(annexb[i]);
    ++i;
  }
  return nals;
}

ByteVector to_length_prefixed(const ByteVector& annexb) {
  ByteVector out;
  for (const ByteVector& nal : split_nals(annexb)) {
    const std::size_t size = nal.size();
    for (int shift = 24; shift >= 0; shift -= 8) {
      out.push_back(static_cast<std::uint8_t>(size >> shift));
    }
    out.insert(out.end(), nal.begin(), nal.end());
  }
  return out;
}

ByteVector make_avcc_record(const ByteVector& annexb) {
  std::vector<ByteVector> sps;
  std::vector<ByteVector> pps;
  for (ByteVector& nal : split_nals(annexb)) {
    if ((nal[0] & 0x1f) == 7) sps.push_back(nal);
    if ((nal[0] & 0x1f) == 8) pps.push_back(nal);
  }
  const ByteVector profile =
      sps.empty() ? ByteVector{77, 0, 30} : ByteVector{sps[0][1], sps[0][2], sps[0][3]};
  ByteVector record = {1, profile[0], profile[1], profile[2], 0xff};
  const auto append = [&record](const std::vector<ByteVector>& nals, int count_bits) {
    record.push_back(static_cast<std::uint8_t>(count_bits | nals.size()));
    for (const ByteVector& nal : nals) {
      record.push_back(static_cast<std::uint8_t>(nal.size() >> 8));
      record.push_back(static_cast<std::uint8_t>(nal.size()));
      record.insert(record.end(), nal.begin(), nal.end());
    }
  };
  append(sps, 0xe0);
  append(pps, 0);
  return record;
}

std::vector<ReferenceFrame> decode_reference(const Clip& clip, std::size_t first_packet) {
  ContextPtr decoder(avcodec_alloc_context3(avcodec_find_decoder(AV_CODEC_ID_H264)));
  decoder->thread_count = 1;
  if (!clip.headers.empty()) {
    decoder->extradata =
        static_cast<std::uint8_t*>(av_mallocz(clip.headers.size() + AV_INPUT_BUFFER_PADDING_SIZE));
    std::copy(clip.headers.begin(), clip.headers.end(), decoder->extradata);
    decoder->extradata_size = static_cast<int>(clip.headers.size());
  }
  require(avcodec_open2(decoder.get(), nullptr, nullptr) == 0, "no H.264 decoder");
  std::vector<ReferenceFrame> frames;
  PacketPtr packet(av_packet_alloc());
  for (std::size_t i = first_packet; i < clip.packets.size(); ++i) {
    const ByteVector& bytes = clip.packets[i];
    require(av_new_packet(packet.get(), static_cast<int>(bytes.size())) == 0, "out of memory");
    std::copy(bytes.begin(), bytes.end(), packet->data);
    packet->pts = clip.pts[i];
    require(avcodec_send_packet(decoder.get(), packet.get()) == 0, "the reference failed");
    av_packet_unref(packet.get());
    collect_frames(decoder.get(), &frames);
  }
  avcodec_send_packet(decoder.get(), nullptr);
  collect_frames(decoder.get(), &frames);
  return frames;
}

}  // namespace cudaframe::test
