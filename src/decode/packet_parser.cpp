// SPDX-License-Identifier: LGPL-2.1-or-later
#include "decode/packet_parser.h"

#include "base/log.h"
#include "decode/codec_info.h"

namespace cudaframe::decode {
namespace {

// The callbacks' return values, as NVCUVID defines them.
constexpr int kFailed = 0;
constexpr int kDone = 1;

// Until the sequence callback says how many there are.
constexpr unsigned kInitialDecodeSurfaces = 1;

}  // namespace

Result<std::unique_ptr<PacketParser>> PacketParser::create(const cuda::Driver& driver, Codec codec,
                                                           int max_display_delay,
                                                           ParserClient& client) {
  Result<const cuda::CuvidDriver*> cuvid = cuda::CuvidDriver::load();
  if (!cuvid) return cuvid.status();
  std::unique_ptr<PacketParser> parser(new PacketParser(driver, **cuvid, client));
  CUVIDPARSERPARAMS params{};
  params.CodecType = codec_info(codec).nvdec;
  params.ulMaxNumDecodeSurfaces = kInitialDecodeSurfaces;
  params.ulMaxDisplayDelay = static_cast<unsigned>(max_display_delay);
  params.pUserData = parser.get();
  params.pfnSequenceCallback = handle_sequence;
  params.pfnDecodePicture = handle_decode;
  params.pfnDisplayPicture = handle_display;
  CUDAFRAME_TRY(driver.check((*cuvid)->cuvidCreateVideoParser(&parser->handle_, &params),
                             "cuvidCreateVideoParser"));
  return parser;
}

PacketParser::~PacketParser() {
  if (!handle_) return;
  stopped_ = true;  // should destruction still deliver something
  const Status status =
      driver_.check(cuvid_.cuvidDestroyVideoParser(handle_), "cuvidDestroyVideoParser");
  if (!status.ok()) log(LogLevel::warning, "decode", "%s", status.dump().c_str());
}

// Note [Which packet a picture came in]: NVCUVID takes timestamps for presentation times. It hands
// them out in rising order, the smallest that it holds with each picture that it shows, whichever
// packet they came with (seen with driver 580). So a frame number can't travel as a timestamp. But
// a packet that ends its picture has that picture's decode callback inside its own parse call, and
// a picture index is not given to another picture before it has been shown.
Status PacketParser::parse(std::span<const std::uint8_t> packet, std::int64_t frame_number) {
  frame_number_ = frame_number;
  CUVIDSOURCEDATAPACKET data{};
  data.flags = CUVID_PKT_ENDOFPICTURE;
  data.payload_size = static_cast<decltype(data.payload_size)>(packet.size());
  data.payload = packet.data();
  return run(data);
}

Status PacketParser::drain() {
  CUVIDSOURCEDATAPACKET data{};
  data.flags = CUVID_PKT_ENDOFSTREAM;
  return run(data);
}

Status PacketParser::run(CUVIDSOURCEDATAPACKET packet) {
  error_ = {};
  stopped_ = false;
  const Status parsed =
      driver_.check(cuvid_.cuvidParseVideoData(handle_, &packet), "cuvidParseVideoData");
  // A callback that gives up makes the parser fail too; the callback's reason is the better one.
  return error_.ok() ? parsed : error_;
}

// A second field in a packet of its own completes the frame of the first one's packet.
void PacketParser::note_number(const CUVIDPICPARAMS& picture) {
  const auto index = static_cast<std::size_t>(picture.CurrPicIdx);
  if (picture.second_field || index >= number_of_picture_.size()) return;
  number_of_picture_[index] = frame_number_;
}

bool PacketParser::keep(const Status& status) {
  if (status.ok()) return true;
  if (error_.ok() || error_.code() == StatusCode::bad_data) error_ = status;
  if (status.code() == StatusCode::bad_data) return true;
  stopped_ = true;
  return false;
}

int PacketParser::handle_sequence(void* self, CUVIDEOFORMAT* format) {
  auto* parser = static_cast<PacketParser*>(self);
  if (parser->stopped_) return kFailed;
  const Result<int> surfaces = parser->client_.on_sequence(*format);
  if (surfaces.ok()) return *surfaces;
  parser->keep(surfaces.status());
  return kFailed;
}

int PacketParser::handle_decode(void* self, CUVIDPICPARAMS* picture) {
  auto* parser = static_cast<PacketParser*>(self);
  if (parser->stopped_) return kFailed;
  parser->note_number(*picture);
  return parser->keep(parser->client_.on_decode(*picture)) ? kDone : kFailed;
}

int PacketParser::handle_display(void* self, CUVIDPARSERDISPINFO* picture) {
  auto* parser = static_cast<PacketParser*>(self);
  if (!picture) return kDone;  // the end of the stream
  if (parser->stopped_) return kFailed;
  const auto index = static_cast<std::size_t>(picture->picture_index);
  if (index >= parser->number_of_picture_.size()) return kDone;  // the client can't have it
  const std::int64_t number = parser->number_of_picture_[index];
  return parser->keep(parser->client_.on_display(*picture, number)) ? kDone : kFailed;
}

}  // namespace cudaframe::decode
