// SPDX-License-Identifier: LGPL-2.1-or-later
#include "unit_splitter.h"

#include <cstring>

namespace cudaframe::sim {

UnitSplitter::UnitSplitter(const CodecInfo& codec) : codec_(codec) {
  reset();
}

void UnitSplitter::reset() {
  const AVCodec* decoder = avcodec_find_decoder(codec_.av_codec);
  parser_.reset(av_parser_init(codec_.av_codec));
  context_.reset(avcodec_alloc_context3(decoder));
  if (context_) context_->log_level_offset = AV_LOG_TRACE;
  is_pending_ = false;
}

void UnitSplitter::push(const uint8_t* data, size_t size, int64_t timestamp, bool ends_unit,
                        const Sink& sink) {
  // Nothing to cut: codecs without a parser give whole units always.
  if (!parser_ || !context_) return sink(data, size, timestamp);
  parse(data, size, timestamp, sink);
  is_pending_ = true;
  if (ends_unit) flush(sink);
}

void UnitSplitter::flush(const Sink& sink) {
  if (!is_pending_) return;
  parse(nullptr, 0, AV_NOPTS_VALUE, sink);
  reset();  // a parser that has seen the end takes no more
}

void UnitSplitter::parse(const uint8_t* data, size_t size, int64_t timestamp, const Sink& sink) {
  // Parsers read past the end.
  std::vector<uint8_t> padded(size + AV_INPUT_BUFFER_PADDING_SIZE);
  if (size) memcpy(padded.data(), data, size);
  const uint8_t* at = padded.data();
  do {
    uint8_t* unit = nullptr;
    int unit_size = 0;
    const int used = av_parser_parse2(parser_.get(), context_.get(), &unit, &unit_size, at,
                                      static_cast<int>(size), timestamp, AV_NOPTS_VALUE, 0);
    timestamp = AV_NOPTS_VALUE;  // of the first unit that starts in this piece
    at += used;
    size -= static_cast<size_t>(used);
    if (unit_size > 0) sink(unit, static_cast<size_t>(unit_size), parser_->pts);
    if (unit_size == 0 && used == 0) break;
  } while (size > 0);
}

}  // namespace cudaframe::sim
