// SPDX-License-Identifier: LGPL-2.1-or-later
// What libavformat by itself finds in a file, for the demuxer's tests to compare with.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace cudaframe::test {

struct ReferencePacket {
  int stream = 0;
  std::optional<std::int64_t> pts_ns;  ///< In container time.
  std::optional<std::int64_t> dts_ns;
  std::int64_t duration_ns = 0;  ///< 0 where it isn't known.
  std::size_t size = 0;
  std::uint32_t sum = 0;
  bool is_key = false;
  bool is_hidden = false;  ///< By an edit list.
};

struct ReferenceFile {
  std::vector<std::string> codecs;  ///< By stream index.
  std::vector<bool> is_av;          ///< Audio, or video that is no cover.
  std::vector<std::vector<std::uint8_t>> extradata;
  std::int64_t start_ns = 0;  ///< Of the earliest audio or video stream.
  std::vector<ReferencePacket> packets;
  std::vector<ReferencePacket> of_stream(int stream) const;
  int video() const;  ///< The stream that is no cover.
};

/// Aborts when the file can't be read: the test can't go on.
ReferenceFile read_reference(const std::string& path);

/// Of `data`, as in ReferencePacket.
std::uint32_t sum_of(const std::uint8_t* data, std::size_t size);

/// A file of demux_clips.sh.
std::string demux_clip(const std::string& name);

/// All bytes of a file.
std::vector<std::uint8_t> read_bytes(const std::string& path);

}  // namespace cudaframe::test
