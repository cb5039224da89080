// SPDX-License-Identifier: LGPL-2.1-or-later
// YCbCr to RGB as the standards define it.
#pragma once

#include <array>

#include "base/media_types.h"

namespace cudaframe::convert {

/// Rows R, G, B; columns: factors of Y', Cb, Cr, and the constant. Input in code values of
/// `bit_depth` bits, output in 0 … 255.
using ColorMatrix3x4 = std::array<std::array<double, 4>, 3>;

/// Source: ITU-T H.273 (07/2024), equations 27 to 35 and table 4 (KR, KB of MatrixCoefficients 1, 6
/// and 9), with full range output as in equation 23 (8 bits). Reentrant.
ColorMatrix3x4 ycbcr_to_rgb(ColorMatrix matrix, ColorRange range, int bit_depth);

}  // namespace cudaframe::convert
