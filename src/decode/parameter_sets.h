// SPDX-License-Identifier: LGPL-2.1-or-later
// The H.264 parameter sets that a stream has shown so far, for decoders that start in its middle.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <vector>

namespace cudaframe::decode {

/// Remembers the latest SPS and PPS under each id. Reentrant.
class ParameterSets {
 public:
  using Bytes = std::span<const std::uint8_t>;

  /// Looks at the NAL units of an Annex B packet up to the first slice (no further: the cost must
  /// not grow with the size of the picture) and remembers the sets among them. True when the packet
  /// itself carries every set that is known, that is when it can be decoded from on its own.
  bool observe(Bytes packet);

  /// All known sets with start codes, each SPS before each PPS.
  std::vector<std::uint8_t> to_annexb() const;

  bool empty() const { return sets_.empty(); }
  void clear() { sets_.clear(); }

 private:
  enum class Kind : std::uint8_t { sps, pps };
  struct Key {
    Kind kind;
    std::uint32_t id;
    auto operator<=>(const Key&) const = default;
  };

  bool remember(Bytes nal, Key* key);

  std::map<Key, std::vector<std::uint8_t>> sets_;
  std::vector<Key> in_packet_;  ///< Kept to save an allocation per packet.
};

}  // namespace cudaframe::decode
