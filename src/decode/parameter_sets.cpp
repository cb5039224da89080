// SPDX-License-Identifier: LGPL-2.1-or-later
#include "decode/parameter_sets.h"

#include <algorithm>
#include <cstddef>
#include <optional>

namespace cudaframe::decode {
namespace {

using Bytes = ParameterSets::Bytes;

constexpr int kFirstSliceType = 1;  // ITU-T H.264, table 7-1
constexpr int kLastSliceType = 5;
constexpr int kSpsType = 7;
constexpr int kPpsType = 8;
constexpr std::uint32_t kMaxSpsId = 31;
constexpr std::uint32_t kMaxPpsId = 255;
constexpr std::size_t kStartCodeBytes = 3;

/// The offset of the next 00 00 01 at or after `from`; the size when there is none.
std::size_t find_start_code(Bytes data, std::size_t from) {
  std::size_t i = from;
  while (i + kStartCodeBytes <= data.size()) {
    if (data[i + 2] > 1) {
      i += 3;
    } else if (data[i] == 0 && data[i + 1] == 0 && data[i + 2] == 1) {
      return i;
    } else {
      ++i;
    }
  }
  return data.size();
}

/// ue(v) at the start of `data`, at most 16 leading zero bits. The ids read with it are too small
/// for emulation prevention bytes to fall inside them.
std::optional<std::uint32_t> read_exp_golomb(Bytes data) {
  std::size_t bit = 0;
  const auto next = [&]() -> int {
    if (bit >= data.size() * 8) return -1;
    const int value = (data[bit / 8] >> (7 - bit % 8)) & 1;
    ++bit;
    return value;
  };
  int zeros = 0;
  int value = next();
  while (value == 0 && zeros < 16) {
    ++zeros;
    value = next();
  }
  if (value != 1) return std::nullopt;
  std::uint32_t code = 1;
  for (int i = 0; i < zeros; ++i) {
    value = next();
    if (value < 0) return std::nullopt;
    code = code << 1 | static_cast<std::uint32_t>(value);
  }
  return code - 1;
}

}  // namespace

bool ParameterSets::remember(Bytes nal, Key* key) {
  const int type = nal[0] & 0x1f;
  const bool is_sps = type == kSpsType;
  // An SPS has profile, constraint flags and level in front of its id.
  const std::size_t id_offset = is_sps ? 4 : 1;
  if (nal.size() <= id_offset) return false;
  const std::optional<std::uint32_t> id = read_exp_golomb(nal.subspan(id_offset));
  if (!id || *id > (is_sps ? kMaxSpsId : kMaxPpsId)) return false;
  *key = {is_sps ? Kind::sps : Kind::pps, *id};
  std::vector<std::uint8_t>& stored = sets_[*key];
  if (!std::equal(stored.begin(), stored.end(), nal.begin(), nal.end())) {
    stored.assign(nal.begin(), nal.end());
  }
  return true;
}

bool ParameterSets::observe(Bytes packet) {
  in_packet_.clear();
  std::size_t start = find_start_code(packet, 0);
  while (start + kStartCodeBytes < packet.size()) {
    const std::size_t begin = start + kStartCodeBytes;
    const int type = packet[begin] & 0x1f;
    if (type >= kFirstSliceType && type <= kLastSliceType) break;
    const std::size_t next = find_start_code(packet, begin);
    if (type == kSpsType || type == kPpsType) {
      std::size_t end = next;
      while (end > begin + 1 && packet[end - 1] == 0) --end;  // trailing_zero_8bits
      Key key{};
      if (remember(packet.subspan(begin, end - begin), &key)) in_packet_.push_back(key);
    }
    start = next;
  }
  return std::all_of(sets_.begin(), sets_.end(), [this](const auto& entry) {
    return std::find(in_packet_.begin(), in_packet_.end(), entry.first) != in_packet_.end();
  });
}

std::vector<std::uint8_t> ParameterSets::to_annexb() const {
  static constexpr std::uint8_t kStartCode[] = {0, 0, 0, 1};
  std::vector<std::uint8_t> bytes;
  for (const auto& [key, nal] : sets_) {
    bytes.insert(bytes.end(), std::begin(kStartCode), std::end(kStartCode));
    bytes.insert(bytes.end(), nal.begin(), nal.end());
  }
  return bytes;
}

}  // namespace cudaframe::decode
