// SPDX-License-Identifier: LGPL-2.1-or-later
// Queues the conversion of one picture into another.
#pragma once

#include "base/media_types.h"
#include "base/result.h"
#include "convert/kernel_params.h"
#include "cuda/context.h"
#include "memory/frame_copy.h"

namespace cudaframe::convert {

enum class ChromaMode {
  linear,   ///< Interpolated, as sited.
  nearest,  ///< Each chroma sample covers its 2x2 luma samples; siting plays no part.
};

struct ConvertOptions {
  ColorDescription color;  ///< Of YCbCr sources.
  ChromaMode chroma = ChromaMode::linear;
};

/// Grid and argument of the launch that convert() makes; the tests run it on the CPU.
struct ConvertLaunch {
  const char* kernel;
  ConvertParams params;
  unsigned grid_x, grid_y;
  unsigned block_x, block_y;
};

/// Thread-safe: it has no state but the loaded kernels. One per context, for the process's life.
class ColorConverter {
 public:
  /// Loads the kernels on first use. not_supported when this build has none that the device takes.
  static Result<const ColorConverter*> for_context(cuda::Context& context);

  /// NV12 to RGB forms, and RGB forms among each other.
  static bool supports(PixelFormat from, PixelFormat to) noexcept;

  /// Stream: queues one kernel on `stream` and returns. Both pictures are in device memory, of
  /// equal size; the caller orders the stream before and records after. Equal formats: use
  /// copy_async().
  Status convert(const memory::FrameView& to, const memory::FrameView& from,
                 const ConvertOptions& options, CUstream stream) const;

  /// What convert() launches. invalid_argument or not_supported as there.
  static Result<ConvertLaunch> plan(const memory::FrameView& to, const memory::FrameView& from,
                                    const ConvertOptions& options);

  ColorConverter(const ColorConverter&) = delete;
  ColorConverter& operator=(const ColorConverter&) = delete;

 private:
  static constexpr int kKernelCount = 4;

  explicit ColorConverter(cuda::Context& context) : context_(context) {}
  ~ColorConverter() = default;  // only where loading failed: else it lives with the process
  Status load();

  cuda::Context& context_;
  CUfunction functions_[kKernelCount] = {};
};

}  // namespace cudaframe::convert
