// SPDX-License-Identifier: LGPL-2.1-or-later
// Turns a container's packets into what the decoder's parser takes: Annex B, parameter sets first.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/media_types.h"
#include "base/result.h"
#include "decode/parameter_sets.h"

struct AVBSFContext;
struct AVPacket;

namespace cudaframe::decode {

enum class StreamFormat {
  length_prefixed,  ///< avc, avc3: NAL units behind their length; codec_data is an avcC record.
  byte_stream,      ///< Annex B start codes.
};

/// One packet of the caller's. `readable_after` says how many bytes behind `bytes` may be read:
/// with AV_INPUT_BUFFER_PADDING_SIZE or more the packet is filtered in place, else from a copy.
struct InputPacket {
  std::span<const std::uint8_t> bytes;
  std::size_t readable_after = 0;
};

/// Thread-bound. Byte streams pass through without a copy, but for the first packet after a start,
/// which gets the known parameter sets in front unless it carries them itself.
class Bitstream {
 public:
  using Bytes = std::span<const std::uint8_t>;

  /// `codec_data` may be empty for byte streams. invalid_argument when it is no avcC record though
  /// the format needs one; bad_data when the filter can't read it.
  static Result<std::unique_ptr<Bitstream>> create(Codec codec, StreamFormat format,
                                                   Bytes codec_data);

  ~Bitstream();
  Bitstream(const Bitstream&) = delete;
  Bitstream& operator=(const Bitstream&) = delete;

  /// Takes a packet, which must stay alive until next() has given its last piece. bad_data when the
  /// filter refuses it; the next packet may be fine.
  Status begin(const InputPacket& packet);

  /// The next piece of output, alive until the following call; empty when there is no more.
  Result<Bytes> next();

  /// The next packet starts a stream anew: what is held is dropped, and the known parameter sets
  /// (codec_data's, then those seen since) will go in front.
  void restart();

 private:
  struct FilterDeleter {
    void operator()(AVBSFContext* filter) const;
  };
  struct PacketDeleter {
    void operator()(AVPacket* packet) const;
  };

  Bitstream();
  Status open_filter(Codec codec, Bytes codec_data);
  Status send_to_filter(const InputPacket& packet);
  Bytes with_parameter_sets(Bytes packet);

  std::unique_ptr<AVBSFContext, FilterDeleter> filter_;  ///< Null: packets pass through.
  std::unique_ptr<AVPacket, PacketDeleter> input_;
  std::unique_ptr<AVPacket, PacketDeleter> output_;
  Bytes pending_;  ///< Of the pass-through path.
  ParameterSets sets_;
  bool at_start_ = true;
  std::vector<std::uint8_t> joined_;  ///< The first packet with its parameter sets.
};

}  // namespace cudaframe::decode
