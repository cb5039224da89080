// SPDX-License-Identifier: LGPL-2.1-or-later
#include "cuvid_parser.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "sequence_format.h"
#include "sim_internal.h"

namespace cudaframe::sim {
namespace {

constexpr unsigned kMaxSurfaces = 32;
constexpr int64_t kDefaultClock = 10'000'000;
constexpr int64_t kDefaultFrameRate = 30;

}  // namespace

Parser::Parser(const CUVIDPARSERPARAMS& params, const CodecInfo& codec)
    : params_(params), codec_(codec), splitter_(codec) {
  surfaces_.resize(std::clamp(params.ulMaxNumDecodeSurfaces, 1u, kMaxSurfaces));
}

CUresult Parser::create(const CUVIDPARSERPARAMS& params, std::shared_ptr<Parser>* made) {
  if (params.CodecType < 0 || params.CodecType >= cudaVideoCodec_NumCodecs) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  const CodecInfo* codec = find_codec(params.CodecType);
  if (!codec) return CUDA_ERROR_NOT_SUPPORTED;
  std::shared_ptr<Parser> parser(new Parser(params, *codec));
  parser->decoder_ = SoftwareDecoder::create(*codec);
  if (!parser->decoder_) return CUDA_ERROR_NOT_SUPPORTED;
  *made = std::move(parser);
  return CUDA_SUCCESS;
}

CUresult Parser::parse(const CUVIDSOURCEDATAPACKET& packet) {
  if (packet.payload_size && !packet.payload) return CUDA_ERROR_INVALID_VALUE;
  const UnitSplitter::Sink sink = [this](const uint8_t* data, size_t size, int64_t timestamp) {
    parse_unit(data, size, timestamp);
  };
  has_failed_ = false;
  const bool has_timestamp = packet.flags & CUVID_PKT_TIMESTAMP;
  if (packet.flags & CUVID_PKT_DISCONTINUITY) splitter_.reset();
  if (packet.payload_size) {
    splitter_.push(packet.payload, packet.payload_size,
                   has_timestamp ? packet.timestamp : AV_NOPTS_VALUE,
                   packet.flags & CUVID_PKT_ENDOFPICTURE, sink);
  }
  if (packet.flags & CUVID_PKT_ENDOFSTREAM) {
    splitter_.flush(sink);
    end_of_stream(packet.flags & CUVID_PKT_NOTIFY_EOS);
  }
  return has_failed_ ? CUDA_ERROR_UNKNOWN : CUDA_SUCCESS;
}

void Parser::parse_unit(const uint8_t* data, size_t size, int64_t timestamp) {
  // Before a new sequence everything of the old one is shown: the application is about to drop its
  // decoder.
  if (decoder_->inspect(data, size) && has_format_) {
    decoder_->drain();
    announce_pending();
    queue_outputs();
    display_down_to(0);
  }
  if (timestamp != AV_NOPTS_VALUE) pending_times_.insert(timestamp);
  decoder_->decode(data, size, timestamp);
  announce_started();
  queue_outputs();
}

void Parser::announce_pending() {
  const PicturePtr pending = std::exchange(pending_, nullptr);
  if (pending && !pending->was_announced) start_picture(pending);
}

void Parser::announce_started() {
  std::vector<PicturePtr> started = decoder_->take_started();
  // When nothing has begun, the unit was the second field of what is pending.
  announce_pending();
  if (started.empty()) return;
  if (codec_.is_one_picture) started.erase(started.begin(), started.end() - 1);
  if (decoder_->is_field()) {
    pending_ = std::move(started.back());
    started.pop_back();
  }
  for (const PicturePtr& picture : started) start_picture(picture);
}

void Parser::start_picture(const PicturePtr& picture) {
  picture->was_announced = true;
  const CUVIDEOFORMAT format = describe_sequence(codec_, *decoder_, *picture);
  if (!has_format_ || memcmp(&format, &format_, sizeof format) != 0) call_sequence(format);
  if (is_refused_) {
    picture->is_refused = true;
    return;
  }
  const int index = take_index();
  if (index < 0) {
    cudaframe_sim_internal_report("no decode surface is free: %zu are too few", surfaces_.size());
    picture->is_refused = has_failed_ = true;
    return;
  }
  PicturePtr& surface = surfaces_[static_cast<size_t>(index)];
  if (surface) surface->index = -1;
  surface = picture;
  picture->index = index;
  picture->is_refused = !call_decode(picture);
}

void Parser::call_sequence(const CUVIDEOFORMAT& format) {
  display_down_to(0);
  format_ = format;
  has_format_ = true;
  CUVIDEOFORMAT told = format;
  const int answer =
      params_.pfnSequenceCallback ? params_.pfnSequenceCallback(params_.pUserData, &told) : 1;
  is_refused_ = answer <= 0;
  const unsigned count =
      answer > 1 ? static_cast<unsigned>(answer) : std::max(params_.ulMaxNumDecodeSurfaces, 1u);
  // The same sequence again, after the end of a stream, finds its surfaces as they were.
  if (std::min(count, kMaxSurfaces) == surfaces_.size()) return;
  for (const PicturePtr& surface : surfaces_) {
    if (surface) surface->index = -1;
  }
  surfaces_.assign(std::min(count, kMaxSurfaces), nullptr);
  next_index_ = 0;
}

bool Parser::call_decode(const PicturePtr& picture) {
  if (!params_.pfnDecodePicture) return true;
  const PictureToken token = {kTokenMagic, picture->id};
  const unsigned offset = 0;
  CUVIDPICPARAMS params = {};
  params.PicWidthInMbs = (picture->width + 15) / 16;
  params.FrameHeightInMbs = (picture->height + 15) / 16;
  params.CurrPicIdx = picture->index;
  params.nBitstreamDataLen = sizeof token;
  params.pBitstreamData = reinterpret_cast<const unsigned char*>(&token);
  params.nNumSlices = 1;
  params.pSliceDataOffsets = &offset;
  params.ref_pic_flag = decoder_->is_reference();
  params.intra_pic_flag = decoder_->is_intra();
  return params_.pfnDecodePicture(params_.pUserData, &params) > 0;
}

int Parser::take_index() {
  int index = find_free_index();
  // More waits to be shown than there are surfaces for: show early.
  while (index < 0 && !display_queue_.empty()) {
    display_first();
    index = find_free_index();
  }
  if (index >= 0) next_index_ = static_cast<size_t>(index) + 1;
  return index;
}

// An index is free when its picture has been shown and the codec has let go of it. If none is, the
// oldest one that was shown but is still a reference will do: the picture itself lives elsewhere.
// Indices go round, as the real parser's do.
int Parser::find_free_index() {
  int stolen = -1;
  for (size_t i = 0; i < surfaces_.size(); ++i) {
    const size_t at = (next_index_ + i) % surfaces_.size();
    const PicturePtr& picture = surfaces_[at];
    if (!picture) return static_cast<int>(at);
    if (picture->pending_displays) continue;
    if (!picture->is_held_by_codec) return static_cast<int>(at);
    const bool is_over = picture->was_shown || picture->is_refused;
    if (is_over && (stolen < 0 || picture->id < surfaces_[static_cast<size_t>(stolen)]->id)) {
      stolen = static_cast<int>(at);
    }
  }
  return stolen;
}

size_t Parser::display_delay() const {
  const size_t needed = format_.min_num_decode_surfaces;
  const size_t spare = surfaces_.size() > needed ? surfaces_.size() - needed : 0;
  return std::min<size_t>(params_.ulMaxDisplayDelay, spare);
}

void Parser::queue_outputs() {
  for (Output& output : decoder_->take_outputs()) {
    if (output.picture == pending_) announce_pending();
    if (!output.picture->was_announced) start_picture(output.picture);
    if (output.picture->is_refused || output.picture->index < 0) {
      --output.picture->pending_displays;
      const auto time = pending_times_.find(output.timestamp);
      if (time != pending_times_.end()) pending_times_.erase(time);
      continue;
    }
    display_queue_.push_back(std::move(output));
  }
  display_down_to(display_delay());
}

void Parser::display_down_to(size_t count) {
  while (display_queue_.size() > count) display_first();
}

void Parser::display_first() {
  const Output output = std::move(display_queue_.front());
  display_queue_.pop_front();
  --output.picture->pending_displays;
  output.picture->was_shown = true;
  CUVIDPARSERDISPINFO info = {};
  info.picture_index = output.picture->index;
  info.progressive_frame = !output.is_interlaced;
  info.top_field_first = output.is_top_first;
  info.repeat_first_field = output.repeat;
  info.timestamp = display_time(output);
  if (params_.pfnDisplayPicture) params_.pfnDisplayPicture(params_.pUserData, &info);
}

// Measured: NVCUVID takes timestamps for presentation times and hands them out in rising order, the
// smallest that it holds first, whichever picture's packet they came with. A picture without a
// timestamp follows the one before at the stream's frame rate.
int64_t Parser::display_time(const Output& output) {
  int64_t time = next_time_;
  if (output.timestamp != AV_NOPTS_VALUE && !pending_times_.empty()) {
    time = *pending_times_.begin();
    pending_times_.erase(pending_times_.begin());
  }
  const int64_t clock = params_.ulClockRate ? params_.ulClockRate : kDefaultClock;
  const auto& rate = format_.frame_rate;
  next_time_ = time + (rate.numerator ? clock * rate.denominator / rate.numerator
                                      : clock / kDefaultFrameRate);
  return time;
}

void Parser::end_of_stream(bool notify) {
  decoder_->drain();
  announce_started();
  announce_pending();
  queue_outputs();
  display_down_to(0);
  has_format_ = is_refused_ = false;  // measured: what comes next is a new sequence, if equal
  next_time_ = 0;
  pending_times_.clear();
  if (notify && params_.pfnDisplayPicture) params_.pfnDisplayPicture(params_.pUserData, nullptr);
}

}  // namespace cudaframe::sim
