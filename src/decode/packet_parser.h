// SPDX-License-Identifier: LGPL-2.1-or-later
// NVCUVID's parser: cuts packets into pictures and says when each is decoded and when shown.
#pragma once

#include <array>
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
  /// The next picture in display order, and the frame number of the packet that it was in.
  virtual Status on_display(const CUVIDPARSERDISPINFO& picture, std::int64_t frame_number) = 0;
};

/// NVDEC's limit (seen with driver 580), and so that of picture indices.
inline constexpr int kMaxDecodeSurfaces = 32;

/// Thread-bound. Touches no device by itself and needs no current context.
class PacketParser {
 public:
  /// `max_display_delay`: pictures that may wait, ready to be shown, while others are decoded.
  static Result<std::unique_ptr<PacketParser>> create(const cuda::Driver& driver, Codec codec,
                                                      int max_display_delay, ParserClient& client);
  ~PacketParser();
  PacketParser(const PacketParser&) = delete;
  PacketParser& operator=(const PacketParser&) = delete;

  /// One access unit. Calls the client for whatever it completes, and returns the first failure of
  /// those calls.
  Status parse(std::span<const std::uint8_t> packet, std::int64_t frame_number);

  /// The end of the stream: everything that is held is decoded and shown.
  Status drain();

 private:
  PacketParser(const cuda::Driver& driver, const cuda::CuvidDriver& cuvid, ParserClient& client)
      : driver_(driver), cuvid_(cuvid), client_(client) {}

  Status run(CUVIDSOURCEDATAPACKET packet);
  void note_number(const CUVIDPICPARAMS& picture);
  bool keep(const Status& status);

  static int CUDAAPI handle_sequence(void* self, CUVIDEOFORMAT* format);
  static int CUDAAPI handle_decode(void* self, CUVIDPICPARAMS* picture);
  static int CUDAAPI handle_display(void* self, CUVIDPARSERDISPINFO* picture);

  const cuda::Driver& driver_;
  const cuda::CuvidDriver& cuvid_;
  ParserClient& client_;
  CUvideoparser handle_ = nullptr;
  std::int64_t frame_number_ = 0;  ///< Of the packet that is being parsed.
  std::array<std::int64_t, kMaxDecodeSurfaces> number_of_picture_{};  ///< By picture index.
  Status error_;          ///< The first failure of the parse that runs.
  bool stopped_ = false;  ///< It ended the delivery.
};

}  // namespace cudaframe::decode
