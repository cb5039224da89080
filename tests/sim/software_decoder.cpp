// SPDX-License-Identifier: LGPL-2.1-or-later
#include "software_decoder.h"

extern "C" {
#include <libavutil/imgutils.h>
#include <libavutil/log.h>
}

#include <algorithm>
#include <cstring>

namespace cudaframe::sim {
namespace {

// libavcodec reads and writes a little past the rows it was asked for.
constexpr int kBufferSlack = 64;
constexpr size_t kMemoryAlignment = 64;

void release_picture(void* opaque, uint8_t*) {
  auto* held = static_cast<PicturePtr*>(opaque);
  (*held)->is_held_by_codec = false;
  delete held;
}

/// Lays the planes out in memory that fits what the codec does with them.
bool allocate_planes(AVCodecContext* context, const AVFrame& frame, Picture* picture,
                     size_t* total) {
  const PixelInfo* pixels = find_pixels(static_cast<AVPixelFormat>(frame.format));
  if (!pixels) return false;
  int width = frame.width;
  int height = frame.height;
  int stride_alignment[AV_NUM_DATA_POINTERS] = {};
  avcodec_align_dimensions2(context, &width, &height, stride_alignment);
  const size_t sample = pixels->bits > 8 ? 2 : 1;
  const int count = pixels->chroma == cudaVideoChromaFormat_Monochrome ? 1 : 3;
  size_t offsets[3] = {};
  *total = 0;
  for (int i = 0; i < count; ++i) {
    const int plane_width = i ? AV_CEIL_RSHIFT(width, pixels->chroma_shift_x) : width;
    const int plane_height = i ? AV_CEIL_RSHIFT(height, pixels->chroma_shift_y) : height;
    const size_t stride =
        (plane_width * sample + kMemoryAlignment - 1) / kMemoryAlignment * kMemoryAlignment;
    picture->strides[i] = static_cast<int>(stride);
    offsets[i] = *total;
    *total += stride * plane_height + kBufferSlack;
    *total = (*total + kMemoryAlignment - 1) / kMemoryAlignment * kMemoryAlignment;
  }
  picture->memory.reset(new uint8_t[*total + kMemoryAlignment]);
  const auto start = reinterpret_cast<uintptr_t>(picture->memory.get());
  auto* base = reinterpret_cast<uint8_t*>((start + kMemoryAlignment - 1) & ~(kMemoryAlignment - 1));
  memset(base, 0x80, *total);
  for (int i = 0; i < count; ++i) picture->planes[i] = base + offsets[i];
  return true;
}

std::unique_ptr<AVCodecContext, AvContextDeleter> make_context(const AVCodec* codec) {
  std::unique_ptr<AVCodecContext, AvContextDeleter> context(avcodec_alloc_context3(codec));
  // The real engine says nothing on stderr about bad streams either.
  if (context) context->log_level_offset = AV_LOG_TRACE;
  return context;
}

}  // namespace

std::unique_ptr<SoftwareDecoder> SoftwareDecoder::create(const CodecInfo& info) {
  const AVCodec* codec = avcodec_find_decoder(info.av_codec);
  if (!codec || !(codec->capabilities & AV_CODEC_CAP_DR1)) return nullptr;
  std::unique_ptr<SoftwareDecoder> made(new SoftwareDecoder);
  made->context_ = make_context(codec);
  made->parser_context_ = make_context(codec);
  made->packet_.reset(av_packet_alloc());
  made->frame_.reset(av_frame_alloc());
  if (!made->context_ || !made->parser_context_ || !made->packet_ || !made->frame_) return nullptr;
  AVCodecContext* context = made->context_.get();
  context->opaque = made.get();
  context->get_buffer2 = get_buffer;
  context->thread_count = 1;
  context->apply_cropping = 0;
  if (avcodec_open2(context, codec, nullptr) < 0) return nullptr;
  made->parser_.reset(av_parser_init(info.av_codec));
  if (made->parser_) made->parser_->flags |= PARSER_FLAG_COMPLETE_FRAMES;
  return made;
}

SoftwareDecoder::~SoftwareDecoder() = default;

int SoftwareDecoder::get_buffer(AVCodecContext* context, AVFrame* frame, int) {
  auto* self = static_cast<SoftwareDecoder*>(context->opaque);
  PicturePtr picture = make_picture();
  size_t size = 0;
  if (!allocate_planes(context, *frame, picture.get(), &size)) return AVERROR(ENOSYS);
  picture->format = static_cast<AVPixelFormat>(frame->format);
  picture->width = context->coded_width;
  picture->height = context->coded_height;
  picture->crop_left = static_cast<int>(frame->crop_left);
  picture->crop_top = static_cast<int>(frame->crop_top);
  picture->crop_right = static_cast<int>(frame->crop_right);
  picture->crop_bottom = static_cast<int>(frame->crop_bottom);
  auto* held = new PicturePtr(picture);
  frame->buf[0] = av_buffer_create(picture->planes[0], size, release_picture, held, 0);
  if (!frame->buf[0]) {
    delete held;
    return AVERROR(ENOMEM);
  }
  for (int i = 0; i < 3; ++i) {
    frame->data[i] = picture->planes[i];
    frame->linesize[i] = picture->strides[i];
  }
  frame->extended_data = frame->data;
  self->started_.push_back(picture);
  self->in_this_packet_.push_back({picture, frame});
  return 0;
}

bool SoftwareDecoder::inspect(const uint8_t* data, size_t size) {
  if (!parser_) return false;
  const AVCodecParserContext before = *parser_;
  uint8_t* unit = nullptr;
  int unit_size = 0;
  av_parser_parse2(parser_.get(), parser_context_.get(), &unit, &unit_size, data,
                   static_cast<int>(size), AV_NOPTS_VALUE, AV_NOPTS_VALUE, 0);
  if (before.width <= 0 || parser_->key_frame != 1) return false;
  return before.width != parser_->width || before.height != parser_->height ||
         before.coded_width != parser_->coded_width ||
         before.coded_height != parser_->coded_height || before.format != parser_->format;
}

void SoftwareDecoder::decode(const uint8_t* data, size_t size, int64_t timestamp) {
  // libavcodec wants zeroes behind the data: a copy.
  if (av_new_packet(packet_.get(), static_cast<int>(size)) < 0) return;
  memcpy(packet_->data, data, size);
  packet_->pts = timestamp;
  const int result = avcodec_send_packet(context_.get(), packet_.get());
  av_packet_unref(packet_.get());
  read_late_crop();
  if (result < 0 && !started_.empty()) started_.back()->is_damaged = true;
  receive();
}

// HEVC sets a picture's crop after it has got the buffer. The codec's own frame stays where it is
// as long as the codec holds the picture.
void SoftwareDecoder::read_late_crop() {
  for (const Started& started : in_this_packet_) {
    if (context_->codec_id != AV_CODEC_ID_HEVC || !started.picture->is_held_by_codec) continue;
    started.picture->crop_left = static_cast<int>(started.frame->crop_left);
    started.picture->crop_top = static_cast<int>(started.frame->crop_top);
    started.picture->crop_right = static_cast<int>(started.frame->crop_right);
    started.picture->crop_bottom = static_cast<int>(started.frame->crop_bottom);
  }
  in_this_packet_.clear();
}

void SoftwareDecoder::receive() {
  while (avcodec_receive_frame(context_.get(), frame_.get()) >= 0) {
    if (frame_->buf[0]) {
      Output output;
      output.picture = *static_cast<PicturePtr*>(av_buffer_get_opaque(frame_->buf[0]));
      ++output.picture->pending_displays;  // at once: the codec may have let go of it already
      output.timestamp = frame_->pts;
#if LIBAVUTIL_VERSION_INT >= AV_VERSION_INT(58, 7, 100)
      output.is_interlaced = (frame_->flags & AV_FRAME_FLAG_INTERLACED) != 0;
      output.is_top_first = (frame_->flags & AV_FRAME_FLAG_TOP_FIELD_FIRST) != 0;
#else
      output.is_interlaced = frame_->interlaced_frame != 0;
      output.is_top_first = frame_->top_field_first != 0;
#endif
      output.repeat = frame_->repeat_pict;
      outputs_.push_back(std::move(output));
    }
    av_frame_unref(frame_.get());
  }
  read_late_crop();
}

void SoftwareDecoder::drain() {
  avcodec_send_packet(context_.get(), nullptr);
  receive();
  avcodec_flush_buffers(context_.get());
}

bool SoftwareDecoder::is_field() const {
  return parser_ && (parser_->picture_structure == AV_PICTURE_STRUCTURE_TOP_FIELD ||
                     parser_->picture_structure == AV_PICTURE_STRUCTURE_BOTTOM_FIELD);
}

bool SoftwareDecoder::is_interlaced() const {
  return is_field() || (parser_ && parser_->field_order > AV_FIELD_PROGRESSIVE);
}

}  // namespace cudaframe::sim
