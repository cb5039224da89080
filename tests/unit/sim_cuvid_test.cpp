// SPDX-License-Identifier: LGPL-2.1-or-later
// The simulated libnvcuvid.so.1 against libavcodec: every frame, in order, and the rules of
// surfaces, maps and callbacks.
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "decode_clip.h"
#include "sim_player.h"

using cudaframe::test::ByteVector;
using cudaframe::test::Clip;
using cudaframe::test::ClipSpec;
using cudaframe::test::crop_clip;
using cudaframe::test::decode_reference;
using cudaframe::test::make_clip;
using cudaframe::test::ReferenceFrame;

namespace {

constexpr int64_t kTick = 333;  // of a frame, in these tests

class SimCuvid : public SimDeviceTest {
 protected:
  static Clip clip(int b_frames = 3, int width = 320, int height = 240) {
    return make_clip({.width = width,
                      .height = height,
                      .frames = 25,
                      .gop = 12,
                      .b_frames = b_frames,
                      .repeat_headers = true});
  }

  static void feed_all(SimPlayer& player, const Clip& clip, int64_t offset = 0) {
    for (size_t i = 0; i < clip.packets.size(); ++i) {
      ASSERT_OK(player.feed(clip.packets[i], (clip.pts[i] + offset) * kTick));
    }
  }

  static void expect_equal(const SimPlayer& player, const std::vector<ReferenceFrame>& reference,
                           size_t first = 0, int64_t offset = 0) {
    ASSERT_EQ(player.shown.size() - first, reference.size());
    for (size_t i = 0; i < reference.size(); ++i) {
      const auto& shown = player.shown[first + i];
      EXPECT_EQ(shown.width, static_cast<unsigned>(reference[i].width));
      EXPECT_EQ(shown.height, static_cast<unsigned>(reference[i].height));
      EXPECT_EQ(shown.timestamp, (reference[i].pts + offset) * kTick) << "frame " << i;
      EXPECT_TRUE(shown.pixels == reference[i].nv12) << "frame " << i;
    }
  }
};

TEST_F(SimCuvid, EqualsTheSoftwareDecoder) {
  const Clip source = clip();
  SimPlayer player;
  feed_all(player, source);
  ASSERT_OK(player.finish());
  expect_equal(player, decode_reference(source));
  ASSERT_EQ(player.sequences.size(), 1u);
  const CUVIDEOFORMAT& format = player.sequences[0];
  EXPECT_EQ(format.coded_width, 320u);
  EXPECT_EQ(format.coded_height, 240u);
  EXPECT_EQ(format.display_area.right, 320);
  EXPECT_EQ(format.display_area.bottom, 240);
  EXPECT_EQ(format.chroma_format, cudaVideoChromaFormat_420);
  EXPECT_EQ(format.bit_depth_luma_minus8, 0);
  EXPECT_EQ(format.progressive_sequence, 1);
  EXPECT_GE(format.min_num_decode_surfaces, 4);  // three references and the picture itself
  EXPECT_EQ(format.display_aspect_ratio.x, 4);
  EXPECT_EQ(format.display_aspect_ratio.y, 3);
  EXPECT_EQ(player.order[0], 'S');
  EXPECT_EQ(player.order[1], 'D');
}

TEST_F(SimCuvid, CropsOnEverySide) {
  const Clip source = crop_clip(clip(2, 480, 272), 64, 2, 16, 6);
  SimPlayer player;
  feed_all(player, source);
  ASSERT_OK(player.finish());
  expect_equal(player, decode_reference(source));
  ASSERT_EQ(player.sequences.size(), 1u);
  const auto& format = player.sequences[0];
  EXPECT_EQ(format.coded_width, 480u);
  EXPECT_EQ(format.coded_height, 272u);
  EXPECT_EQ(format.display_area.left, 64);
  EXPECT_EQ(format.display_area.top, 16);
  EXPECT_EQ(format.display_area.right, 478);
  EXPECT_EQ(format.display_area.bottom, 266);
  EXPECT_EQ(player.shown[0].width, 414u);
}

TEST_F(SimCuvid, SizesThatAreNoMultipleOf16) {
  const Clip source = clip(3, 318, 238);
  SimPlayer player;
  feed_all(player, source);
  ASSERT_OK(player.finish());
  expect_equal(player, decode_reference(source));
  EXPECT_EQ(player.sequences.at(0).coded_width, 320u);
  EXPECT_EQ(player.sequences.at(0).display_area.bottom, 238);
}

TEST_F(SimCuvid, ArbitraryPiecesGiveTheSameFrames) {
  const Clip source = clip();
  ByteVector all;
  for (const ByteVector& packet : source.packets)
    all.insert(all.end(), packet.begin(), packet.end());
  SimPlayer player;
  for (size_t at = 0; at < all.size(); at += 777) {
    const size_t size = std::min<size_t>(777, all.size() - at);
    ASSERT_OK(player.feed({&all[at], size}, 0, 0));
  }
  ASSERT_OK(player.finish());
  const auto reference = decode_reference(source);
  ASSERT_EQ(player.shown.size(), reference.size());
  for (size_t i = 0; i < reference.size(); ++i) {
    EXPECT_TRUE(player.shown[i].pixels == reference[i].nv12) << "frame " << i;
  }
}

TEST_F(SimCuvid, MissingTimestampsFollowTheFrameRate) {
  const Clip source = clip(0);
  SimPlayer player;
  for (size_t i = 0; i < source.packets.size(); ++i) {
    const bool has_time = i % 5 == 0;
    ASSERT_OK(player.feed(source.packets[i], static_cast<int64_t>(i) * 1'000'000,
                          CUVID_PKT_ENDOFPICTURE | (has_time ? CUVID_PKT_TIMESTAMP : 0)));
  }
  ASSERT_OK(player.finish());
  ASSERT_EQ(player.shown.size(), source.packets.size());
  const auto& rate = player.sequences.at(0).frame_rate;
  ASSERT_GT(rate.numerator, 0u);
  const int64_t step = 10'000'000LL * rate.denominator / rate.numerator;
  for (int64_t i = 0; i < static_cast<int64_t>(player.shown.size()); ++i) {
    const int64_t known = i / 5 * 5;
    EXPECT_EQ(player.shown[static_cast<size_t>(i)].timestamp,
              known * 1'000'000 + (i - known) * step);
  }
}

// Measured on an H200, driver 580: 60 pictures with B-frames, numbered in decoding order by their
// timestamps, were shown with the numbers in rising order.
TEST_F(SimCuvid, TimestampsComeOutInRisingOrderWhateverTheirPicture) {
  const Clip source = clip(3);
  ASSERT_FALSE(std::is_sorted(source.pts.begin(), source.pts.end()));
  SimPlayer player;
  for (size_t i = 0; i < source.packets.size(); ++i) {
    ASSERT_OK(player.feed(source.packets[i], static_cast<int64_t>(i)));
  }
  ASSERT_OK(player.finish());
  for (size_t i = 0; i < player.shown.size(); ++i) {
    EXPECT_EQ(player.shown[i].timestamp, static_cast<int64_t>(i));
  }
}

TEST_F(SimCuvid, GoesOnAfterTheEndOfAStream) {
  const Clip source = clip();
  const auto reference = decode_reference(source);
  SimPlayer player;
  feed_all(player, source);
  ASSERT_OK(player.finish(CUVID_PKT_NOTIFY_EOS));
  EXPECT_EQ(player.order.back(), 'E');
  feed_all(player, source, 1000);
  ASSERT_OK(player.finish());
  expect_equal(player, reference, reference.size(), 1000);
  // Measured on an H200: the sequence is announced again.
  EXPECT_EQ(player.sequences.size(), 2u);
}

TEST_F(SimCuvid, AChangeOfSizeShowsTheOldOnesFirst) {
  const Clip small = clip(3, 320, 240);
  const Clip large = clip(2, 400, 304);
  SimPlayer player;
  feed_all(player, small);
  feed_all(player, large, 1000);
  ASSERT_OK(player.finish());
  const auto first = decode_reference(small);
  auto reference = decode_reference(large);
  for (auto& frame : reference) frame.pts += 1000;
  reference.insert(reference.begin(), first.begin(), first.end());
  expect_equal(player, reference);
  EXPECT_EQ(player.sequences.size(), 2u);
  const auto change = std::find(player.order.begin() + 1, player.order.end(), 'S');
  EXPECT_EQ(std::count(player.order.begin(), change, 'P'),
            static_cast<std::ptrdiff_t>(first.size()));
}

TEST_F(SimCuvid, DisplayDelayHoldsPicturesBackWhileSurfacesLast) {
  const Clip source = clip(0);
  const auto reference = decode_reference(source);
  SimPlayer player(cudaVideoCodec_H264, 3);
  player.extra_surfaces = 8;
  feed_all(player, source);
  EXPECT_EQ(player.shown.size() + 3, reference.size());
  ASSERT_OK(player.finish());
  expect_equal(player, reference);
}

TEST_F(SimCuvid, IndicesStayBelowWhatTheSequenceCallbackSaid) {
  const Clip source = clip();
  SimPlayer player;
  feed_all(player, source);
  ASSERT_OK(player.finish());
  const int surfaces = player.sequences.at(0).min_num_decode_surfaces;
  EXPECT_LT(*std::max_element(player.decoded.begin(), player.decoded.end()), surfaces);
}

// Measured on an H200, driver 580: whatever the callbacks say, the parse succeeds.
TEST_F(SimCuvid, ARefusedSequenceIsNotDecodedUntilTheNext) {
  const Clip source = clip();
  SimPlayer player;
  player.answer_sequence = [&](const CUVIDEOFORMAT&) { return player.sequences.size() > 1; };
  feed_all(player, source);
  ASSERT_OK(player.finish());
  EXPECT_EQ(player.order, std::vector<char>{'S'});
  feed_all(player, source);
  ASSERT_OK(player.finish());
  expect_equal(player, decode_reference(source));
}

TEST_F(SimCuvid, APictureThatFailedToDecodeIsNotShown) {
  const Clip source = clip(0);
  SimPlayer player;
  int calls = 0;
  player.answer_decode = [&](const CUVIDPICPARAMS& params) {
    CUVIDPICPARAMS copy = params;
    return ++calls != 3 && cuvidDecodePicture(player.decoder(), &copy) == CUDA_SUCCESS;
  };
  feed_all(player, source);
  ASSERT_OK(player.finish());
  auto reference = decode_reference(source);
  reference.erase(reference.begin() + 2);
  expect_equal(player, reference);
}

TEST_F(SimCuvid, GarbageShowsNothingAndBreaksNothing) {
  const Clip source = clip();
  SimPlayer player;
  ByteVector noise(5000);
  unsigned state = 1;
  for (uint8_t& byte : noise) {
    state = state * 1103515245 + 12345;
    byte = static_cast<uint8_t>(state >> 16);
  }
  ASSERT_OK(player.feed(noise, 0));
  ASSERT_OK(player.feed(noise, 0, 0));
  ASSERT_OK(player.finish());
  EXPECT_TRUE(player.order.empty());
  // Every packet damaged somewhere: whatever comes, comes in order.
  for (size_t i = 0; i < source.packets.size(); ++i) {
    ByteVector damaged = source.packets[i];
    for (size_t at = 20 + i; at < damaged.size(); at += 97) damaged[at] ^= 0x5a;
    ASSERT_OK(player.feed(damaged, source.pts[i] * kTick));
  }
  ASSERT_OK(player.finish());
  player.shown.clear();
  feed_all(player, source);
  ASSERT_OK(player.finish());
  expect_equal(player, decode_reference(source));
}

}  // namespace
