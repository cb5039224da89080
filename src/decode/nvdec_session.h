// SPDX-License-Identifier: LGPL-2.1-or-later
// Packets in, frames out: bitstream, parser and decoder of one stream, and the copy out of NVDEC.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "base/media_types.h"
#include "base/result.h"
#include "cuda/stream.h"
#include "decode/bitstream.h"
#include "decode/nvdec_decoder.h"
#include "decode/packet_parser.h"
#include "memory/frame.h"

namespace cudaframe::decode {

/// What the bitstream says about the pictures that follow.
struct SequenceInfo {
  StreamKind kind;
  int coded_width = 0;
  int coded_height = 0;
  Rect display_area;            ///< Frames have its size.
  Rational frame_rate;          ///< 0/1: not told, or variable.
  Rational pixel_aspect_ratio;  ///< 0/1: not told.
  bool progressive = true;
  /// ITU-T H.273 code points; 2: not told.
  int matrix = 2;
  int transfer = 2;
  int primaries = 2;
  bool full_range = false;
  bool operator==(const SequenceInfo&) const = default;
};

struct PictureFlags {
  bool corrupted = false;  ///< Damaged; the decoder may have concealed it.
  bool progressive = true;
  bool top_field_first = true;
  int repeat_first_field = 0;  ///< -1: a single field.
};

/// Gets the session's output, from inside its calls and on their thread, with no context current
/// by the session's doing: it may push downstream and wait. A failure ends the call that runs.
class SessionClient {
 public:
  virtual ~SessionClient() = default;
  /// Before the first frame, and whenever what it says changes; earlier frames are all out.
  virtual Status on_sequence(const SequenceInfo& sequence) = 0;
  /// Whether the picture of that packet is to be shown; else it costs neither frame nor copy.
  virtual bool wants_picture(std::int64_t frame_number) = 0;
  /// A frame that the session's stream may write, in device or in pinned host memory, of the format
  /// and size of `layout`, which is how a device frame looks. May wait.
  virtual Result<memory::FramePtr> allocate(const memory::FrameLayout& layout) = 0;
  /// The frames in display order, each with the number that its packet was submitted with. Its
  /// content is ordered by its fence: the host has not waited for it.
  virtual Status on_picture(memory::FramePtr frame, std::int64_t frame_number,
                            const PictureFlags& flags) = 0;
};

struct SessionConfig {
  Codec codec = Codec::h264;
  StreamFormat format = StreamFormat::byte_stream;
  std::span<const std::uint8_t> codec_data;  ///< Copied.
  int decode_surfaces = 0;                   ///< 0: the stream's minimum and 4; never below it.
  int max_display_delay = 4;
};

/// Thread-bound in the sense that calls never overlap; they may come from changing threads. Errors:
/// bad_data (later packets may be fine), not_supported (names the kind of stream and the limit),
/// whatever the client returned, and what the device says.
class NvdecSession : private ParserClient {
 public:
  /// Makes no decoder yet: the stream says which. `client` outlives the session.
  static Result<std::unique_ptr<NvdecSession>> create(cuda::StreamPtr stream,
                                                      const SessionConfig& config,
                                                      SessionClient& client);
  /// The decoder goes to the cache of idle ones, with the event of the last copy out of it.
  ~NvdecSession() override;
  NvdecSession(const NvdecSession&) = delete;
  NvdecSession& operator=(const NvdecSession&) = delete;

  /// One access unit; `packet` is not needed any more when this returns. Stream: copies of pictures
  /// that are due are queued on the session's stream. Blocks the host while a due picture is being
  /// decoded.
  Status submit(const InputPacket& packet, std::int64_t frame_number);

  /// Everything that was submitted comes out. What follows is a new start. After a failure other
  /// than bad_data what was pending is lost: this is then the same as flush().
  Status drain();

  /// Everything that was submitted and has not come out is dropped. What follows is a new start.
  Status flush();

  /// New codec_data or format; pending pictures stay pending. drain() first if they are to be out.
  Status reconfigure(StreamFormat format, std::span<const std::uint8_t> codec_data);

 private:
  NvdecSession(cuda::StreamPtr stream, const SessionConfig& config, SessionClient& client);

  Result<int> on_sequence(const CUVIDEOFORMAT& format) override;
  Status on_decode(CUVIDPICPARAMS& picture) override;
  Status on_display(const CUVIDPARSERDISPINFO& picture, std::int64_t frame_number) override;

  Status open_parser();
  Status note(Status parsed);
  Status prepare_decoder(const SequenceInfo& sequence, int min_surfaces);
  Status copy_out(const CUVIDPARSERDISPINFO& picture, memory::Frame& frame, PictureFlags* flags);
  void close_decoder();

  const cuda::StreamPtr stream_;
  SessionClient& client_;
  const Codec codec_;
  const int wanted_surfaces_;
  const int max_display_delay_;
  std::unique_ptr<Bitstream> bitstream_;
  std::unique_ptr<NvdecDecoder> decoder_;
  std::unique_ptr<PacketParser> parser_;
  /// A failure stopped the parser in the middle: what it holds is lost, and it can't go on.
  bool is_interrupted_ = false;
  SequenceInfo sequence_;
  memory::FrameLayout layout_;  ///< Of a device frame of the sequence.
  bool is_announced_ = false;   ///< The client has accepted sequence_.
};

}  // namespace cudaframe::decode
