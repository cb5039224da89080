// SPDX-License-Identifier: LGPL-2.1-or-later
#include "convert/color_matrix.h"

namespace cudaframe::convert {
namespace {

struct LumaWeights {
  double kr;
  double kb;
};

/// Indexed by ColorMatrix.
constexpr LumaWeights kLumaWeights[] = {
    /* bt601 */ {0.299, 0.114},
    /* bt709 */ {0.2126, 0.0722},
    /* bt2020_ncl */ {0.2627, 0.0593},
};

/// How code values map to Y' in 0 … 1 and Cb, Cr in -0.5 … 0.5.
struct Quantization {
  double luma_offset;
  double luma_range;
  double chroma_offset;
  double chroma_range;
};

Quantization quantization(ColorRange range, int bit_depth) {
  const double unit = static_cast<double>(1 << (bit_depth - 8));
  const double top = static_cast<double>((1 << bit_depth) - 1);
  if (range == ColorRange::full) return {0.0, top, 128.0 * unit, top};
  return {16.0 * unit, 219.0 * unit, 128.0 * unit, 224.0 * unit};
}

}  // namespace

ColorMatrix3x4 ycbcr_to_rgb(ColorMatrix matrix, ColorRange range, int bit_depth) {
  const auto [kr, kb] = kLumaWeights[static_cast<int>(matrix)];
  const double kg = 1.0 - kr - kb;
  // R' = Y' + 2 (1-KR) Cr,  B' = Y' + 2 (1-KB) Cb,  G' from Y' = KR R' + KG G' + KB B'.
  const double chroma_factors[3][2] = {
      {0.0, 2.0 * (1.0 - kr)},
      {-2.0 * kb * (1.0 - kb) / kg, -2.0 * kr * (1.0 - kr) / kg},
      {2.0 * (1.0 - kb), 0.0},
  };
  const Quantization q = quantization(range, bit_depth);
  ColorMatrix3x4 result{};
  for (std::size_t row = 0; row < 3; ++row) {
    const double luma = 255.0 / q.luma_range;
    const double cb = 255.0 * chroma_factors[row][0] / q.chroma_range;
    const double cr = 255.0 * chroma_factors[row][1] / q.chroma_range;
    result[row] = {luma, cb, cr, -luma * q.luma_offset - (cb + cr) * q.chroma_offset};
  }
  return result;
}

}  // namespace cudaframe::convert
