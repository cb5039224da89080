// SPDX-License-Identifier: LGPL-2.1-or-later
// Plain media values that the stages hand to each other: codecs, pixel formats, colour, geometry.
#pragma once

#include <cstdint>

namespace cudaframe {

enum class Codec { h264 };

/// Names and byte orders are GStreamer's (GstVideoFormat).
enum class PixelFormat { nv12, rgb, bgr, rgba, bgra, rgbx, bgrx, rgbp, gbr };

/// ITU-T H.273, table 4 (MatrixCoefficients), the values that are handled here.
enum class ColorMatrix { bt601, bt709, bt2020_ncl };

/// ITU-T H.273, VideoFullRangeFlag: limited is 0, full is 1.
enum class ColorRange { limited, full };

/// Where a 4:2:0 chroma sample sits relative to its 2x2 luma samples, each axis by itself
/// (ITU-T H.273, Chroma420SampleLocType): co-sited with the first luma sample, or between the two.
enum class ChromaSiting { cosited, centered };

struct ColorDescription {
  ColorMatrix matrix = ColorMatrix::bt709;
  ColorRange range = ColorRange::limited;
  ChromaSiting horizontal = ChromaSiting::cosited;
  ChromaSiting vertical = ChromaSiting::centered;
  bool operator==(const ColorDescription&) const = default;
};

struct Rational {
  int num = 0;
  int den = 1;
  bool operator==(const Rational&) const = default;
};

/// In luma samples; right and bottom lie outside.
struct Rect {
  int left = 0;
  int top = 0;
  int right = 0;
  int bottom = 0;
  int width() const { return right - left; }
  int height() const { return bottom - top; }
  bool operator==(const Rect&) const = default;
};

}  // namespace cudaframe
