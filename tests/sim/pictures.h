// SPDX-License-Identifier: LGPL-2.1-or-later
// Decoded pictures: what stands in a decoder's surfaces. The software decoder writes them, the
// parser names them, cuvidDecodePicture finds them again by the id in the "bitstream".
#pragma once

extern "C" {
#include <libavutil/pixfmt.h>
}

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

namespace cudaframe::sim {

/// Immutable once the parser's decode callback has been called for it, but for the parser's own
/// members and is_held_by_codec.
struct Picture {
  Picture();
  ~Picture();
  Picture(const Picture&) = delete;
  Picture& operator=(const Picture&) = delete;

  const uint64_t id;
  AVPixelFormat format = AV_PIX_FMT_NONE;
  int width = 0, height = 0;  ///< coded size, as the codec gave it
  uint8_t* planes[3] = {};
  int strides[3] = {};
  std::unique_ptr<uint8_t[]> memory;
  int crop_left = 0, crop_top = 0, crop_right = 0, crop_bottom = 0;
  bool is_damaged = false;
  std::atomic<bool> is_held_by_codec{true};

  // The parser's.
  int index = -1;                 ///< surface; -1 until the decode callback, or when taken away
  unsigned pending_displays = 0;  ///< is still to be shown so often
  bool was_shown = false;
  bool was_announced = false;  ///< has been through the decode callback, or never will be
  bool is_refused = false;     ///< which said no
};
using PicturePtr = std::shared_ptr<Picture>;

/// What pBitstreamData holds.
struct PictureToken {
  uint64_t magic;
  uint64_t id;
};
inline constexpr uint64_t kTokenMagic = 0x63756664736d6931;

PicturePtr make_picture();
/// Null for bytes that are no token, or a picture that is gone.
PicturePtr find_picture(const void* bitstream, size_t size);

}  // namespace cudaframe::sim
