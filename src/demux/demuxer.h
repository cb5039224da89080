// SPDX-License-Identifier: LGPL-2.1-or-later
// Packets and stream descriptions out of a container, by libavformat.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "demux/byte_source.h"
#include "demux/stream_info.h"

struct AVFormatContext;
struct AVPacket;

namespace cudaframe::demux {

struct AvPacketDeleter {
  void operator()(AVPacket* packet) const noexcept;
};

/// One packet and its memory, which it shares with nobody and keeps for as long as it lives. Moves
/// between threads. Times are on the demuxer's buffer clock: see Note [Times of packets].
struct Packet {
  std::unique_ptr<AVPacket, AvPacketDeleter> storage;
  std::span<const std::uint8_t> bytes;  ///< In `storage`. May be empty.
  /// New codec data that counts from this packet on. In `storage`. Mostly empty.
  std::span<const std::uint8_t> new_extradata;
  int stream_index = 0;
  std::optional<std::int64_t> pts_ns;
  std::optional<std::int64_t> dts_ns;
  std::optional<std::int64_t> duration_ns;
  bool is_key = false;
  bool is_discardable = false;  ///< Decode it, show nothing: the edit list leaves it out.
  bool is_corrupt = false;
};

struct DemuxerOptions {
  /// Short names of libavformat's formats that may be opened, separated by commas.
  std::string formats;
};

// Note [Times of packets]
//
// Three clocks. *Container time* is what libavformat reports: it may start anywhere (MPEG-TS) and
// hold negative times (decode times before the first picture, pictures that an edit list hides).
// *Stream time* is container time less the start of the earliest audio or video stream, so that the
// first picture that is shown has 0. *Buffer time*, the one on packets, is stream time plus lead():
// the smallest constant with which no time at the start of the file is negative. A segment that
// starts at lead() and means stream time 0 undoes the shift. One constant for all streams, for as
// long as the demuxer lives, also after seeks: streams stay in step with each other.

/// Thread-bound, but may move between threads as a whole.
class Demuxer {
 public:
  /// Reads the headers and as much of the start as the parameters of all streams take. `source`
  /// must outlive the demuxer. not_supported: no container among `options.formats`; bad_data: it is
  /// one, but damaged or empty; flushing: interrupted; else the source's own failure.
  static Result<std::unique_ptr<Demuxer>> open(ByteSource& source, const DemuxerOptions& options);
  ~Demuxer();
  Demuxer(const Demuxer&) = delete;
  Demuxer& operator=(const Demuxer&) = delete;

  const std::vector<StreamInfo>& streams() const { return streams_; }
  /// Such as "QuickTime / MOV".
  const std::string& format_name() const { return format_name_; }
  std::optional<std::int64_t> duration_ns() const { return duration_ns_; }
  /// Buffer time of stream time 0.
  std::int64_t lead_ns() const { return lead_ns_; }
  bool is_seekable() const { return reader_.source().is_seekable(); }
  /// The input broke off in the middle of a packet or before one that its index names.
  bool is_truncated() const { return is_truncated_; }

  /// All are selected at first. Packets of others are neither read (where the container allows it)
  /// nor returned.
  void select(int stream_index, bool selected);

  /// The next packet of a selected stream, in the container's order. end_of_stream at the end, also
  /// of a file that is cut off. bad_data: damage was met; the next call tries to go on behind it.
  /// flushing: interrupted; seek() before the next call, since a packet may be lost.
  Result<Packet> read_packet();

  /// Moves all streams to the last key frame, of the first selected video stream, that is *shown*
  /// at or before this stream time (the first one if none is), and returns its stream time. Needs
  /// is_seekable(). Reads ahead, more where the container has no index; ends early when
  /// interrupted.
  Result<std::int64_t> seek(std::int64_t time_ns);

  /// What comes from the source now doesn't follow on what came before: forget half packets.
  void resync();

 private:
  struct KeyFrame {
    std::int64_t pts = 0;  ///< In the stream's time base.
    std::int64_t dts = 0;
  };

  explicit Demuxer(ByteSource& source) : reader_(source) {}
  Status open_input(const DemuxerOptions& options);
  void describe_streams();
  Status find_start();
  Status status_of(int error);
  Result<Packet> read_next();
  Packet make_packet(std::unique_ptr<AVPacket, AvPacketDeleter> storage) const;
  bool is_selected(int stream_index) const;

  int reference_stream() const;
  Status seek_container(int stream, std::int64_t timestamp);
  Result<std::optional<KeyFrame>> read_to_key(int stream, std::int64_t target);
  std::optional<std::int64_t> next_indexed_key(int stream, std::int64_t dts) const;
  Result<std::optional<KeyFrame>> last_key_until(int stream, std::int64_t target, KeyFrame found,
                                                 std::int64_t from);
  bool has_index(int stream) const;
  void drop_ahead_of(int stream, std::int64_t shown_ns);

  AvioReader reader_;
  AVFormatContext* format_ = nullptr;
  std::vector<StreamInfo> streams_;
  std::vector<bool> selected_;
  std::string format_name_;
  std::optional<std::int64_t> duration_ns_;
  std::int64_t origin_ns_ = 0;  ///< Container time of stream time 0.
  std::int64_t lead_ns_ = 0;
  bool is_truncated_ = false;
  std::deque<Packet> ahead_;  ///< Read already, to know where the streams or a key frame start.
  Status after_ahead_;        ///< What reading ahead ended with, for when `ahead_` is used up.
};

}  // namespace cudaframe::demux
