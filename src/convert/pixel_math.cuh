// SPDX-License-Identifier: LGPL-2.1-or-later
// What one thread of a conversion kernel does: compiled by nvcc for the device, and by the host's
// compiler for the simulated device and the tests.
#pragma once

#include <cstdint>
#include <cstring>
#include <type_traits>

#include "convert/kernel_params.h"

#if defined(__CUDACC__)
#define CUDAFRAME_HOST_DEVICE __host__ __device__ __forceinline__
#define CUDAFRAME_UNROLL _Pragma("unroll")
#else
#define CUDAFRAME_HOST_DEVICE inline
#define CUDAFRAME_UNROLL
#endif

namespace cudaframe::convert {

/// Rounds to nearest and clamps to 8 bits.
CUDAFRAME_HOST_DEVICE std::uint8_t to_code_value(float value) {
  value = value < 0.0f ? 0.0f : value;
  value = value > 255.0f ? 255.0f : value;
  return static_cast<std::uint8_t>(static_cast<int>(value + 0.5f));
}

CUDAFRAME_HOST_DEVICE int clamp_index(int index, int count) {
  index = index < 0 ? 0 : index;
  return index < count ? index : count - 1;
}

/// Copies between memory and registers; `Word` is as wide as the alignment allows.
template <typename Word, int kBytes>
CUDAFRAME_HOST_DEVICE void copy_words(std::uint8_t* to, const std::uint8_t* from) {
  static_assert(kBytes % sizeof(Word) == 0);
#if defined(__CUDA_ARCH__)
  CUDAFRAME_UNROLL
  for (int i = 0; i < kBytes / static_cast<int>(sizeof(Word)); ++i) {
    reinterpret_cast<Word*>(to)[i] = reinterpret_cast<const Word*>(from)[i];
  }
#else
  std::memcpy(to, from, kBytes);
#endif
}

#if defined(__CUDACC__)
using Word8 = uint2;
using Word16 = uint4;
#else
struct Word8 {
  std::uint8_t bytes[8];
};
struct Word16 {
  std::uint8_t bytes[16];
};
#endif

/// Chroma of a thread's pixels, brought to full size: in sixteenths of a code value, exactly.
struct ThreadChroma {
  std::int16_t cb[kPixelsPerThread];
  std::int16_t cr[kPixelsPerThread];
};

inline constexpr int kChromaPerThread = kPixelsPerThread / 2;
/// With one neighbour on each side.
inline constexpr int kChromaColumns = kChromaPerThread + 2;

/// Interleaved Cb, Cr of one chroma row: columns first-1 … first+kChromaPerThread, edges repeated.
CUDAFRAME_HOST_DEVICE void load_chroma_row(const ConvertParams& p, int row, int first,
                                           std::uint8_t (&out)[2 * kChromaColumns]) {
  const int columns = (p.width + 1) / 2;
  const int rows = (p.height + 1) / 2;
  const auto* line = reinterpret_cast<const std::uint8_t*>(
      p.src[1] + static_cast<std::uint64_t>(clamp_index(row, rows)) * p.src_pitch[1]);
  if (p.wide && first + kChromaPerThread < columns && first > 0) {
    alignas(16) std::uint8_t own[2 * kChromaPerThread];
    copy_words<Word8, 2 * kChromaPerThread>(own, line + 2 * first);
    CUDAFRAME_UNROLL
    for (int i = 0; i < 2 * kChromaPerThread; ++i) out[2 + i] = own[i];
    out[0] = line[2 * first - 2];
    out[1] = line[2 * first - 1];
    out[2 * kChromaColumns - 2] = line[2 * (first + kChromaPerThread)];
    out[2 * kChromaColumns - 1] = line[2 * (first + kChromaPerThread) + 1];
    return;
  }
  CUDAFRAME_UNROLL
  for (int i = 0; i < kChromaColumns; ++i) {
    const int column = clamp_index(first - 1 + i, columns);
    out[2 * i] = line[2 * column];
    out[2 * i + 1] = line[2 * column + 1];
  }
}

/// Linear interpolation along a row of samples that already carry quarters of the column's.
CUDAFRAME_HOST_DEVICE void interpolate_row(const ConvertParams& p,
                                           const std::int16_t (&column)[2 * kChromaColumns],
                                           ThreadChroma& out) {
  CUDAFRAME_UNROLL
  for (int i = 0; i < kChromaPerThread; ++i) {
    const int own = 2 * (i + 1);
    for (int odd = 0; odd < 2; ++odd) {
      const int next = odd ? own + 2 : own - 2;
      const int weight = p.own_x[odd];
      out.cb[2 * i + odd] =
          static_cast<std::int16_t>(weight * column[own] + (4 - weight) * column[next]);
      out.cr[2 * i + odd] =
          static_cast<std::int16_t>(weight * column[own + 1] + (4 - weight) * column[next + 1]);
    }
  }
}

/// Chroma of row `y` of the thread's two (0 or 1), for pixels from 2 * `first` on.
CUDAFRAME_HOST_DEVICE void make_chroma(const ConvertParams& p, int chroma_row, int odd_row,
                                       const std::uint8_t (&own)[2 * kChromaColumns], int first,
                                       ThreadChroma& out) {
  std::uint8_t next[2 * kChromaColumns];
  const int weight = p.own_y[odd_row];
  std::int16_t column[2 * kChromaColumns];
  if (weight < 4) {
    load_chroma_row(p, odd_row ? chroma_row + 1 : chroma_row - 1, first, next);
    CUDAFRAME_UNROLL
    for (int i = 0; i < 2 * kChromaColumns; ++i) {
      column[i] = static_cast<std::int16_t>(weight * own[i] + (4 - weight) * next[i]);
    }
  } else {
    CUDAFRAME_UNROLL
    for (int i = 0; i < 2 * kChromaColumns; ++i) column[i] = static_cast<std::int16_t>(4 * own[i]);
  }
  interpolate_row(p, column, out);
}

struct Rgb {
  std::uint8_t r, g, b;
};

CUDAFRAME_HOST_DEVICE Rgb to_rgb(const ConvertParams& p, std::uint8_t luma, std::int16_t cb,
                                 std::int16_t cr) {
  const auto y = static_cast<float>(luma);
  const auto u = static_cast<float>(cb);
  const auto v = static_cast<float>(cr);
  const auto row = [&](int i) {
    const float* m = p.matrix[i];
    return to_code_value(m[0] * y + (m[1] * u + (m[2] * v + m[3])));
  };
  return {row(0), row(1), row(2)};
}

CUDAFRAME_HOST_DEVICE std::uint8_t* row_address(std::uint64_t plane, std::uint32_t pitch, int y) {
  return reinterpret_cast<std::uint8_t*>(plane + static_cast<std::uint64_t>(y) * pitch);
}

/// Packed pixels of 3 or 4 bytes; the fourth is 255.
template <int kPixelBytes>
struct PackedWriter {
  alignas(16) std::uint8_t bytes[kPixelsPerThread * kPixelBytes];

  CUDAFRAME_HOST_DEVICE void put(const ConvertParams& p, int i, Rgb rgb) {
    bytes[i * kPixelBytes] = p.swap_rb ? rgb.b : rgb.r;
    bytes[i * kPixelBytes + 1] = rgb.g;
    bytes[i * kPixelBytes + 2] = p.swap_rb ? rgb.r : rgb.b;
    if constexpr (kPixelBytes == 4) bytes[i * kPixelBytes + 3] = 255;
  }
  CUDAFRAME_HOST_DEVICE void store(const ConvertParams& p, int x, int y, int count) {
    std::uint8_t* to = row_address(p.dst[0], p.dst_pitch[0], y) + x * kPixelBytes;
    if (p.wide && count == kPixelsPerThread) {
      using Word = typename std::conditional<kPixelBytes == 4, Word16, Word8>::type;
      copy_words<Word, kPixelsPerThread * kPixelBytes>(to, bytes);
      return;
    }
    CUDAFRAME_UNROLL
    for (int i = 0; i < kPixelsPerThread * kPixelBytes; ++i) {
      if (i < count * kPixelBytes) to[i] = bytes[i];
    }
  }
};

struct PlanarWriter {
  alignas(16) std::uint8_t bytes[3][kPixelsPerThread];

  CUDAFRAME_HOST_DEVICE void put(const ConvertParams&, int i, Rgb rgb) {
    bytes[0][i] = rgb.r;
    bytes[1][i] = rgb.g;
    bytes[2][i] = rgb.b;
  }
  CUDAFRAME_HOST_DEVICE void store(const ConvertParams& p, int x, int y, int count) {
    CUDAFRAME_UNROLL
    for (int plane = 0; plane < 3; ++plane) {
      std::uint8_t* to = row_address(p.dst[plane], p.dst_pitch[plane], y) + x;
      if (p.wide && count == kPixelsPerThread) {
        copy_words<Word8, kPixelsPerThread>(to, bytes[plane]);
        continue;
      }
      CUDAFRAME_UNROLL
      for (int i = 0; i < kPixelsPerThread; ++i) {
        if (i < count) to[i] = bytes[plane][i];
      }
    }
  }
};

CUDAFRAME_HOST_DEVICE void load_luma(const ConvertParams& p, int x, int y, int count,
                                     std::uint8_t (&out)[kPixelsPerThread]) {
  const std::uint8_t* from = row_address(p.src[0], p.src_pitch[0], y) + x;
  if (p.wide && count == kPixelsPerThread) {
    alignas(16) std::uint8_t word[kPixelsPerThread];
    copy_words<Word8, kPixelsPerThread>(word, from);
    CUDAFRAME_UNROLL
    for (int i = 0; i < kPixelsPerThread; ++i) out[i] = word[i];
    return;
  }
  CUDAFRAME_UNROLL
  for (int i = 0; i < kPixelsPerThread; ++i) out[i] = i < count ? from[i] : std::uint8_t{0};
}

/// Thread (tx, ty) of a kernel from NV12.
template <typename Writer>
CUDAFRAME_HOST_DEVICE void nv12_thread(const ConvertParams& p, int tx, int ty) {
  const int x = tx * kPixelsPerThread;
  if (x >= p.width) return;
  const int count = p.width - x < kPixelsPerThread ? p.width - x : kPixelsPerThread;
  std::uint8_t own[2 * kChromaColumns];
  load_chroma_row(p, ty, x / 2, own);
  for (int odd = 0; odd < kRowsPerThread; ++odd) {
    const int y = ty * kRowsPerThread + odd;
    if (y >= p.height) return;
    std::uint8_t luma[kPixelsPerThread];
    load_luma(p, x, y, count, luma);
    ThreadChroma chroma;
    make_chroma(p, ty, odd, own, x / 2, chroma);
    Writer writer;
    CUDAFRAME_UNROLL
    for (int i = 0; i < kPixelsPerThread; ++i) {
      writer.put(p, i, to_rgb(p, luma[i], chroma.cb[i], chroma.cr[i]));
    }
    writer.store(p, x, y, count);
  }
}

/// Thread (tx, ty) of the kernel that moves channels between RGB forms.
CUDAFRAME_HOST_DEVICE void rgb_thread(const ConvertParams& p, int tx, int ty) {
  const int x = tx * kPixelsPerThread;
  const int end = x + kPixelsPerThread < p.width ? x + kPixelsPerThread : p.width;
  for (int odd = 0; odd < kRowsPerThread; ++odd) {
    const int y = ty * kRowsPerThread + odd;
    if (y >= p.height) return;
    for (int channel = 0; channel < 4; ++channel) {
      const int to = p.dst_channel[channel];
      if (to < 0) continue;
      const int from = p.src_channel[channel];
      const bool planar_to = p.dst_step == 1;
      const bool planar_from = p.src_step == 1;
      std::uint8_t* dst =
          row_address(p.dst[planar_to ? to : 0], p.dst_pitch[planar_to ? to : 0], y) +
          (planar_to ? 0 : to);
      const int from_plane = planar_from && from >= 0 ? from : 0;
      const std::uint8_t* src = row_address(p.src[from_plane], p.src_pitch[from_plane], y) +
                                (planar_from || from < 0 ? 0 : from);
      for (int i = x; i < end; ++i) {
        dst[i * p.dst_step] = from < 0 ? std::uint8_t{255} : src[i * p.src_step];
      }
    }
  }
}

}  // namespace cudaframe::convert
