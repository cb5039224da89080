// SPDX-License-Identifier: LGPL-2.1-or-later
#include "access.h"

#include <algorithm>

namespace cudaframe::sim {
namespace {

bool is_contiguous(const Access& access) {
  return access.height == 1 || access.pitch <= access.width;
}

bool spans_overlap(uintptr_t a, size_t a_size, uintptr_t b, size_t b_size) {
  return a < b + b_size && b < a + a_size;
}

/// Whether one row of bytes meets any row of `rows`.
bool row_meets(uintptr_t row, size_t width, const Access& rows) {
  if (is_contiguous(rows)) return spans_overlap(row, width, rows.address, rows.span());
  // The last row that begins before the end of `row`: earlier ones end before it does.
  if (row + width <= rows.address) return false;
  const size_t last = std::min(rows.height - 1, (row + width - 1 - rows.address) / rows.pitch);
  return spans_overlap(row, width, rows.address + last * rows.pitch, rows.width);
}

}  // namespace

bool overlap(const Access& a, const Access& b) {
  if (a.is_empty() || b.is_empty()) return false;
  if (!spans_overlap(a.address, a.span(), b.address, b.span())) return false;
  if (is_contiguous(a)) return row_meets(a.address, a.span(), b);
  for (size_t row = 0; row < a.height; ++row) {
    if (row_meets(a.address + row * a.pitch, a.width, b)) return true;
  }
  return false;
}

bool covers(const Access& outer, const Access& inner) {
  if (inner.is_empty()) return true;
  if (is_contiguous(outer)) {
    return outer.address <= inner.address &&
           inner.address + inner.span() <= outer.address + outer.span();
  }
  return outer.address == inner.address && outer.pitch == inner.pitch &&
         outer.width >= inner.width && outer.height >= inner.height;
}

}  // namespace cudaframe::sim
