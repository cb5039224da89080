// SPDX-License-Identifier: LGPL-2.1-or-later
// NV12 to RGB in double precision, straight from the standards' formulas. Shares no code with
// src/convert: it is what the kernels are measured against.
#pragma once

#include <cstdint>
#include <vector>

#include "base/media_types.h"

namespace cudaframe::test {

/// An NV12 picture; chroma rows and columns are half the luma's, rounded up.
struct Nv12Picture {
  int width;
  int height;
  const std::uint8_t* luma;
  std::size_t luma_pitch;
  const std::uint8_t* chroma;  ///< Cb, Cr side by side.
  std::size_t chroma_pitch;
};

/// R, G, B of every pixel, row by row, not rounded, clamped to 0 … 255. `interpolate` false: each
/// chroma sample covers its four luma samples.
std::vector<double> reference_rgb(const Nv12Picture& picture, const ColorDescription& color,
                                  bool interpolate = true);

}  // namespace cudaframe::test
