// SPDX-License-Identifier: LGPL-2.1-or-later
#include "surface_writer.h"

#include <algorithm>
#include <cstring>

#include "cuvid_caps.h"

namespace cudaframe::sim {
namespace {

constexpr size_t kPitchAlignment = 256;
constexpr unsigned char kPoisonByte = 0xdd;

struct Layout {
  cudaVideoSurfaceFormat format;
  unsigned sample_bytes;
  bool is_planar;  ///< three full planes; else luma and interleaved 4:2:0 chroma
};

constexpr Layout kLayouts[] = {
    {cudaVideoSurfaceFormat_NV12, 1, false},
    {cudaVideoSurfaceFormat_P016, 2, false},
    {cudaVideoSurfaceFormat_YUV444, 1, true},
    {cudaVideoSurfaceFormat_YUV444_16Bit, 2, true},
};

const Layout& layout_of(cudaVideoSurfaceFormat format) {
  return *std::find_if(std::begin(kLayouts), std::end(kLayouts) - 1,
                       [format](const Layout& l) { return l.format == format; });
}

/// Reads samples of a picture's plane in the target's bit depth.
class PlaneReader {
 public:
  PlaneReader(const Picture& picture, int plane, unsigned target_bytes)
      : data_(picture.planes[plane]), stride_(picture.strides[plane]) {
    const PixelInfo& pixels = *find_pixels(picture.format);
    const unsigned shift_x = plane ? pixels.chroma_shift_x : 0;
    const unsigned shift_y = plane ? pixels.chroma_shift_y : 0;
    last_x_ = ((picture.width + (1 << shift_x) - 1) >> shift_x) - 1;
    last_y_ = ((picture.height + (1 << shift_y) - 1) >> shift_y) - 1;
    is_wide_ = pixels.bits > 8;
    // 16-bit surfaces carry the sample in the high bits.
    shift_ = static_cast<int>(target_bytes * 8) - static_cast<int>(pixels.bits);
  }

  unsigned at(int x, int y) const {
    if (!data_) return shift_ > 0 ? 128u << shift_ : 128;  // monochrome
    const uint8_t* row = data_ + static_cast<ptrdiff_t>(stride_) * std::clamp(y, 0, last_y_);
    x = std::clamp(x, 0, last_x_);
    unsigned value = row[x];
    if (is_wide_) {
      uint16_t wide;
      memcpy(&wide, row + 2 * x, sizeof wide);
      value = wide;
    }
    return shift_ >= 0 ? value << shift_ : value >> -shift_;
  }

  /// Fast path: bytes of a row that need no conversion; null if there are none.
  const uint8_t* bytes(int x, int y, unsigned count) const {
    const bool inside =
        x >= 0 && y >= 0 && y <= last_y_ && x + static_cast<int>(count) - 1 <= last_x_;
    return data_ && !is_wide_ && shift_ == 0 && inside
               ? data_ + static_cast<ptrdiff_t>(stride_) * y + x
               : nullptr;
  }

 private:
  const uint8_t* data_;
  int stride_;
  int last_x_, last_y_;
  bool is_wide_;
  int shift_;
};

void store(unsigned char* target, unsigned value, unsigned bytes) {
  target[0] = static_cast<unsigned char>(value);
  if (bytes == 2) target[1] = static_cast<unsigned char>(value >> 8);
}

void write_plane(const PlaneReader& plane, const SurfaceGeometry& geometry, unsigned sample_bytes,
                 unsigned char* target) {
  for (unsigned y = 0; y < geometry.height; ++y, target += geometry.pitch) {
    const int source_y = geometry.top + static_cast<int>(y);
    if (const uint8_t* row = plane.bytes(geometry.left, source_y, geometry.width)) {
      memcpy(target, row, geometry.width);
      continue;
    }
    for (unsigned x = 0; x < geometry.width; ++x) {
      store(target + x * sample_bytes, plane.at(geometry.left + static_cast<int>(x), source_y),
            sample_bytes);
    }
  }
}

/// 4:2:2 and 4:4:4 pictures (JPEG) are brought to 4:2:0 by averaging.
unsigned chroma_sample(const PlaneReader& plane, const PixelInfo& pixels, int x, int y) {
  const int step_x = pixels.chroma_shift_x ? 1 : 2;
  const int step_y = pixels.chroma_shift_y ? 1 : 2;
  unsigned sum = 0;
  for (int dy = 0; dy < step_y; ++dy) {
    for (int dx = 0; dx < step_x; ++dx) sum += plane.at(x * step_x + dx, y * step_y + dy);
  }
  const auto count = static_cast<unsigned>(step_x * step_y);
  return (sum + count / 2) / count;
}

void write_interleaved_chroma(const Picture& picture, const SurfaceGeometry& geometry,
                              unsigned sample_bytes, unsigned char* target) {
  const PixelInfo& pixels = *find_pixels(picture.format);
  const PlaneReader u(picture, 1, sample_bytes);
  const PlaneReader v(picture, 2, sample_bytes);
  const unsigned width = (geometry.width + 1) / 2;
  const unsigned height = (geometry.height + 1) / 2;
  const bool is_420 = pixels.chroma == cudaVideoChromaFormat_420;
  for (unsigned y = 0; y < height; ++y, target += geometry.pitch) {
    const int source_x = geometry.left / 2;
    const int source_y = geometry.top / 2 + static_cast<int>(y);
    const uint8_t* u_row = is_420 ? u.bytes(source_x, source_y, width) : nullptr;
    const uint8_t* v_row = is_420 ? v.bytes(source_x, source_y, width) : nullptr;
    for (unsigned x = 0; x < width; ++x) {
      const int at_x = source_x + static_cast<int>(x);
      unsigned char* pair = target + 2 * x * sample_bytes;
      store(pair, u_row ? u_row[x] : chroma_sample(u, pixels, at_x, source_y), sample_bytes);
      store(pair + sample_bytes, v_row ? v_row[x] : chroma_sample(v, pixels, at_x, source_y),
            sample_bytes);
    }
  }
}

}  // namespace

size_t SurfaceGeometry::size() const {
  return layout_of(format).is_planar ? pitch * height * 3
                                     : chroma_offset() + pitch * ((height + 1) / 2);
}

size_t surface_pitch(cudaVideoSurfaceFormat format, unsigned width) {
  const size_t row = static_cast<size_t>(width) * layout_of(format).sample_bytes;
  return (row / kPitchAlignment + 1) * kPitchAlignment;
}

bool can_write(const Picture& picture, cudaVideoSurfaceFormat format) {
  const PixelInfo* pixels = find_pixels(picture.format);
  if (!pixels) return false;
  return !layout_of(format).is_planar || pixels->chroma == cudaVideoChromaFormat_444;
}

void poison_surface(unsigned char* surface, const SurfaceGeometry& geometry) {
  memset(surface, kPoisonByte, geometry.size());
}

void write_surface(const Picture& picture, const SurfaceGeometry& geometry,
                   unsigned char* surface) {
  const Layout& layout = layout_of(geometry.format);
  write_plane(PlaneReader(picture, 0, layout.sample_bytes), geometry, layout.sample_bytes, surface);
  if (!layout.is_planar) {
    write_interleaved_chroma(picture, geometry, layout.sample_bytes,
                             surface + geometry.chroma_offset());
    return;
  }
  for (int plane = 1; plane < 3; ++plane) {
    write_plane(PlaneReader(picture, plane, layout.sample_bytes), geometry, layout.sample_bytes,
                surface + geometry.pitch * geometry.height * static_cast<size_t>(plane));
  }
}

}  // namespace cudaframe::sim
