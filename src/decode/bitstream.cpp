// SPDX-License-Identifier: LGPL-2.1-or-later
#include "decode/bitstream.h"

#include <cstring>

extern "C" {
#include <libavcodec/bsf.h>
#include <libavcodec/defs.h>
#include <libavutil/error.h>
#include <libavutil/mem.h>
}

#include "decode/codec_info.h"

namespace cudaframe::decode {
namespace {

constexpr std::uint8_t kAvccVersion = 1;  // configurationVersion of an avcC record

Status from_libav(int error, const char* what) {
  char text[AV_ERROR_MAX_STRING_SIZE] = "";
  av_strerror(error, text, sizeof text);
  const StatusCode code =
      error == AVERROR(ENOMEM) ? StatusCode::out_of_memory : StatusCode::bad_data;
  return Status(code, std::string(what) + ": " + text, error);
}

Status no_memory() {
  return Status(StatusCode::out_of_memory, "out of host memory");
}

void leave_to_caller(void*, std::uint8_t*) {}

Status set_extradata(AVCodecParameters* parameters, Bitstream::Bytes codec_data) {
  const std::size_t size = codec_data.size();
  auto* copy = static_cast<std::uint8_t*>(av_mallocz(size + AV_INPUT_BUFFER_PADDING_SIZE));
  if (!copy) return no_memory();
  std::memcpy(copy, codec_data.data(), size);
  parameters->extradata = copy;
  parameters->extradata_size = static_cast<int>(size);
  return {};
}

}  // namespace

void Bitstream::FilterDeleter::operator()(AVBSFContext* filter) const {
  av_bsf_free(&filter);
}
void Bitstream::PacketDeleter::operator()(AVPacket* packet) const {
  av_packet_free(&packet);
}

Bitstream::Bitstream() = default;
Bitstream::~Bitstream() = default;

Result<std::unique_ptr<Bitstream>> Bitstream::create(Codec codec, StreamFormat format,
                                                     Bytes codec_data) {
  std::unique_ptr<Bitstream> stream(new Bitstream);
  const bool is_record = !codec_data.empty() && codec_data[0] == kAvccVersion;
  if (format == StreamFormat::length_prefixed && !is_record) {
    return Status(StatusCode::invalid_argument,
                  std::string(codec_info(codec).name) +
                      " with length prefixes needs an avcC record as codec_data");
  }
  if (is_record) {
    CUDAFRAME_TRY(stream->open_filter(codec, codec_data));
    stream->sets_.observe({stream->filter_->par_out->extradata,
                           static_cast<std::size_t>(stream->filter_->par_out->extradata_size)});
    if (format == StreamFormat::byte_stream) stream->filter_.reset();
  } else {
    stream->sets_.observe(codec_data);
  }
  return stream;
}

Status Bitstream::open_filter(Codec codec, Bytes codec_data) {
  const AVBitStreamFilter* kind = av_bsf_get_by_name(codec_info(codec).to_annexb);
  if (!kind) {
    return Status(StatusCode::not_supported,
                  std::string("this libavcodec has no ") + codec_info(codec).to_annexb + " filter");
  }
  AVBSFContext* made = nullptr;
  if (av_bsf_alloc(kind, &made) < 0) return no_memory();
  filter_.reset(made);
  input_.reset(av_packet_alloc());
  output_.reset(av_packet_alloc());
  if (!input_ || !output_) return no_memory();
  filter_->par_in->codec_type = AVMEDIA_TYPE_VIDEO;
  filter_->par_in->codec_id = codec_info(codec).libav;
  CUDAFRAME_TRY(set_extradata(filter_->par_in, codec_data));
  const int error = av_bsf_init(filter_.get());
  return error < 0 ? from_libav(error, "codec_data can't be read") : Status();
}

// The filter takes only reference-counted packets; a wrapper whose free function does nothing lets
// it read the caller's bytes, which outlive the filtering.
Status Bitstream::send_to_filter(const InputPacket& packet) {
  av_packet_unref(input_.get());
  const std::size_t size = packet.bytes.size();
  if (packet.readable_after >= AV_INPUT_BUFFER_PADDING_SIZE) {
    auto* data = const_cast<std::uint8_t*>(packet.bytes.data());  // NOLINT: marked read-only below
    input_->buf = av_buffer_create(data, size + AV_INPUT_BUFFER_PADDING_SIZE, leave_to_caller,
                                   nullptr, AV_BUFFER_FLAG_READONLY);
    if (!input_->buf) return no_memory();
    input_->data = data;
    input_->size = static_cast<int>(size);
  } else {
    if (av_new_packet(input_.get(), static_cast<int>(size)) < 0) return no_memory();
    std::memcpy(input_->data, packet.bytes.data(), size);
  }
  const int error = av_bsf_send_packet(filter_.get(), input_.get());
  return error < 0 ? from_libav(error, "the bitstream filter refused a packet") : Status();
}

Status Bitstream::begin(const InputPacket& packet) {
  if (packet.bytes.empty() || packet.bytes.size() > INT32_MAX - AV_INPUT_BUFFER_PADDING_SIZE) {
    return Status(StatusCode::bad_data,
                  "a packet of " + std::to_string(packet.bytes.size()) + " bytes");
  }
  if (filter_) return send_to_filter(packet);
  pending_ = packet.bytes;
  return {};
}

Result<Bitstream::Bytes> Bitstream::next() {
  Bytes piece;
  if (filter_) {
    av_packet_unref(output_.get());
    const int error = av_bsf_receive_packet(filter_.get(), output_.get());
    if (error == AVERROR(EAGAIN) || error == AVERROR_EOF) return Bytes();
    if (error < 0) return from_libav(error, "a packet is damaged");
    piece = {output_->data, static_cast<std::size_t>(output_->size)};
  } else {
    piece = std::exchange(pending_, Bytes());
  }
  return piece.empty() ? piece : with_parameter_sets(piece);
}

// Note [Parameter sets once]: libavcodec's filter puts codec_data's sets in front of IDR pictures,
// but a stream may also start at a recovery point, and a byte stream gets nothing at all. So the
// first packet is looked into: it gets the sets unless it has all of them, whoever put them there.
// Sets that it carries itself stand behind ours and win.
Bitstream::Bytes Bitstream::with_parameter_sets(Bytes packet) {
  const bool complete = sets_.observe(packet);
  if (!std::exchange(at_start_, false) || complete) return packet;
  joined_ = sets_.to_annexb();
  joined_.insert(joined_.end(), packet.begin(), packet.end());
  return joined_;
}

void Bitstream::restart() {
  if (filter_) {
    av_bsf_flush(filter_.get());
    av_packet_unref(input_.get());
    av_packet_unref(output_.get());
  }
  pending_ = {};
  at_start_ = true;
}

}  // namespace cudaframe::decode
