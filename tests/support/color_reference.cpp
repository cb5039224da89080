// SPDX-License-Identifier: LGPL-2.1-or-later
#include "tests/support/color_reference.h"

#include <algorithm>
#include <cmath>

namespace cudaframe::test {
namespace {

/// ITU-R BT.601-7 (2.5.1), BT.709-6 (table 3), BT.2020-2 (table 4): E'Y from E'R, E'G, E'B.
struct Weights {
  double red;
  double green;
  double blue;
};

Weights weights_of(ColorMatrix matrix) {
  if (matrix == ColorMatrix::bt601) return {0.299, 0.587, 0.114};
  if (matrix == ColorMatrix::bt709) return {0.2126, 0.7152, 0.0722};
  return {0.2627, 0.6780, 0.0593};
}

/// The chroma sample's position on an axis, in luma samples.
double position_of(int index, ChromaSiting siting) {
  return 2.0 * index + (siting == ChromaSiting::cosited ? 0.0 : 0.5);
}

/// The value at luma position `at`, linear between the two nearest samples, constant outside.
struct AxisWeights {
  int first;
  int second;
  double second_weight;
};

AxisWeights axis_weights(int at, int count, ChromaSiting siting, bool interpolate) {
  if (!interpolate) return {at / 2, at / 2, 0.0};
  const double offset = position_of(0, siting);
  const double exact = (at - offset) / 2.0;
  const int below = static_cast<int>(std::floor(exact));
  return {std::clamp(below, 0, count - 1), std::clamp(below + 1, 0, count - 1), exact - below};
}

double chroma_at(const Nv12Picture& picture, const AxisWeights& x, const AxisWeights& y,
                 int component) {
  const auto sample = [&](int column, int row) {
    return static_cast<double>(picture.chroma[static_cast<std::size_t>(row) * picture.chroma_pitch +
                                              static_cast<std::size_t>(2 * column + component)]);
  };
  const auto along_row = [&](int row) {
    return sample(x.first, row) * (1.0 - x.second_weight) + sample(x.second, row) * x.second_weight;
  };
  return along_row(y.first) * (1.0 - y.second_weight) + along_row(y.second) * y.second_weight;
}

}  // namespace

std::vector<double> reference_rgb(const Nv12Picture& picture, const ColorDescription& color,
                                  bool interpolate) {
  const Weights w = weights_of(color.matrix);
  const bool full = color.range == ColorRange::full;
  std::vector<double> rgb;
  rgb.reserve(static_cast<std::size_t>(picture.width) * static_cast<std::size_t>(picture.height) *
              3);
  for (int y = 0; y < picture.height; ++y) {
    const AxisWeights wy = axis_weights(y, (picture.height + 1) / 2, color.vertical, interpolate);
    for (int x = 0; x < picture.width; ++x) {
      const AxisWeights wx =
          axis_weights(x, (picture.width + 1) / 2, color.horizontal, interpolate);
      const double code =
          picture
              .luma[static_cast<std::size_t>(y) * picture.luma_pitch + static_cast<std::size_t>(x)];
      // Inverse of the quantization: BT.709-6, 5.3 (limited); H.273, equations 28 to 30 (full).
      const double ey = full ? code / 255.0 : (code - 16.0) / 219.0;
      const double scale = full ? 255.0 : 224.0;
      const double cb = (chroma_at(picture, wx, wy, 0) - 128.0) / scale;
      const double cr = (chroma_at(picture, wx, wy, 1) - 128.0) / scale;
      // E'CB = (E'B - E'Y) / (2 (1 - blue)), E'CR = (E'R - E'Y) / (2 (1 - red)).
      const double red = ey + 2.0 * (1.0 - w.red) * cr;
      const double blue = ey + 2.0 * (1.0 - w.blue) * cb;
      const double green = (ey - w.red * red - w.blue * blue) / w.green;
      for (const double value : {red, green, blue}) {
        rgb.push_back(std::clamp(value * 255.0, 0.0, 255.0));
      }
    }
  }
  return rgb;
}

}  // namespace cudaframe::test
