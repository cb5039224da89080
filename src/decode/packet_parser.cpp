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

Status PacketParser::parse(std::span<const std::uint8_t> packet, std::int64_t frame_number,
                           bool whole_picture) {
  CUVIDSOURCEDATAPACKET data{};
  data.flags = CUVID_PKT_TIMESTAMP;
  if (whole_picture) data.flags |= CUVID_PKT_ENDOFPICTURE;
  data.payload_size = static_cast<decltype(data.payload_size)>(packet.size());
  data.payload = packet.data();
  data.timestamp = frame_number;
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
  return parser->keep(parser->client_.on_decode(*picture)) ? kDone : kFailed;
}

int PacketParser::handle_display(void* self, CUVIDPARSERDISPINFO* picture) {
  auto* parser = static_cast<PacketParser*>(self);
  if (!picture) return kDone;  // the end of the stream
  if (parser->stopped_) return kFailed;
  return parser->keep(parser->client_.on_display(*picture)) ? kDone : kFailed;
}

}  // namespace cudaframe::decode
