// SPDX-License-Identifier: LGPL-2.1-or-later
#include "memory/frame_layout.h"

#include <gtest/gtest.h>

namespace cudaframe::memory {
namespace {

constexpr PixelFormat kAll[] = {PixelFormat::nv12, PixelFormat::rgb,  PixelFormat::bgr,
                                PixelFormat::rgba, PixelFormat::bgra, PixelFormat::rgbx,
                                PixelFormat::bgrx, PixelFormat::rgbp, PixelFormat::gbr};

TEST(FrameLayout, Nv12OfTheTutorialsClip) {
  const Result<FrameLayout> layout = make_device_layout(PixelFormat::nv12, 1280, 720);
  ASSERT_TRUE(layout.ok());
  EXPECT_EQ(layout->plane_count, 2);
  EXPECT_EQ(layout->planes[0].pitch, 1280u);
  EXPECT_EQ(layout->planes[1].offset, 1280u * 720);
  EXPECT_EQ(layout->planes[1].rows, 360u);
  EXPECT_EQ(layout->bytes, 1280u * 1080);
}

TEST(FrameLayout, OddSizesRoundChromaUp) {
  const Result<FrameLayout> layout = make_device_layout(PixelFormat::nv12, 241, 321);
  ASSERT_TRUE(layout.ok());
  EXPECT_EQ(layout->width, 241);
  EXPECT_EQ(layout->planes[0].row_bytes, 241u);
  EXPECT_EQ(layout->planes[1].row_bytes, 242u);
  EXPECT_EQ(layout->planes[1].rows, 161u);
  EXPECT_EQ(layout->planes[1].offset, layout->planes[0].pitch * 322) << "after an even row";
}

TEST(FrameLayout, PlanesNeverOverlapAndFit) {
  for (const PixelFormat format : kAll) {
    for (int width = 1; width < 70; width += 3) {
      for (int height = 1; height < 10; ++height) {
        const Result<FrameLayout> layout = make_device_layout(format, width, height);
        ASSERT_TRUE(layout.ok());
        std::size_t end = 0;
        for (int i = 0; i < layout->plane_count; ++i) {
          const PlaneLayout& plane = layout->planes[static_cast<std::size_t>(i)];
          EXPECT_GE(plane.offset, end);
          EXPECT_GE(plane.pitch, plane.row_bytes);
          EXPECT_EQ(plane.pitch, layout->planes[0].pitch) << "one pitch";
          end = plane.offset + plane.pitch * plane.rows;
        }
        EXPECT_EQ(end, layout->bytes);
      }
    }
  }
}

TEST(FrameLayout, ImpossibleSizesAreRefused) {
  EXPECT_FALSE(make_device_layout(PixelFormat::rgb, 0, 1).ok());
  EXPECT_FALSE(make_device_layout(PixelFormat::rgb, 1, -1).ok());
  EXPECT_FALSE(make_device_layout(PixelFormat::rgb, 1 << 20, 1).ok());
}

TEST(FrameLayout, ForeignLayoutsAreChecked) {
  const std::size_t offsets[] = {0, 64 * 4};
  const std::size_t pitches[] = {64, 64};
  EXPECT_TRUE(make_layout(PixelFormat::nv12, 64, 4, offsets, pitches, 64 * 6).ok());
  EXPECT_FALSE(make_layout(PixelFormat::nv12, 64, 4, offsets, pitches, 64 * 6 - 1).ok());
  EXPECT_FALSE(make_layout(PixelFormat::nv12, 65, 4, offsets, pitches, 64 * 6).ok());
  EXPECT_FALSE(make_layout(PixelFormat::rgbp, 64, 4, offsets, pitches, 1 << 20).ok());
}

}  // namespace
}  // namespace cudaframe::memory
