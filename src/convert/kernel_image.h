// SPDX-License-Identifier: LGPL-2.1-or-later
// The compiled kernels, embedded in the program.
#pragma once

#include <cstddef>

namespace cudaframe::convert {

/// A fatbin: code for several architectures, and PTX. Without nvcc at build time, a placeholder
/// that only the simulated device takes.
extern const unsigned char kKernelImage[];
extern const bool kHasKernels;

}  // namespace cudaframe::convert
