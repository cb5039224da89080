// SPDX-License-Identifier: LGPL-2.1-or-later
#include "tests/support/demux_reference.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>

extern "C" {
#include <libavcodec/avcodec.h>
#include <libavformat/avformat.h>
#include <libavutil/adler32.h>
}

namespace cudaframe::test {
namespace {

std::optional<std::int64_t> to_ns(std::int64_t time, AVRational base) {
  if (time == AV_NOPTS_VALUE) return std::nullopt;
  return av_rescale_q(time, base, AVRational{1, 1000000000});
}

void add_stream(ReferenceFile* file, const AVStream& stream, bool* has_start) {
  const AVCodecParameters& parameters = *stream.codecpar;
  file->codecs.push_back(avcodec_get_name(parameters.codec_id));
  file->extradata.emplace_back(parameters.extradata,
                               parameters.extradata + parameters.extradata_size);
  const bool is_av = (parameters.codec_type == AVMEDIA_TYPE_VIDEO ||
                      parameters.codec_type == AVMEDIA_TYPE_AUDIO) &&
                     !(stream.disposition & AV_DISPOSITION_ATTACHED_PIC);
  file->is_av.push_back(is_av);
  const auto start = to_ns(stream.start_time, stream.time_base);
  if (!is_av || !start) return;
  file->start_ns = *has_start ? std::min(file->start_ns, *start) : *start;
  *has_start = true;
}

}  // namespace

std::uint32_t sum_of(const std::uint8_t* data, std::size_t size) {
  return static_cast<std::uint32_t>(av_adler32_update(1, data, static_cast<unsigned>(size)));
}

std::vector<ReferencePacket> ReferenceFile::of_stream(int stream) const {
  std::vector<ReferencePacket> found;
  std::copy_if(packets.begin(), packets.end(), std::back_inserter(found),
               [=](const ReferencePacket& packet) { return packet.stream == stream; });
  return found;
}

int ReferenceFile::video() const {
  for (std::size_t i = 0; i < codecs.size(); ++i) {
    if (is_av[i] && (codecs[i] == "h264" || codecs[i] == "hevc" || codecs[i] == "vp9")) {
      return static_cast<int>(i);
    }
  }
  return -1;
}

ReferenceFile read_reference(const std::string& path) {
  ReferenceFile file;
  AVFormatContext* format = nullptr;
  if (avformat_open_input(&format, path.c_str(), nullptr, nullptr) < 0 ||
      avformat_find_stream_info(format, nullptr) < 0) {
    std::fprintf(stderr, "no reference for %s\n", path.c_str());
    std::abort();
  }
  bool has_start = false;
  for (unsigned i = 0; i < format->nb_streams; ++i) {
    add_stream(&file, *format->streams[i], &has_start);
  }
  AVPacket* packet = av_packet_alloc();
  while (av_read_frame(format, packet) >= 0) {
    const AVRational base = format->streams[packet->stream_index]->time_base;
    file.packets.push_back({
        .stream = packet->stream_index,
        .pts_ns = to_ns(packet->pts, base),
        .dts_ns = to_ns(packet->dts, base),
        .duration_ns = to_ns(packet->duration, base).value_or(0),
        .size = static_cast<std::size_t>(packet->size),
        .sum = sum_of(packet->data, static_cast<std::size_t>(packet->size)),
        .is_key = (packet->flags & AV_PKT_FLAG_KEY) != 0,
        .is_hidden = (packet->flags & AV_PKT_FLAG_DISCARD) != 0,
    });
    av_packet_unref(packet);
  }
  av_packet_free(&packet);
  avformat_close_input(&format);
  return file;
}

std::string demux_clip(const std::string& name) {
  const char* folder = std::getenv("CUDAFRAME_DEMUX_CLIPS");
  if (!folder) {
    std::fprintf(stderr, "CUDAFRAME_DEMUX_CLIPS isn't set\n");
    std::abort();
  }
  return std::string(folder) + "/" + name;
}

std::vector<std::uint8_t> read_bytes(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) {
    std::fprintf(stderr, "can't read %s\n", path.c_str());
    std::abort();
  }
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

}  // namespace cudaframe::test
