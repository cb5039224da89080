// SPDX-License-Identifier: LGPL-2.1-or-later
// NVCUVID's parser: cuts packets into pictures and says when each is decoded and when shown.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "base/media_types.h"
#include "base/result.h"
#include "cuda/context.h"

namespace cudaframe::decode {

/// What the parser tells, on the thread that parses, from inside PacketParser's calls. A bad_data
/// from here is kept for the caller and parsing goes on; any other failure ends the delivery.
class ParserClient {
 public:
  virtual ~ParserClient() = default;
  /// A sequence begins, or is repeated. The number of decode surfaces that the decoder has.
  virtual Result<int> on_sequence(const CUVIDEOFORMAT& format) = 0;
  /// The next picture in decoding order.
  virtual Status on_decode(CUVIDPICPARAMS& picture) = 0;
  /// The next picture in display order; `timestamp` is the frame number of its packet.
  virtual Status on_display(const CUVIDPARSERDISPINFO& picture) = 0;
};

/// Thread-bound. Touches no device by itself and needs no current context.
class PacketParser {
 public:
  /// `max_display_delay`: pictures that may wait, ready to be shown, while others are decoded.
  static Result<std::unique_ptr<PacketParser>> create(const cuda::Driver& driver, Codec codec,
                                                      int max_display_delay, ParserClient& client);
  ~PacketParser();
  PacketParser(const PacketParser&) = delete;
  PacketParser& operator=(const PacketParser&) = delete;

  /// Calls the client for whatever the packet completes, and returns the first failure of those
  /// calls. `whole_picture`: the packet is an access unit, so its picture need not wait for the
  /// next packet to show where it ends.
  Status parse(std::span<const std::uint8_t> packet, std::int64_t frame_number, bool whole_picture);

  /// The end of the stream: everything that is held is decoded and shown.
  Status drain();

 private:
  PacketParser(const cuda::Driver& driver, const cuda::CuvidDriver& cuvid, ParserClient& client)
      : driver_(driver), cuvid_(cuvid), client_(client) {}

  Status run(CUVIDSOURCEDATAPACKET packet);
  bool keep(const Status& status);

  static int CUDAAPI handle_sequence(void* self, CUVIDEOFORMAT* format);
  static int CUDAAPI handle_decode(void* self, CUVIDPICPARAMS* picture);
  static int CUDAAPI handle_display(void* self, CUVIDPARSERDISPINFO* picture);

  const cuda::Driver& driver_;
  const cuda::CuvidDriver& cuvid_;
  ParserClient& client_;
  CUvideoparser handle_ = nullptr;
  Status error_;          ///< The first failure of the parse that runs.
  bool stopped_ = false;  ///< It ended the delivery.
};

}  // namespace cudaframe::decode
