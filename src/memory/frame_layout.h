// SPDX-License-Identifier: LGPL-2.1-or-later
// Where the planes of one frame lie inside its one allocation.
#pragma once

#include <array>
#include <cstddef>
#include <span>

#include "base/media_types.h"
#include "base/result.h"

namespace cudaframe::memory {

inline constexpr int kMaxPlanes = 4;

struct PlaneLayout {
  std::size_t offset = 0;     ///< Bytes from the start of the allocation.
  std::size_t pitch = 0;      ///< Bytes from one row to the next.
  std::size_t row_bytes = 0;  ///< Bytes of a row that hold samples; the rest is padding.
  std::size_t rows = 0;
  bool operator==(const PlaneLayout&) const = default;
};

/// A value: format, size in pixels, and the planes. Sizes are the real ones; odd sizes stay odd
/// (chroma is rounded up).
struct FrameLayout {
  PixelFormat format = PixelFormat::nv12;
  int width = 0;
  int height = 0;
  int plane_count = 0;
  std::array<PlaneLayout, kMaxPlanes> planes{};
  std::size_t bytes = 0;  ///< Of the whole allocation.
  bool operator==(const FrameLayout&) const = default;
};

/// The layout of frames in device memory: one pitch for all planes, a multiple of 256 bytes, planes
/// one after the other; chroma of 4:2:0 begins after an even number of luma rows.
Result<FrameLayout> make_device_layout(PixelFormat format, int width, int height);

/// A layout that somebody else laid out (GstVideoInfo, an NVDEC surface): `offsets` and `pitches`
/// have an entry for each plane. invalid_argument when a plane doesn't fit into `bytes`.
Result<FrameLayout> make_layout(PixelFormat format, int width, int height,
                                std::span<const std::size_t> offsets,
                                std::span<const std::size_t> pitches, std::size_t bytes);

int plane_count(PixelFormat format) noexcept;

}  // namespace cudaframe::memory
