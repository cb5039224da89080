// SPDX-License-Identifier: LGPL-2.1-or-later
// Bytes that an operation touches.
#pragma once

#include <cstddef>
#include <cstdint>

namespace cudaframe::sim {

/// `height` rows of `width` bytes, `pitch` apart.
struct Access {
  uintptr_t address = 0;
  size_t width = 0;
  size_t height = 1;
  size_t pitch = 0;
  bool is_write = false;
  bool is_registered = true;  ///< false: pageable host memory, which the driver knows nothing about

  bool is_empty() const { return width == 0 || height == 0; }
  /// From the first byte to the last.
  size_t span() const { return is_empty() ? 0 : pitch * (height - 1) + width; }
};

/// Whether some byte belongs to both.
bool overlap(const Access& a, const Access& b);
/// Whether every byte of `inner` belongs to `outer`; may say no where a look at every row would say
/// yes.
bool covers(const Access& outer, const Access& inner);

}  // namespace cudaframe::sim
