// SPDX-License-Identifier: LGPL-2.1-or-later
// Small H.264 clips made on the spot, in each of the stream formats, and their reference decoding.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace cudaframe::test {

using ByteVector = std::vector<std::uint8_t>;

struct ClipSpec {
  int width = 320;
  int height = 240;
  int frames = 30;
  int gop = 10;
  int b_frames = 0;
  int refs = 3;
  bool open_gop = false;
  bool high10 = false;
  bool repeat_headers = false;  ///< Parameter sets in front of each IDR, none in `headers`.
  int seed = 0;                 ///< Another seed, another content.
};

struct Clip {
  int width = 0;
  int height = 0;
  ByteVector headers;               ///< Parameter sets, Annex B.
  std::vector<ByteVector> packets;  ///< Access units, Annex B, in decoding order.
  std::vector<std::int64_t> pts;    ///< Of each packet: the number of its frame in display order.
  std::vector<bool> is_key;
};

/// Encodes with libx264. Deterministic. Aborts when there is no encoder: the test can't go on.
Clip make_clip(const ClipSpec& spec);

/// As make_clip(), but each SPS tells to show only what these margins leave.
Clip crop_clip(const Clip& clip, int left, int right, int top, int bottom);

/// The first video stream of a file: packets and headers as the container has them.
Clip read_clip(const char* path);

/// The clip's access unit with 4-byte lengths in place of start codes (an independent
/// implementation: the product uses libavcodec's filter the other way round).
ByteVector to_length_prefixed(const ByteVector& annexb);

/// An avcC record of the parameter sets among `annexb`; without any it is valid too (avc3).
ByteVector make_avcc_record(const ByteVector& annexb);

/// The NAL units of an Annex B buffer, without start codes.
std::vector<ByteVector> split_nals(std::span<const std::uint8_t> annexb);

struct ReferenceFrame {
  int width = 0;
  int height = 0;
  std::int64_t pts = 0;
  ByteVector nv12;  ///< Rows without padding.
};

/// What libavcodec's software decoder shows, in display order. The packets from `first_packet` on.
std::vector<ReferenceFrame> decode_reference(const Clip& clip, std::size_t first_packet = 0);

}  // namespace cudaframe::test
