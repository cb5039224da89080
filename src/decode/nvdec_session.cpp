// SPDX-License-Identifier: LGPL-2.1-or-later
#include "decode/nvdec_session.h"

#include <algorithm>
#include <numeric>

#include "base/log.h"
#include "decode/codec_info.h"
#include "decode/decoder_cache.h"
#include "memory/frame_copy.h"

namespace cudaframe::decode {
namespace {

// Beyond the stream's minimum, so that the engine is not held up by pictures that wait to be shown.
constexpr int kSpareDecodeSurfaces = 4;

Rational reduced(std::int64_t num, std::int64_t den) {
  if (num <= 0 || den <= 0) return {0, 1};
  const std::int64_t divisor = std::gcd(num, den);
  num /= divisor;
  den /= divisor;
  if (num > INT32_MAX || den > INT32_MAX) return {0, 1};
  return {static_cast<int>(num), static_cast<int>(den)};
}

SequenceInfo to_sequence_info(Codec codec, const CUVIDEOFORMAT& format) {
  SequenceInfo info;
  info.kind = {codec, format.chroma_format,
               8 + std::max(format.bit_depth_luma_minus8, format.bit_depth_chroma_minus8)};
  info.coded_width = static_cast<int>(format.coded_width);
  info.coded_height = static_cast<int>(format.coded_height);
  info.display_area = {format.display_area.left, format.display_area.top, format.display_area.right,
                       format.display_area.bottom};
  info.frame_rate = reduced(format.frame_rate.numerator, format.frame_rate.denominator);
  // The parser tells the shape of the picture; one pixel's is that by the picture's size.
  info.pixel_aspect_ratio =
      reduced(std::int64_t{format.display_aspect_ratio.x} * info.display_area.height(),
              std::int64_t{format.display_aspect_ratio.y} * info.display_area.width());
  info.progressive = format.progressive_sequence != 0;
  info.matrix = format.video_signal_description.matrix_coefficients;
  info.transfer = format.video_signal_description.transfer_characteristics;
  info.primaries = format.video_signal_description.color_primaries;
  info.full_range = format.video_signal_description.video_full_range_flag != 0;
  return info;
}

Status check_geometry(const SequenceInfo& sequence) {
  const Rect& area = sequence.display_area;
  if (area.left >= 0 && area.top >= 0 && area.width() > 0 && area.height() > 0 &&
      area.right <= sequence.coded_width && area.bottom <= sequence.coded_height) {
    return {};
  }
  return Status(StatusCode::bad_data, "the stream shows an area outside of its pictures");
}

Status check_output_format(const StreamKind& kind) {
  if (kind.chroma == cudaVideoChromaFormat_420 && kind.bit_depth == 8) return {};
  return Status(StatusCode::not_supported,
                describe(kind) + " is not handled: 4:2:0 with 8 bits is");
}

}  // namespace

NvdecSession::NvdecSession(cuda::StreamPtr stream, const SessionConfig& config,
                           SessionClient& client)
    : stream_(std::move(stream)),
      client_(client),
      codec_(config.codec),
      wanted_surfaces_(config.decode_surfaces),
      max_display_delay_(config.max_display_delay) {}

Result<std::unique_ptr<NvdecSession>> NvdecSession::create(cuda::StreamPtr stream,
                                                           const SessionConfig& config,
                                                           SessionClient& client) {
  std::unique_ptr<NvdecSession> session(new NvdecSession(std::move(stream), config, client));
  CUDAFRAME_TRY(session->reconfigure(config.format, config.codec_data));
  CUDAFRAME_TRY(session->open_parser());
  return session;
}

NvdecSession::~NvdecSession() {
  parser_.reset();
  close_decoder();
}

Status NvdecSession::reconfigure(StreamFormat format, std::span<const std::uint8_t> codec_data) {
  Result<std::unique_ptr<Bitstream>> made = Bitstream::create(codec_, format, codec_data);
  if (!made) return made.status();
  bitstream_ = std::move(*made);
  return {};
}

Status NvdecSession::open_parser() {
  parser_.reset();
  Result<std::unique_ptr<PacketParser>> made =
      PacketParser::create(stream_->context().driver(), codec_, max_display_delay_, *this);
  if (!made) return made.status();
  parser_ = std::move(*made);
  return {};
}

Status NvdecSession::submit(const InputPacket& packet, std::int64_t frame_number) {
  if (is_interrupted_) CUDAFRAME_TRY(flush());
  CUDAFRAME_TRY(bitstream_->begin(packet));
  Status outcome;
  while (true) {
    Result<Bitstream::Bytes> piece = bitstream_->next();
    if (!piece) return piece.status();
    if (piece->empty()) return outcome;
    const Status parsed = note(parser_->parse(*piece, frame_number));
    if (is_interrupted_) return parsed;
    if (outcome.ok()) outcome = parsed;
  }
}

Status NvdecSession::drain() {
  if (is_interrupted_) return flush();
  bitstream_->restart();
  return note(parser_->drain());
}

Status NvdecSession::note(Status parsed) {
  is_interrupted_ = !parsed.ok() && parsed.code() != StatusCode::bad_data;
  return parsed;
}

// The parser has no call that forgets: a discontinuity flag makes it show what it holds, and so
// does an end of stream. A new one costs microseconds; the decoder stays.
Status NvdecSession::flush() {
  bitstream_->restart();
  CUDAFRAME_TRY(open_parser());
  is_interrupted_ = false;
  return {};
}

Result<int> NvdecSession::on_sequence(const CUVIDEOFORMAT& format) {
  const SequenceInfo sequence = to_sequence_info(codec_, format);
  CUDAFRAME_TRY(check_output_format(sequence.kind));
  CUDAFRAME_TRY(check_supported(stream_->context(), sequence.kind, sequence.coded_width,
                                sequence.coded_height, cudaVideoSurfaceFormat_NV12));
  CUDAFRAME_TRY(check_geometry(sequence));
  CUDAFRAME_TRY(prepare_decoder(sequence, format.min_num_decode_surfaces));
  if (!is_announced_ || sequence != sequence_) {
    is_announced_ = false;
    sequence_ = sequence;
    Result<memory::FrameLayout> layout = memory::make_device_layout(
        PixelFormat::nv12, sequence.display_area.width(), sequence.display_area.height());
    if (!layout) return layout.status();
    layout_ = *layout;
    CUDAFRAME_TRY(client_.on_sequence(sequence));
    is_announced_ = true;
  }
  return decoder_->spec().decode_surfaces;
}

// The parser has shown all pictures of the sequence before, so the decoder can go.
Status NvdecSession::prepare_decoder(const SequenceInfo& sequence, int min_surfaces) {
  DecoderSpec spec{.kind = sequence.kind,
                   .coded_width = sequence.coded_width,
                   .coded_height = sequence.coded_height,
                   .display_area = sequence.display_area,
                   .surface = cudaVideoSurfaceFormat_NV12};
  spec.decode_surfaces = wanted_surfaces_ > 0 ? std::max(wanted_surfaces_, min_surfaces)
                                              : min_surfaces + kSpareDecodeSurfaces;
  spec.decode_surfaces = std::min(spec.decode_surfaces, kMaxDecodeSurfaces);
  if (decoder_) {
    const int surfaces = decoder_->spec().decode_surfaces;
    if (surfaces >= spec.decode_surfaces) spec.decode_surfaces = surfaces;
    if (decoder_->spec() == spec) return {};
  }
  close_decoder();
  Result<std::unique_ptr<NvdecDecoder>> made = DecoderCache::instance().acquire(stream_, spec);
  if (!made) return made.status();
  decoder_ = std::move(*made);
  return {};
}

Status NvdecSession::on_decode(CUVIDPICPARAMS& picture) {
  if (!decoder_) return Status(StatusCode::bad_data, "a picture came before any sequence");
  cuda::ContextScope scope(stream_->context());
  CUDAFRAME_TRY(scope.status());
  return decoder_->decode(picture);
}

Status NvdecSession::on_display(const CUVIDPARSERDISPINFO& picture, std::int64_t frame_number) {
  if (!decoder_ || !decoder_->has(picture.picture_index)) {
    log(LogLevel::debug, "decode", "picture %d was never decoded: not shown",
        picture.picture_index);
    return {};
  }
  if (!client_.wants_picture(frame_number)) return {};
  Result<memory::FramePtr> frame = client_.allocate(layout_);
  if (!frame) return frame.status();
  PictureFlags flags{.progressive = picture.progressive_frame != 0,
                     .top_field_first = picture.top_field_first != 0,
                     .repeat_first_field = picture.repeat_first_field};
  CUDAFRAME_TRY(copy_out(picture, **frame, &flags));
  return client_.on_picture(std::move(*frame), frame_number, flags);
}

// Note [Unmap right after queueing]: the copy is queued on the stream that the surface was mapped
// for, and the decoder orders the surface's next use behind that stream's work. On any other stream
// the surface would have to stay mapped until the copy is done.
Status NvdecSession::copy_out(const CUVIDPARSERDISPINFO& picture, memory::Frame& frame,
                              PictureFlags* flags) {
  cuda::ContextScope scope(stream_->context());
  CUDAFRAME_TRY(scope.status());
  Result<MappedPicture> mapped = decoder_->map(picture, *stream_);
  if (!mapped) return mapped.status();
  flags->corrupted = decoder_->is_corrupted(picture.picture_index);
  const memory::FrameView from{.layout = mapped->layout(), .device = mapped->address()};
  CUDAFRAME_TRY(memory::copy_async(stream_->context(), memory::FrameView::of(frame), from,
                                   stream_->handle()));
  CUDAFRAME_TRY(frame.fence().record_write(stream_));
  return mapped->unmap();
}

void NvdecSession::close_decoder() {
  if (decoder_) DecoderCache::instance().release(std::move(decoder_), stream_);
}

}  // namespace cudaframe::decode
