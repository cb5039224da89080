// SPDX-License-Identifier: LGPL-2.1-or-later
#include "demux/demuxer.h"

#include <algorithm>
#include <limits>

#include "base/log.h"
#include "demux/stream_reader.h"

extern "C" {
#include <libavcodec/packet.h>
#include <libavformat/avformat.h>
#include <libavutil/avstring.h>
#include <libavutil/dict.h>
#include <libavutil/error.h>
#include <libavutil/mathematics.h>
}

namespace cudaframe::demux {
namespace {

constexpr AVRational kNanoseconds{1, 1'000'000'000};
// How far to read ahead for the first packet of every stream; some streams start late.
constexpr std::size_t kStartPackets = 64;
constexpr std::size_t kStartBytes = std::size_t{8} << 20;

std::string text_of(int error) {
  char text[AV_ERROR_MAX_STRING_SIZE] = {};
  av_strerror(error, text, sizeof text);
  return text;
}

int is_interrupted(void* source) {
  return static_cast<const ByteSource*>(source)->interrupted() ? 1 : 0;
}

// Playlists and reference movies would have libavformat open other files or addresses by itself.
int refuse_open(AVFormatContext*, AVIOContext**, const char* url, int, AVDictionary**) {
  log(LogLevel::debug, "demux", "refused to open a second resource: %s", url ? url : "?");
  return AVERROR(EPERM);
}

std::optional<std::int64_t> to_ns(std::int64_t time, AVRational base) {
  if (time == AV_NOPTS_VALUE || base.num <= 0 || base.den <= 0) return std::nullopt;
  const std::int64_t ns = av_rescale_q(time, base, kNanoseconds);
  // Half the range leaves room for the shifts that follow.
  constexpr std::int64_t kLimit = std::numeric_limits<std::int64_t>::max() / 2;
  if (ns > kLimit || ns < -kLimit) return std::nullopt;
  return ns;
}

std::optional<std::int64_t> plus(std::optional<std::int64_t> time, std::int64_t shift) {
  return time ? std::optional(*time + shift) : std::nullopt;
}

bool counts_for_start(const StreamInfo& stream) {
  return !stream.is_attached_picture &&
         (stream.type == MediaType::video || stream.type == MediaType::audio);
}

}  // namespace

void AvPacketDeleter::operator()(AVPacket* packet) const noexcept {
  av_packet_free(&packet);
}

Result<std::unique_ptr<Demuxer>> Demuxer::open(ByteSource& source, const DemuxerOptions& options) {
  std::unique_ptr<Demuxer> demuxer(new Demuxer(source));
  if (!demuxer->reader_.context()) {
    return Status(StatusCode::out_of_memory, "no memory for the read buffer");
  }
  if (Status status = demuxer->open_input(options); !status.ok()) return status;
  demuxer->describe_streams();
  if (Status status = demuxer->find_start(); !status.ok()) return status;
  return demuxer;
}

Demuxer::~Demuxer() {
  avformat_close_input(&format_);
}

Status Demuxer::status_of(int error) {
  if (error == AVERROR_EXIT || reader_.source().interrupted()) {
    return Status(StatusCode::flushing, "reading was interrupted", error);
  }
  if (!reader_.failure().ok()) return reader_.failure();
  if (error == AVERROR_EOF) return Status(StatusCode::end_of_stream, "end of the input", error);
  if (error == AVERROR(ENOMEM)) return Status(StatusCode::out_of_memory, text_of(error), error);
  return Status(StatusCode::bad_data, text_of(error), error);
}

Status Demuxer::open_input(const DemuxerOptions& options) {
  const AVInputFormat* input = nullptr;
  int error = av_probe_input_buffer2(reader_.context(), &input, "", nullptr, 0, 0);
  if (error < 0) {
    const Status status = status_of(error);
    if (status.code() == StatusCode::flushing || !reader_.failure().ok()) return status;
    if (reader_.bytes_read() == 0) return Status(StatusCode::bad_data, "The input is empty", error);
    return Status(StatusCode::not_supported, "The input is no media file of a known kind", error);
  }
  if (av_match_list(input->name, options.formats.c_str(), ',') <= 0) {
    return Status(StatusCode::not_supported,
                  std::string("The input is no media container that can be read here (it looks "
                              "like: ") +
                      input->long_name + ")");
  }
  format_ = avformat_alloc_context();
  if (!format_) return Status(StatusCode::out_of_memory, "no memory for the demuxer");
  format_->pb = reader_.context();
  format_->interrupt_callback = {&is_interrupted, &reader_.source()};
  format_->io_open = &refuse_open;
  AVDictionary* settings = nullptr;
  // For formats that open by URL and not by io_open: no protocol has this name.
  av_dict_set(&settings, "protocol_whitelist", "none", 0);
  error = avformat_open_input(&format_, "", input, &settings);
  av_dict_free(&settings);
  if (error >= 0) error = avformat_find_stream_info(format_, nullptr);
  if (error < 0 || reader_.source().interrupted()) {
    const Status status = status_of(error);
    if (status.code() == StatusCode::flushing || !reader_.failure().ok()) return status;
    return Status(StatusCode::bad_data,
                  std::string("The headers of the file (") + input->long_name +
                      ") are damaged or missing: " + text_of(error),
                  error);
  }
  if (format_->nb_streams == 0) {
    return Status(StatusCode::bad_data,
                  std::string("There is no stream in the file (") + input->long_name + ")");
  }
  format_name_ = input->long_name;
  return Status();
}

void Demuxer::describe_streams() {
  std::optional<std::int64_t> origin;
  std::optional<std::int64_t> any_origin;
  for (unsigned i = 0; i < format_->nb_streams; ++i) {
    AVStream* stream = format_->streams[i];
    streams_.push_back(read_stream_info(format_, stream));
    const std::optional<std::int64_t> start = to_ns(stream->start_time, stream->time_base);
    if (!start) continue;
    any_origin = std::min(any_origin.value_or(*start), *start);
    if (counts_for_start(streams_.back())) origin = std::min(origin.value_or(*start), *start);
  }
  selected_.assign(streams_.size(), true);
  origin_ns_ = origin ? *origin : any_origin.value_or(0);
  if (format_->duration > 0) duration_ns_ = to_ns(format_->duration, AV_TIME_BASE_Q);
}

Status Demuxer::find_start() {
  std::vector<bool> seen(streams_.size(), false);
  for (std::size_t i = 0; i < streams_.size(); ++i) seen[i] = !counts_for_start(streams_[i]);
  std::size_t bytes = 0;
  std::int64_t earliest = 0;
  while (std::find(seen.begin(), seen.end(), false) != seen.end() &&
         ahead_.size() < kStartPackets && bytes < kStartBytes) {
    Result<Packet> packet = read_next();
    if (!packet.ok()) {
      if (packet.status().code() == StatusCode::flushing) return packet.status();
      after_ahead_ = packet.status();
      break;
    }
    const auto index = static_cast<std::size_t>(packet->stream_index);
    if (index >= streams_.size()) continue;
    if (counts_for_start(streams_[index])) {
      seen[index] = true;
      earliest = std::min({earliest, packet->pts_ns.value_or(0), packet->dts_ns.value_or(0)});
    }
    bytes += packet->bytes.size();
    ahead_.push_back(std::move(*packet));
  }
  lead_ns_ = -earliest;
  for (Packet& packet : ahead_) {
    packet.pts_ns = plus(packet.pts_ns, lead_ns_);
    packet.dts_ns = plus(packet.dts_ns, lead_ns_);
  }
  return Status();
}

bool Demuxer::is_selected(int stream_index) const {
  const auto index = static_cast<std::size_t>(stream_index);
  return index < selected_.size() && selected_[index];
}

void Demuxer::select(int stream_index, bool selected) {
  const auto index = static_cast<std::size_t>(stream_index);
  if (index >= selected_.size()) return;
  selected_[index] = selected;
  format_->streams[index]->discard = selected ? AVDISCARD_DEFAULT : AVDISCARD_ALL;
}

void Demuxer::resync() {
  ahead_.clear();
  after_ahead_ = Status();
  reader_.reset();
  reader_.drop_buffered();
  avformat_flush(format_);
}

Result<Packet> Demuxer::read_packet() {
  while (true) {
    if (reader_.source().interrupted()) {
      return Status(StatusCode::flushing, "reading was interrupted");
    }
    if (ahead_.empty() && !after_ahead_.ok()) return std::exchange(after_ahead_, Status());
    Packet packet;
    if (!ahead_.empty()) {
      packet = std::move(ahead_.front());
      ahead_.pop_front();
    } else {
      Result<Packet> next = read_next();
      if (!next.ok()) return next.status();
      packet = std::move(*next);
    }
    if (is_selected(packet.stream_index)) return packet;
  }
}

Result<Packet> Demuxer::read_next() {
  std::unique_ptr<AVPacket, AvPacketDeleter> storage(av_packet_alloc());
  if (!storage) return Status(StatusCode::out_of_memory, "no memory for a packet");
  const int error = av_read_frame(format_, storage.get());
  if (error >= 0) {
    Packet packet = make_packet(std::move(storage));
    is_truncated_ |= packet.is_corrupt && reader_.met_end();
    return packet;
  }
  Status status = status_of(error);
  if (status.code() == StatusCode::bad_data && reader_.met_end()) {
    // An index that names packets behind the end: the file is cut off, not damaged.
    is_truncated_ = true;
    return Status(StatusCode::end_of_stream, "the input is cut off", error);
  }
  return status;
}

Packet Demuxer::make_packet(std::unique_ptr<AVPacket, AvPacketDeleter> storage) const {
  const AVPacket& raw = *storage;
  const AVRational base = format_->streams[raw.stream_index]->time_base;
  const std::int64_t shift = lead_ns_ - origin_ns_;
  Packet packet;
  packet.bytes = {raw.data, static_cast<std::size_t>(std::max(raw.size, 0))};
  packet.stream_index = raw.stream_index;
  packet.pts_ns = plus(to_ns(raw.pts, base), shift);
  packet.dts_ns = plus(to_ns(raw.dts, base), shift);
  if (raw.duration > 0) packet.duration_ns = to_ns(raw.duration, base);
  packet.is_key = (raw.flags & AV_PKT_FLAG_KEY) != 0;
  packet.is_discardable = (raw.flags & AV_PKT_FLAG_DISCARD) != 0;
  packet.is_corrupt = (raw.flags & AV_PKT_FLAG_CORRUPT) != 0;
  std::size_t size = 0;
  const std::uint8_t* side = av_packet_get_side_data(&raw, AV_PKT_DATA_NEW_EXTRADATA, &size);
  if (side) packet.new_extradata = {side, size};
  packet.storage = std::move(storage);
  return packet;
}

}  // namespace cudaframe::demux
