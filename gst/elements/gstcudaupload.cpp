// SPDX-License-Identifier: LGPL-2.1-or-later
#include "elements/gstcudaupload.h"

#include <cstring>

using cudaframe::Result;
using cudaframe::Status;
using cudaframe::StatusCode;
using cudaframe::cuda::StreamPtr;
using cudaframe::memory::FrameLayout;
using cudaframe::memory::FramePtr;
using cudaframe::memory::MemoryPolicy;

namespace {

/// Whether all rows lie inside what is mapped: a video meta may promise more than there is.
bool holds_picture(const GstVideoFrame& mapped, const FrameLayout& layout) {
  for (int plane = 0; plane < layout.plane_count; ++plane) {
    const auto& [offset, pitch, row_bytes, rows] = layout.planes[static_cast<std::size_t>(plane)];
    const GstMapInfo& map = mapped.map[mapped.meta ? plane : 0];
    const auto first = static_cast<const guint8*>(GST_VIDEO_FRAME_PLANE_DATA(&mapped, plane)) -
                       static_cast<const guint8*>(map.data);
    const auto last = first + static_cast<std::ptrdiff_t>(rows - 1) *
                                  GST_VIDEO_FRAME_PLANE_STRIDE(&mapped, plane);
    const auto end = static_cast<std::ptrdiff_t>(map.size - row_bytes);
    if (row_bytes > map.size || MIN(first, last) < 0 || MAX(first, last) > end) return false;
  }
  return true;
}

Status map_input(GstBuffer* buffer, const GstVideoInfo& info, const FrameLayout& layout,
                 GstVideoFrame* mapped) {
  const Status no_picture(StatusCode::bad_data, "an input buffer holds no picture as its caps say");
  const GstVideoMeta* meta = gst_buffer_get_video_meta(buffer);
  // A larger one is a picture with something around it.
  if (meta && (meta->format != GST_VIDEO_INFO_FORMAT(&info) ||
               meta->width < static_cast<guint>(GST_VIDEO_INFO_WIDTH(&info)) ||
               meta->height < static_cast<guint>(GST_VIDEO_INFO_HEIGHT(&info)))) {
    return no_picture;
  }
  if (!gst_video_frame_map(mapped, &info, buffer, GST_MAP_READ)) return no_picture;
  if (holds_picture(*mapped, layout)) return {};
  gst_video_frame_unmap(mapped);
  return no_picture;
}

}  // namespace

Result<FramePtr> gst_cuda_copy_to_pinned(GstBuffer* buffer, const GstVideoInfo& info,
                                         const FrameLayout& layout, MemoryPolicy& pool,
                                         const StreamPtr& stream) {
  GstVideoFrame mapped;
  CUDAFRAME_TRY(map_input(buffer, info, layout, &mapped));
  Result<FramePtr> pinned = pool.allocate(layout, stream);
  // The CPU writes it now: not while a copy from its earlier life is under way.
  Status status = pinned.ok() ? (*pinned)->fence().synchronize() : pinned.status();
  if (status.ok()) {
    for (int plane = 0; plane < layout.plane_count; ++plane) {
      const auto* from = static_cast<const std::byte*>(GST_VIDEO_FRAME_PLANE_DATA(&mapped, plane));
      const auto& to = layout.planes[static_cast<std::size_t>(plane)];
      for (std::size_t row = 0; row < to.rows; ++row) {
        memcpy(
            (*pinned)->host_address(plane) + row * to.pitch,
            from + static_cast<std::ptrdiff_t>(row) * GST_VIDEO_FRAME_PLANE_STRIDE(&mapped, plane),
            to.row_bytes);
      }
    }
  }
  gst_video_frame_unmap(&mapped);
  if (!status.ok()) return status;
  return pinned;
}
