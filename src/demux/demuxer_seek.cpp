// SPDX-License-Identifier: LGPL-2.1-or-later
// The part of Demuxer that finds a key frame by the time at which it is shown.
#include <algorithm>
#include <cstdint>
#include <limits>

#include "demux/demuxer.h"

extern "C" {
#include <libavformat/avformat.h>
#include <libavutil/error.h>
#include <libavutil/mathematics.h>
}

// Note [Key frame at or before]
//
// libavformat seeks by decode time. With reordering, the key frame that it lands on may be shown
// after the target, and a decoder started there never makes the wanted picture. Without an index
// (MPEG-TS) it lands anywhere, on no key frame at all. So the packets behind the landing place are
// looked at: where the key frame found is too late, the next try begins before its decode time;
// where there is no index, tries begin ever further back and then read on to the last key frame
// that fits. What was read stays in `ahead_` and is delivered.

namespace cudaframe::demux {
namespace {

constexpr AVRational kNanoseconds{1, 1'000'000'000};
constexpr int kMaxTries = 24;
constexpr std::size_t kMaxScanBytes = std::size_t{64} << 20;
constexpr std::int64_t kFirstStepNs = 500'000'000;

std::int64_t pts_or_dts(const AVPacket& packet) {
  if (packet.pts != AV_NOPTS_VALUE) return packet.pts;
  return packet.dts != AV_NOPTS_VALUE ? packet.dts : std::numeric_limits<std::int64_t>::min() / 2;
}

std::int64_t dts_or_pts(const AVPacket& packet) {
  return packet.dts != AV_NOPTS_VALUE ? packet.dts : pts_or_dts(packet);
}

}  // namespace

int Demuxer::reference_stream() const {
  int fallback = -1;
  for (const StreamInfo& stream : streams_) {
    if (!is_selected(stream.index) || stream.is_attached_picture) continue;
    if (stream.type == MediaType::video) return stream.index;
    if (fallback < 0 && stream.type == MediaType::audio) fallback = stream.index;
  }
  return fallback >= 0 || streams_.empty() ? fallback : streams_.front().index;
}

bool Demuxer::has_index(int stream) const {
  // Formats whose times may jump keep a list of places they have been to, which is no index.
  return !(format_->iformat->flags & AVFMT_TS_DISCONT) &&
         avformat_index_get_entries_count(format_->streams[stream]) > 0;
}

Status Demuxer::seek_container(int stream, std::int64_t timestamp) {
  ahead_.clear();
  after_ahead_ = Status();
  is_truncated_ = false;
  reader_.reset();
  constexpr std::int64_t kMin = std::numeric_limits<std::int64_t>::min();
  constexpr std::int64_t kMax = std::numeric_limits<std::int64_t>::max();
  int error = avformat_seek_file(format_, stream, kMin, timestamp, timestamp, 0);
  if (error < 0) error = avformat_seek_file(format_, stream, timestamp, timestamp, kMax, 0);
  if (error < 0) {
    const Status status = status_of(error);
    if (status.code() != StatusCode::bad_data) return status;
    return Status(StatusCode::not_supported, "this file can't be positioned", error);
  }
  return Status();
}

void Demuxer::drop_ahead_of(int stream, std::int64_t shown_ns) {
  std::erase_if(ahead_, [=](const Packet& packet) {
    return packet.stream_index == stream || packet.pts_ns.value_or(shown_ns) < shown_ns;
  });
}

/// Reads on into `ahead_`, which begins with the key frame when it returns one: the first one, or
/// the last one at or before `target` where there is no index to have found it.
Result<std::optional<Demuxer::KeyFrame>> Demuxer::read_to_key(int stream, std::int64_t target) {
  std::optional<KeyFrame> best;
  std::size_t bytes = 0;
  while (bytes < kMaxScanBytes) {
    Result<Packet> packet = read_next();
    if (!packet.ok()) {
      if (packet.status().code() == StatusCode::flushing) return packet.status();
      after_ahead_ = packet.status();
      break;
    }
    if (!is_selected(packet->stream_index)) continue;
    bytes += packet->bytes.size();
    const AVPacket& raw = *packet->storage;
    if (packet->stream_index != stream) {
      ahead_.push_back(std::move(*packet));
      continue;
    }
    const bool fits = pts_or_dts(raw) <= target;
    const bool starts = packet->is_key && (!best || fits);
    const bool is_past = dts_or_pts(raw) > target;
    if (!starts && !best) continue;  // nothing to decode it with
    if (starts) {
      drop_ahead_of(stream, packet->pts_ns.value_or(0));
      best = KeyFrame{pts_or_dts(raw), dts_or_pts(raw)};
    }
    ahead_.push_back(std::move(*packet));
    if (has_index(stream) || is_past || !fits) break;
  }
  return best;
}

/// The first key frame in the index that is decoded after `dts`.
std::optional<std::int64_t> Demuxer::next_indexed_key(int stream, std::int64_t dts) const {
  AVStream* const indexed = format_->streams[stream];
  const int found = av_index_search_timestamp(indexed, dts + 1, 0);
  if (found < 0) return std::nullopt;
  return avformat_index_get_entry(indexed, found)->timestamp;
}

// Note [One key frame early]: in MP4 with an edit list that hides packets, libavformat reckons with
// a larger delay between decoding and showing than there is, and lands before the last key frame
// that fits. What the index has next is tried, and taken if it is still shown in time.
Result<std::optional<Demuxer::KeyFrame>> Demuxer::last_key_until(int stream, std::int64_t target,
                                                                 KeyFrame found,
                                                                 std::int64_t from) {
  if (!has_index(stream)) return std::optional(found);
  const std::int64_t delay = found.pts - found.dts;
  const std::optional<std::int64_t> next = next_indexed_key(stream, found.dts);
  if (!next || *next + delay > target) return std::optional(found);
  CUDAFRAME_TRY(seek_container(stream, *next + 2 * delay));
  Result<std::optional<KeyFrame>> later = read_to_key(stream, target);
  if (!later.ok()) return later;
  if (later->has_value() && (**later).pts > found.pts && (**later).pts <= target) return later;
  CUDAFRAME_TRY(seek_container(stream, from));
  return read_to_key(stream, target);
}

Result<std::int64_t> Demuxer::seek(std::int64_t time_ns) {
  const int stream = reference_stream();
  if (!is_seekable() || stream < 0) {
    return Status(StatusCode::not_supported, "the input can't be positioned");
  }
  const AVRational base = format_->streams[stream]->time_base;
  const std::int64_t target =
      av_rescale_q_rnd(time_ns + origin_ns_, kNanoseconds, base, AV_ROUND_DOWN);
  const std::int64_t start = av_rescale_q(origin_ns_ - lead_ns_, kNanoseconds, base);
  std::int64_t step = std::max<std::int64_t>(av_rescale_q(kFirstStepNs, kNanoseconds, base), 1);
  std::int64_t from = target;
  for (int attempt = 0; attempt < kMaxTries; ++attempt, step *= 2) {
    CUDAFRAME_TRY(seek_container(stream, from));
    Result<std::optional<KeyFrame>> key = read_to_key(stream, target);
    if (!key.ok()) return key.status();
    const bool fits = key->has_value() && (**key).pts <= target;
    const bool is_last_try = from < start || attempt == kMaxTries - 1;
    if (fits) key = last_key_until(stream, target, **key, from);
    if (!key.ok()) return key.status();
    if (key->has_value() && (fits || is_last_try)) {
      return av_rescale_q((**key).pts, base, kNanoseconds) - origin_ns_;
    }
    if (is_last_try) break;
    const std::int64_t before_key = key->has_value() ? (**key).dts - 1 : from - step;
    from = has_index(stream) ? std::min(before_key, from - 1) : from - step;
  }
  return Status(StatusCode::not_supported, "there is no key frame to start from");
}

}  // namespace cudaframe::demux
