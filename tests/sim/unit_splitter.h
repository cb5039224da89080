// SPDX-License-Identifier: LGPL-2.1-or-later
// Cuts a stream of arbitrary pieces into access units, by libavcodec's parsers.
#pragma once

#include <functional>

#include "software_decoder.h"

namespace cudaframe::sim {

/// Thread-bound.
class UnitSplitter {
 public:
  /// Called for each unit.
  using Sink = std::function<void(const uint8_t* data, size_t size, int64_t timestamp)>;

  explicit UnitSplitter(const CodecInfo& codec);

  /// Feeds a piece, which may hold parts of several units. `ends_unit`: the last one is complete.
  void push(const uint8_t* data, size_t size, int64_t timestamp, bool ends_unit, const Sink& sink);
  /// The data so far ends a unit.
  void flush(const Sink& sink);
  /// Forgets what is pending.
  void reset();

 private:
  void parse(const uint8_t* data, size_t size, int64_t timestamp, const Sink& sink);

  const CodecInfo& codec_;
  std::unique_ptr<AVCodecParserContext, AvParserDeleter> parser_;
  std::unique_ptr<AVCodecContext, AvContextDeleter> context_;
  bool is_pending_ = false;
};

}  // namespace cudaframe::sim
