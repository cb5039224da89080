// SPDX-License-Identifier: LGPL-2.1-or-later
// What the tests of cudapacketdec share.
#pragma once

#include <gst/gst.h>
#include <gst/video/video.h>
#include <gtest/gtest.h>

#include "decode_clip.h"

namespace cudaframe::test {

inline constexpr char kCudaCaps[] = "video/x-raw(memory:CUDAFrame),format=NV12";
inline constexpr char kSystemCaps[] = "video/x-raw,format=NV12";
inline constexpr GstClockTime kFrameDuration = GST_SECOND / 30;

inline const char* clip_path() {
  const char* path = g_getenv("CUDAFRAME_TEST_CLIP");
  EXPECT_NE(path, nullptr);
  return path;
}

// The frame's rows without padding, through a CPU map.
inline ByteVector read_nv12(GstBuffer* buffer, GstCaps* caps) {
  ByteVector bytes;
  GstVideoInfo info;
  GstVideoFrame frame;
  if (!gst_video_info_from_caps(&info, caps) ||
      !gst_video_frame_map(&frame, &info, buffer, GST_MAP_READ)) {
    ADD_FAILURE() << "the frame can't be mapped";
    return bytes;
  }
  for (guint plane = 0; plane < 2; ++plane) {
    const auto* data = static_cast<const guint8*>(GST_VIDEO_FRAME_PLANE_DATA(&frame, plane));
    const gint rows = GST_VIDEO_FRAME_COMP_HEIGHT(&frame, plane);
    const gint row_bytes =
        GST_VIDEO_FRAME_COMP_WIDTH(&frame, plane) * GST_VIDEO_FRAME_COMP_PSTRIDE(&frame, plane);
    for (gint y = 0; y < rows; ++y) {
      const guint8* row =
          data +
          static_cast<gsize>(y) * static_cast<gsize>(GST_VIDEO_FRAME_PLANE_STRIDE(&frame, plane));
      bytes.insert(bytes.end(), row, row + row_bytes);
    }
  }
  gst_video_frame_unmap(&frame);
  return bytes;
}

}  // namespace cudaframe::test
