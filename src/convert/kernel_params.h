// SPDX-License-Identifier: LGPL-2.1-or-later
// The one argument of every conversion kernel, passed by value: no state is shared between
// launches.
#pragma once

#include <cstdint>

namespace cudaframe::convert {

/// Pixels that one thread converts: a row segment in each of two rows, which share their chroma.
inline constexpr int kPixelsPerThread = 8;
inline constexpr int kRowsPerThread = 2;

/// Addresses are device addresses. Pitches are in bytes.
struct ConvertParams {
  std::uint64_t src[3];
  std::uint64_t dst[3];  ///< Planar: of R, G, B, in this order.
  std::uint32_t src_pitch[3];
  std::uint32_t dst_pitch[3];
  std::int32_t width;
  std::int32_t height;

  /// Rows R, G, B: factors of Y', 16 Cb, 16 Cr, and the constant; all in 8-bit code values.
  float matrix[3][4];
  /// Quarters of the chroma row and column that an even and an odd luma sample take from their own
  /// chroma sample; the rest comes from the neighbour (before the even one, behind the odd one).
  std::uint8_t own_x[2];
  std::uint8_t own_y[2];

  std::uint8_t swap_rb;  ///< Packed destinations: blue comes first.
  std::uint8_t wide;     ///< Every row may be read and written in words of 16 bytes.

  /// Kernels from RGB forms: where a pixel's R, G, B, A lie.
  std::int8_t
      src_channel[4];  ///< Packed: byte within the pixel. Planar: index of the plane. -1: none
  std::int8_t dst_channel[4];
  std::int8_t src_step;  ///< Bytes from one pixel to the next; 1: planar
  std::int8_t dst_step;
};

/// The kernels' names in the module; kernels in color_kernels.cu, their CPU twins in tests/sim.
inline constexpr char kNv12ToPacked3[] = "cudaframe_nv12_to_packed3";
inline constexpr char kNv12ToPacked4[] = "cudaframe_nv12_to_packed4";
inline constexpr char kNv12ToPlanar[] = "cudaframe_nv12_to_planar";
inline constexpr char kRgbToRgb[] = "cudaframe_rgb_to_rgb";

}  // namespace cudaframe::convert
