// SPDX-License-Identifier: LGPL-2.1-or-later
#include "memory/frame_copy.h"

#include <algorithm>

namespace cudaframe::memory {
namespace {

/// A run of rows of both pictures that one copy covers.
struct Run {
  std::size_t to_offset;
  std::size_t from_offset;
  std::size_t to_pitch;
  std::size_t from_pitch;
  std::size_t row_bytes;
  std::size_t rows;
};

/// Whether the next plane lies the same number of whole rows behind this one on both sides, so that
/// copying the padding rows between them is allowed on both.
bool joins(const FrameLayout& to, const FrameLayout& from, int plane) {
  const PlaneLayout& a = to.planes[plane];
  const PlaneLayout& b = from.planes[plane];
  const PlaneLayout& next_a = to.planes[plane + 1];
  const PlaneLayout& next_b = from.planes[plane + 1];
  if (a.pitch != next_a.pitch || b.pitch != next_b.pitch) return false;
  if (next_a.offset < a.offset || next_b.offset < b.offset) return false;
  if ((next_a.offset - a.offset) % a.pitch != 0) return false;
  const std::size_t rows = (next_a.offset - a.offset) / a.pitch;
  return rows >= a.rows && next_b.offset - b.offset == rows * b.pitch;
}

int collect_runs(const FrameLayout& to, const FrameLayout& from,
                 std::array<Run, kMaxPlanes>& runs) {
  int count = 0;
  for (int plane = 0; plane < to.plane_count; ++plane) {
    const PlaneLayout& a = to.planes[plane];
    const PlaneLayout& b = from.planes[plane];
    Run& last = runs[std::max(count - 1, 0)];
    if (plane > 0 && joins(to, from, plane - 1)) {
      last.rows = (a.offset - last.to_offset) / a.pitch + a.rows;
      last.row_bytes = std::max(last.row_bytes, a.row_bytes);
    } else {
      runs[count++] = {a.offset, b.offset, a.pitch, b.pitch, a.row_bytes, a.rows};
    }
  }
  return count;
}

void set_side(const FrameView& view, std::size_t offset, CUmemorytype& type, CUdeviceptr& device) {
  type = view.device ? CU_MEMORYTYPE_DEVICE : CU_MEMORYTYPE_HOST;
  device = view.device ? view.device + offset : 0;
}

}  // namespace

FrameView FrameView::of(const Frame& frame) {
  // Plane 0 may lie behind the start of the allocation.
  const std::size_t first = frame.layout().planes[0].offset;
  if (frame.kind() == MemoryKind::device) {
    return {.layout = frame.layout(), .device = frame.device_address() - first};
  }
  return {.layout = frame.layout(), .host = frame.host_address() - first};
}

Status copy_async(cuda::Context& context, const FrameView& to, const FrameView& from,
                  CUstream stream) {
  if (to.layout.format != from.layout.format || to.layout.width != from.layout.width ||
      to.layout.height != from.layout.height) {
    return Status(StatusCode::invalid_argument, "a copy can't change a picture's format or size");
  }
  std::array<Run, kMaxPlanes> runs{};
  const int count = collect_runs(to.layout, from.layout, runs);
  cuda::ContextScope scope(context);
  CUDAFRAME_TRY(scope.status());
  for (int i = 0; i < count; ++i) {
    CUDA_MEMCPY2D copy{};
    set_side(to, runs[i].to_offset, copy.dstMemoryType, copy.dstDevice);
    set_side(from, runs[i].from_offset, copy.srcMemoryType, copy.srcDevice);
    copy.dstHost = to.host ? to.host + runs[i].to_offset : nullptr;
    copy.srcHost = from.host ? from.host + runs[i].from_offset : nullptr;
    copy.dstPitch = runs[i].to_pitch;
    copy.srcPitch = runs[i].from_pitch;
    copy.WidthInBytes = runs[i].row_bytes;
    copy.Height = runs[i].rows;
    CUDAFRAME_TRY(CUDAFRAME_CUDA(context.driver(), cuMemcpy2DAsync(&copy, stream)));
  }
  return {};
}

}  // namespace cudaframe::memory
