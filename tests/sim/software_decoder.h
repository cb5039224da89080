// SPDX-License-Identifier: LGPL-2.1-or-later
// libavcodec as the simulated decode engine: one thread, its pictures in our buffers.
#pragma once

extern "C" {
#include <libavcodec/avcodec.h>
}

#include <deque>
#include <memory>
#include <utility>
#include <vector>

#include "cuvid_caps.h"
#include "pictures.h"

namespace cudaframe::sim {

struct AvContextDeleter {
  void operator()(AVCodecContext* context) const { avcodec_free_context(&context); }
};
struct AvParserDeleter {
  void operator()(AVCodecParserContext* parser) const { av_parser_close(parser); }
};
struct AvPacketDeleter {
  void operator()(AVPacket* packet) const { av_packet_free(&packet); }
};
struct AvFrameDeleter {
  void operator()(AVFrame* frame) const { av_frame_free(&frame); }
};

/// A picture in display order, already counted in its pending_displays.
struct Output {
  PicturePtr picture;
  int64_t timestamp = AV_NOPTS_VALUE;
  bool is_interlaced = false;
  bool is_top_first = false;
  int repeat = 0;
};

/// Thread-bound.
class SoftwareDecoder {
 public:
  /// Null if this libavcodec has no such decoder.
  static std::unique_ptr<SoftwareDecoder> create(const CodecInfo& codec);
  ~SoftwareDecoder();

  /// Reads the headers of one access unit ahead of decoding it. True if it starts a sequence of
  /// another size or format than the last unit's.
  bool inspect(const uint8_t* data, size_t size);

  void decode(const uint8_t* data, size_t size, int64_t timestamp);
  /// Gets everything out; new data may follow.
  void drain();

  /// Pictures whose decoding began since the last call, in order.
  std::vector<PicturePtr> take_started() { return std::exchange(started_, {}); }
  std::deque<Output> take_outputs() { return std::exchange(outputs_, {}); }

  const AVCodecContext& context() const { return *context_; }
  /// Of the unit inspected last.
  bool is_field() const;
  bool is_interlaced() const;
  bool is_intra() const { return parser_ && parser_->pict_type == AV_PICTURE_TYPE_I; }
  bool is_reference() const { return !parser_ || parser_->pict_type != AV_PICTURE_TYPE_B; }

 private:
  SoftwareDecoder() = default;
  static int get_buffer(AVCodecContext* context, AVFrame* frame, int flags);
  void receive();
  void read_late_crop();

  struct Started {
    PicturePtr picture;
    AVFrame* frame;  ///< the codec's own
  };

  std::unique_ptr<AVCodecContext, AvContextDeleter> context_;
  /// Describes units to us; may be null for codecs without a parser.
  std::unique_ptr<AVCodecParserContext, AvParserDeleter> parser_;
  std::unique_ptr<AVCodecContext, AvContextDeleter> parser_context_;
  std::unique_ptr<AVPacket, AvPacketDeleter> packet_;
  std::unique_ptr<AVFrame, AvFrameDeleter> frame_;
  std::vector<PicturePtr> started_;
  std::vector<Started> in_this_packet_;
  std::deque<Output> outputs_;
};

}  // namespace cudaframe::sim
