// SPDX-License-Identifier: LGPL-2.1-or-later
#include "convert/color_converter.h"

#include <algorithm>
#include <map>

#include "base/mutex.h"
#include "convert/color_matrix.h"
#include "convert/kernel_image.h"

namespace cudaframe::convert {
namespace {

using memory::FrameLayout;
using memory::FrameView;

constexpr unsigned kBlockX = 32;
constexpr unsigned kBlockY = 4;
constexpr std::uint64_t kWideAlignment = 16;

/// In the order of ColorConverter::functions_.
constexpr const char* kKernels[] = {kNv12ToPacked3, kNv12ToPacked4, kNv12ToPlanar, kRgbToRgb};

struct RgbForm {
  int pixel_bytes;         ///< 1: planar.
  std::int8_t channel[4];  ///< Of R, G, B, A: byte in the pixel, or plane; -1: none.
  std::int8_t filler;      ///< The byte that is no alpha (x), written as 255; -1: none.
};

/// Indexed by PixelFormat; pixel_bytes 0: no RGB form.
constexpr RgbForm kRgbForms[] = {
    /* nv12 */ {0, {}, -1},
    /* rgb  */ {3, {0, 1, 2, -1}, -1},
    /* bgr  */ {3, {2, 1, 0, -1}, -1},
    /* rgba */ {4, {0, 1, 2, 3}, -1},
    /* bgra */ {4, {2, 1, 0, 3}, -1},
    /* rgbx */ {4, {0, 1, 2, -1}, 3},
    /* bgrx */ {4, {2, 1, 0, -1}, 3},
    /* rgbp */ {1, {0, 1, 2, -1}, -1},
    /* gbr  */ {1, {2, 0, 1, -1}, -1},
};

const RgbForm& form_of(PixelFormat format) {
  return kRgbForms[static_cast<int>(format)];
}
bool is_rgb(PixelFormat format) {
  return form_of(format).pixel_bytes != 0;
}

void set_planes(const FrameView& view, std::uint64_t (&addresses)[3], std::uint32_t (&pitches)[3]) {
  for (int i = 0; i < view.layout.plane_count; ++i) {
    const memory::PlaneLayout& plane = view.layout.planes[static_cast<std::size_t>(i)];
    addresses[i] = view.device + plane.offset;
    pitches[i] = static_cast<std::uint32_t>(plane.pitch);
  }
}

/// Whole words may be touched only inside a row: stores of a last, shorter piece go by bytes.
bool allows_words(const FrameView& view) {
  for (int i = 0; i < view.layout.plane_count; ++i) {
    const memory::PlaneLayout& plane = view.layout.planes[static_cast<std::size_t>(i)];
    if ((view.device + plane.offset) % kWideAlignment != 0) return false;
    if (plane.pitch % kWideAlignment != 0) return false;
  }
  return true;
}

void set_color(const ConvertOptions& options, ConvertParams& params) {
  const ColorMatrix3x4 matrix = ycbcr_to_rgb(options.color.matrix, options.color.range, 8);
  for (std::size_t row = 0; row < 3; ++row) {
    params.matrix[row][0] = static_cast<float>(matrix[row][0]);
    params.matrix[row][1] = static_cast<float>(matrix[row][1] / 16.0);
    params.matrix[row][2] = static_cast<float>(matrix[row][2] / 16.0);
    params.matrix[row][3] = static_cast<float>(matrix[row][3]);
  }
  // A centered chroma sample lies a quarter of its distance from either luma sample; a co-sited one
  // lies on the even sample, and the odd one is halfway to the next.
  const auto set_axis = [&](ChromaSiting siting, std::uint8_t(&own)[2]) {
    const bool nearest = options.chroma == ChromaMode::nearest;
    const bool centered = siting == ChromaSiting::centered;
    own[0] = nearest || !centered ? 4 : 3;
    own[1] = nearest ? 4 : centered ? 3 : 2;
  };
  set_axis(options.color.horizontal, params.own_x);
  set_axis(options.color.vertical, params.own_y);
}

int kernel_for(PixelFormat from, PixelFormat to) {
  if (is_rgb(from)) return 3;
  const int bytes = form_of(to).pixel_bytes;
  return bytes == 3 ? 0 : bytes == 4 ? 1 : 2;
}

/// NV12 kernels write R, G, B in this order, to planes or, but for swap_rb, to bytes.
void set_nv12_destination(const FrameView& to, ConvertParams& params) {
  const RgbForm& form = form_of(to.layout.format);
  params.swap_rb = form.pixel_bytes > 1 && form.channel[0] != 0;
  if (form.pixel_bytes > 1) return;
  std::uint64_t addresses[3];
  std::uint32_t pitches[3];
  set_planes(to, addresses, pitches);
  for (int i = 0; i < 3; ++i) {
    params.dst[i] = addresses[form.channel[i]];
    params.dst_pitch[i] = pitches[form.channel[i]];
  }
}

void set_channels(PixelFormat from, PixelFormat to, ConvertParams& params) {
  const RgbForm& source = form_of(from);
  const RgbForm& target = form_of(to);
  std::copy(std::begin(source.channel), std::end(source.channel), params.src_channel);
  std::copy(std::begin(target.channel), std::end(target.channel), params.dst_channel);
  params.src_step = static_cast<std::int8_t>(source.pixel_bytes);
  params.dst_step = static_cast<std::int8_t>(target.pixel_bytes);
  if (target.filler >= 0) {
    params.dst_channel[3] = target.filler;
    params.src_channel[3] = -1;
  }
}

unsigned blocks(int size, int per_thread, unsigned block) {
  const auto threads = static_cast<unsigned>((size + per_thread - 1) / per_thread);
  return (threads + block - 1) / block;
}

}  // namespace

bool ColorConverter::supports(PixelFormat from, PixelFormat to) noexcept {
  return is_rgb(to) && (is_rgb(from) || from == PixelFormat::nv12);
}

Result<ConvertLaunch> ColorConverter::plan(const FrameView& to, const FrameView& from,
                                           const ConvertOptions& options) {
  if (!supports(from.layout.format, to.layout.format)) {
    return Status(StatusCode::not_supported, "no kernel converts between these pixel formats");
  }
  if (from.layout.width != to.layout.width || from.layout.height != to.layout.height) {
    return Status(StatusCode::invalid_argument, "a conversion can't change the size");
  }
  if (from.device == 0 || to.device == 0) {
    return Status(StatusCode::invalid_argument, "conversions work in device memory only");
  }
  ConvertLaunch launch{};
  launch.kernel = kKernels[kernel_for(from.layout.format, to.layout.format)];
  ConvertParams& params = launch.params;
  params.width = from.layout.width;
  params.height = from.layout.height;
  set_planes(from, params.src, params.src_pitch);
  set_planes(to, params.dst, params.dst_pitch);
  params.wide = allows_words(from) && allows_words(to);
  if (is_rgb(from.layout.format)) {
    set_channels(from.layout.format, to.layout.format, params);
  } else {
    set_color(options, params);
    set_nv12_destination(to, params);
  }
  launch.block_x = kBlockX;
  launch.block_y = kBlockY;
  launch.grid_x = blocks(params.width, kPixelsPerThread, kBlockX);
  launch.grid_y = blocks(params.height, kRowsPerThread, kBlockY);
  return launch;
}

Status ColorConverter::convert(const FrameView& to, const FrameView& from,
                               const ConvertOptions& options, CUstream stream) const {
  Result<ConvertLaunch> launch = plan(to, from, options);
  if (!launch) return launch.status();
  const CUfunction function = functions_[kernel_for(from.layout.format, to.layout.format)];
  void* arguments[] = {&launch->params};
  cuda::ContextScope scope(context_);
  CUDAFRAME_TRY(scope.status());
  return CUDAFRAME_CUDA(context_.driver(),
                        cuLaunchKernel(function, launch->grid_x, launch->grid_y, 1, launch->block_x,
                                       launch->block_y, 1, 0, stream, arguments, nullptr));
}

Status ColorConverter::load() {
  const cuda::Driver& driver = context_.driver();
  cuda::ContextScope scope(context_);
  CUDAFRAME_TRY(scope.status());
  CUmodule module = nullptr;
  const Status loaded = CUDAFRAME_CUDA(driver, cuModuleLoadData(&module, kKernelImage));
  if (!loaded.ok()) {
    return Status(StatusCode::not_supported,
                  kHasKernels ? "the CUDA kernels don't run on " + context_.device_name() + ": " +
                                    loaded.message()
                              : "this build has no CUDA kernels: build with nvcc to convert "
                                "colours on a GPU",
                  loaded.native_error());
  }
  for (int i = 0; i < kKernelCount; ++i) {
    CUDAFRAME_TRY(CUDAFRAME_CUDA(driver, cuModuleGetFunction(&functions_[i], module, kKernels[i])));
  }
  return {};
}

Result<const ColorConverter*> ColorConverter::for_context(cuda::Context& context) {
  struct Registry {
    Mutex mutex;
    std::map<cuda::Context*, const ColorConverter*> converters GUARDED_BY(mutex);
  };
  static auto* const registry = new Registry;  // never destroyed, like the contexts
  MutexLock lock(registry->mutex);
  const ColorConverter*& entry = registry->converters[&context];
  if (entry) return entry;
  auto* converter = new ColorConverter(context);
  const Status loaded = converter->load();
  if (!loaded.ok()) {
    delete converter;
    return loaded;
  }
  entry = converter;
  return entry;
}

}  // namespace cudaframe::convert
