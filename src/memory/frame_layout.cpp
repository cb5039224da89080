// SPDX-License-Identifier: LGPL-2.1-or-later
#include "memory/frame_layout.h"

namespace cudaframe::memory {
namespace {

constexpr std::size_t kPitchAlignment = 256;
constexpr int kMaxSide = 1 << 16;

struct PlaneFormat {
  int sample_bytes;  ///< Of one sample position: 2 for interleaved CbCr, 3 for packed RGB.
  int shift;         ///< log2 of the subsampling, the same on both axes.
};

struct FormatPlanes {
  int count;
  std::array<PlaneFormat, kMaxPlanes> planes;
};

/// Indexed by PixelFormat.
constexpr FormatPlanes kFormats[] = {
    /* nv12 */ {2, {{{1, 0}, {2, 1}}}},
    /* rgb  */ {1, {{{3, 0}}}},
    /* bgr  */ {1, {{{3, 0}}}},
    /* rgba */ {1, {{{4, 0}}}},
    /* bgra */ {1, {{{4, 0}}}},
    /* rgbx */ {1, {{{4, 0}}}},
    /* bgrx */ {1, {{{4, 0}}}},
    /* rgbp */ {3, {{{1, 0}, {1, 0}, {1, 0}}}},
    /* gbr  */ {3, {{{1, 0}, {1, 0}, {1, 0}}}},
};

const FormatPlanes& planes_of(PixelFormat format) {
  return kFormats[static_cast<int>(format)];
}

std::size_t align_up(std::size_t value, std::size_t alignment) {
  return (value + alignment - 1) / alignment * alignment;
}

std::size_t subsampled(int size, int shift) {
  return static_cast<std::size_t>((size + (1 << shift) - 1) >> shift);
}

Result<FrameLayout> start_layout(PixelFormat format, int width, int height) {
  if (width <= 0 || height <= 0 || width > kMaxSide || height > kMaxSide) {
    return Status(StatusCode::invalid_argument, "no frame can be " + std::to_string(width) + "x" +
                                                    std::to_string(height) + " pixels");
  }
  const FormatPlanes& format_planes = planes_of(format);
  FrameLayout layout{
      .format = format, .width = width, .height = height, .plane_count = format_planes.count};
  for (int i = 0; i < layout.plane_count; ++i) {
    const PlaneFormat& plane = format_planes.planes[i];
    layout.planes[i].row_bytes = subsampled(width, plane.shift) * plane.sample_bytes;
    layout.planes[i].rows = subsampled(height, plane.shift);
  }
  return layout;
}

}  // namespace

int plane_count(PixelFormat format) noexcept {
  return planes_of(format).count;
}

Result<FrameLayout> make_device_layout(PixelFormat format, int width, int height) {
  Result<FrameLayout> layout = start_layout(format, width, height);
  if (!layout) return layout;
  std::size_t widest = 0;
  for (int i = 0; i < layout->plane_count; ++i) {
    widest = std::max(widest, layout->planes[i].row_bytes);
  }
  const std::size_t pitch = align_up(widest, kPitchAlignment);
  const std::size_t row_step = planes_of(format).planes[layout->plane_count - 1].shift ? 2 : 1;
  for (int i = 0; i < layout->plane_count; ++i) {
    PlaneLayout& plane = layout->planes[i];
    plane.offset = layout->bytes;
    plane.pitch = pitch;
    layout->bytes += pitch * (i == 0 ? align_up(plane.rows, row_step) : plane.rows);
  }
  return layout;
}

Result<FrameLayout> make_layout(PixelFormat format, int width, int height,
                                std::span<const std::size_t> offsets,
                                std::span<const std::size_t> pitches, std::size_t bytes) {
  Result<FrameLayout> layout = start_layout(format, width, height);
  if (!layout) return layout;
  const auto count = static_cast<std::size_t>(layout->plane_count);
  if (offsets.size() < count || pitches.size() < count) {
    return Status(StatusCode::invalid_argument, "fewer planes than the pixel format has");
  }
  for (std::size_t i = 0; i < count; ++i) {
    PlaneLayout& plane = layout->planes[i];
    plane.offset = offsets[i];
    plane.pitch = pitches[i];
    const std::size_t end = plane.offset + plane.pitch * (plane.rows - 1) + plane.row_bytes;
    if (plane.pitch < plane.row_bytes || end > bytes) {
      return Status(StatusCode::invalid_argument,
                    "plane " + std::to_string(i) + " doesn't fit into its memory");
    }
  }
  layout->bytes = bytes;
  return layout;
}

}  // namespace cudaframe::memory
