// SPDX-License-Identifier: LGPL-2.1-or-later
// The simulated post-processing: from a decoded picture to an output surface in device memory.
#pragma once

#include <cuda.h>

#include <ffnvcodec/dynlink_cuviddec.h>

#include <cstddef>

#include "pictures.h"

namespace cudaframe::sim {

struct SurfaceGeometry {
  cudaVideoSurfaceFormat format = cudaVideoSurfaceFormat_NV12;
  unsigned width = 0, height = 0;  ///< of the target
  int left = 0, top = 0;           ///< of the display area in the picture
  size_t pitch = 0;                ///< bytes, more than a row's
  size_t size() const;
  size_t chroma_offset() const { return pitch * ((height + 1) / 2 * 2); }
};

/// The pitch for a row: 256-aligned and never equal to the row, so that no consumer gets away with
/// mixing them up.
size_t surface_pitch(cudaVideoSurfaceFormat format, unsigned width);

/// Whether this picture can be written in that format.
bool can_write(const Picture& picture, cudaVideoSurfaceFormat format);

/// Poisons the whole surface, padding included.
void poison_surface(unsigned char* surface, const SurfaceGeometry& geometry);
/// Samples beyond the picture's edge repeat the last one.
void write_surface(const Picture& picture, const SurfaceGeometry& geometry, unsigned char* surface);

}  // namespace cudaframe::sim
