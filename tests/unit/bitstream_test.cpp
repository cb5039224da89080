// SPDX-License-Identifier: LGPL-2.1-or-later
// Length prefixes to Annex B, and parameter sets where a decoder starts: once, not twice, not none.
#include "decode/bitstream.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

extern "C" {
#include <libavcodec/defs.h>
}

#include "decode/parameter_sets.h"
#include "decode_clip.h"

namespace cudaframe::test {
namespace {

using decode::Bitstream;
using decode::ParameterSets;
using decode::StreamFormat;

std::unique_ptr<Bitstream> make(StreamFormat format, const ByteVector& codec_data) {
  auto made = Bitstream::create(Codec::h264, format, codec_data);
  EXPECT_TRUE(made.ok()) << made.status().dump();
  return made ? std::move(*made) : nullptr;
}

// The output of one packet; all its pieces in a row.
ByteVector filter(Bitstream& stream, const ByteVector& packet, std::size_t readable_after = 0) {
  ByteVector out;
  const Status begun = stream.begin({packet, readable_after});
  EXPECT_TRUE(begun.ok()) << begun.dump();
  while (begun.ok()) {
    auto piece = stream.next();
    EXPECT_TRUE(piece.ok()) << piece.status().dump();
    if (!piece || piece->empty()) break;
    out.insert(out.end(), piece->begin(), piece->end());
  }
  return out;
}

int count_nals(const ByteVector& annexb, int type) {
  const std::vector<ByteVector> nals = split_nals(annexb);
  return static_cast<int>(std::count_if(
      nals.begin(), nals.end(), [type](const ByteVector& nal) { return (nal[0] & 0x1f) == type; }));
}

// Everything but parameter sets.
std::vector<ByteVector> payload(const ByteVector& annexb) {
  std::vector<ByteVector> nals = split_nals(annexb);
  std::erase_if(nals,
                [](const ByteVector& nal) { return (nal[0] & 0x1f) == 7 || (nal[0] & 0x1f) == 8; });
  return nals;
}

ByteVector joined(const ByteVector& a, const ByteVector& b) {
  ByteVector out = a;
  out.insert(out.end(), b.begin(), b.end());
  return out;
}

TEST(BitstreamTest, LengthPrefixedPacketsComeOutAsTheSameNalUnits) {
  const Clip clip = make_clip({.b_frames = 2});
  auto stream = make(StreamFormat::length_prefixed, make_avcc_record(clip.headers));
  ASSERT_TRUE(stream);
  for (const ByteVector& packet : clip.packets) {
    EXPECT_EQ(payload(filter(*stream, to_length_prefixed(packet))), payload(packet));
  }
}

TEST(BitstreamTest, PaddedInputIsFilteredInPlaceWithTheSameResult) {
  const Clip clip = make_clip({.frames = 3});
  auto copied = make(StreamFormat::length_prefixed, make_avcc_record(clip.headers));
  auto in_place = make(StreamFormat::length_prefixed, make_avcc_record(clip.headers));
  for (const ByteVector& packet : clip.packets) {
    ByteVector padded = to_length_prefixed(packet);
    const std::size_t size = padded.size();
    padded.resize(size + AV_INPUT_BUFFER_PADDING_SIZE);
    const ByteVector before = padded;
    ASSERT_TRUE(
        in_place->begin({std::span(padded).first(size), AV_INPUT_BUFFER_PADDING_SIZE}).ok());
    auto piece = in_place->next();
    ASSERT_TRUE(piece.ok());
    const ByteVector out(piece->begin(), piece->end());
    EXPECT_EQ(out, filter(*copied, to_length_prefixed(packet)));
    EXPECT_EQ(padded, before) << "the caller's bytes were written to";
    EXPECT_TRUE(in_place->next()->empty());
  }
}

TEST(BitstreamTest, AnIdrCarriesTheSetsOfCodecDataOnce) {
  const Clip clip = make_clip({.frames = 21, .gop = 10});
  auto stream = make(StreamFormat::length_prefixed, make_avcc_record(clip.headers));
  for (std::size_t i = 0; i < clip.packets.size(); ++i) {
    const ByteVector out = filter(*stream, to_length_prefixed(clip.packets[i]));
    EXPECT_EQ(count_nals(out, 7), clip.is_key[i] ? 1 : 0) << "packet " << i;
    EXPECT_EQ(count_nals(out, 8), clip.is_key[i] ? 1 : 0) << "packet " << i;
  }
}

TEST(BitstreamTest, AStartAtARecoveryPointGetsTheSetsToo) {
  const Clip clip = make_clip({.frames = 30, .gop = 10, .b_frames = 2, .open_gop = true});
  std::size_t start = 1;
  while (start < clip.packets.size() && !clip.is_key[start]) ++start;
  ASSERT_LT(start, clip.packets.size());
  ASSERT_EQ(count_nals(clip.packets[start], 5), 0) << "the clip's GOPs are not open";
  for (const StreamFormat format : {StreamFormat::length_prefixed, StreamFormat::byte_stream}) {
    const bool prefixed = format == StreamFormat::length_prefixed;
    auto stream = make(format, prefixed ? make_avcc_record(clip.headers) : clip.headers);
    const auto feed = [&](std::size_t i) {
      return filter(*stream, prefixed ? to_length_prefixed(clip.packets[i]) : clip.packets[i]);
    };
    const ByteVector first = feed(start);
    EXPECT_EQ(count_nals(first, 7), 1);
    EXPECT_EQ(count_nals(first, 8), 1);
    EXPECT_EQ(payload(first), payload(clip.packets[start]));
    EXPECT_EQ(count_nals(feed(start + 1), 7), 0);
  }
}

TEST(BitstreamTest, RestartSendsTheSetsAgain) {
  const Clip clip = make_clip({.frames = 5});
  auto stream = make(StreamFormat::length_prefixed, make_avcc_record(clip.headers));
  filter(*stream, to_length_prefixed(clip.packets[0]));
  EXPECT_EQ(count_nals(filter(*stream, to_length_prefixed(clip.packets[1])), 7), 0);
  stream->restart();
  const ByteVector out = filter(*stream, to_length_prefixed(clip.packets[2]));
  EXPECT_EQ(count_nals(out, 7), 1);
  EXPECT_EQ(count_nals(out, 8), 1);
}

TEST(BitstreamTest, SetsSeenInBandAreSentAfterARestart) {
  const Clip clip = make_clip({.frames = 5, .repeat_headers = true});
  ASSERT_TRUE(clip.headers.empty());
  for (const bool prefixed : {false, true}) {
    auto stream = prefixed ? make(StreamFormat::length_prefixed, make_avcc_record({}))
                           : make(StreamFormat::byte_stream, {});
    const auto feed = [&](std::size_t i) {
      return filter(*stream, prefixed ? to_length_prefixed(clip.packets[i]) : clip.packets[i]);
    };
    EXPECT_EQ(count_nals(feed(0), 7), 1) << "doubled";
    EXPECT_EQ(count_nals(feed(1), 7), 0);
    stream->restart();
    const ByteVector out = feed(2);
    EXPECT_EQ(count_nals(out, 7), 1);
    EXPECT_EQ(count_nals(out, 8), 1);
  }
}

TEST(BitstreamTest, ByteStreamPassesWithoutACopy) {
  const Clip clip = make_clip({.frames = 3, .repeat_headers = true});
  auto stream = make(StreamFormat::byte_stream, {});
  for (const ByteVector& packet : clip.packets) {
    ASSERT_TRUE(stream->begin({packet, 0}).ok());
    auto piece = stream->next();
    ASSERT_TRUE(piece.ok());
    EXPECT_EQ(piece->data(), packet.data());
    EXPECT_EQ(piece->size(), packet.size());
    EXPECT_TRUE(stream->next()->empty());
  }
}

TEST(BitstreamTest, ShorterLengthPrefixesWork) {
  const Clip clip = make_clip({.width = 64, .height = 64, .frames = 2});
  ByteVector record = make_avcc_record(clip.headers);
  record[4] = 0xfd;  // two bytes of length
  auto stream = make(StreamFormat::length_prefixed, record);
  ByteVector packet;
  for (const ByteVector& nal : split_nals(clip.packets[0])) {
    packet.push_back(static_cast<std::uint8_t>(nal.size() >> 8));
    packet.push_back(static_cast<std::uint8_t>(nal.size()));
    packet.insert(packet.end(), nal.begin(), nal.end());
  }
  EXPECT_EQ(payload(filter(*stream, packet)), payload(clip.packets[0]));
}

TEST(BitstreamTest, LengthPrefixesWithoutARecordAreRefused) {
  for (const ByteVector& codec_data : {ByteVector{}, ByteVector{0, 0, 0, 1, 0x67}}) {
    auto made = Bitstream::create(Codec::h264, StreamFormat::length_prefixed, codec_data);
    ASSERT_FALSE(made.ok());
    EXPECT_EQ(made.status().code(), StatusCode::invalid_argument);
    EXPECT_NE(made.status().message().find("avcC"), std::string::npos);
  }
}

TEST(BitstreamTest, ATruncatedRecordIsBadData) {
  ByteVector record = make_avcc_record(make_clip({.frames = 1}).headers);
  record.resize(12);
  auto made = Bitstream::create(Codec::h264, StreamFormat::length_prefixed, record);
  ASSERT_FALSE(made.ok());
  EXPECT_EQ(made.status().code(), StatusCode::bad_data);
}

TEST(BitstreamTest, ADamagedPacketIsBadDataAndTheNextOneIsFine) {
  const Clip clip = make_clip({.frames = 3});
  auto stream = make(StreamFormat::length_prefixed, make_avcc_record(clip.headers));
  ByteVector damaged = to_length_prefixed(clip.packets[0]);
  damaged[0] = 0x7f;  // a length far beyond the packet
  ASSERT_TRUE(stream->begin({damaged, 0}).ok());
  auto piece = stream->next();
  ASSERT_FALSE(piece.ok());
  EXPECT_EQ(piece.status().code(), StatusCode::bad_data);
  EXPECT_EQ(payload(filter(*stream, to_length_prefixed(clip.packets[0]))),
            payload(clip.packets[0]));
}

TEST(BitstreamTest, AnEmptyPacketIsBadData) {
  auto stream = make(StreamFormat::byte_stream, {});
  EXPECT_EQ(stream->begin({}).code(), StatusCode::bad_data);
}

TEST(ParameterSetsTest, ALaterSetReplacesTheOneWithItsId) {
  const ByteVector small = make_clip({.width = 64, .height = 64, .frames = 1}).headers;
  const ByteVector large = make_clip({.width = 128, .height = 96, .frames = 1}).headers;
  ParameterSets sets;
  EXPECT_TRUE(sets.observe(small));
  EXPECT_TRUE(sets.observe(large));
  EXPECT_EQ(payload(sets.to_annexb()).size(), 0U);
  const ByteVector all = sets.to_annexb();
  EXPECT_EQ(count_nals(all, 7), 1);
  EXPECT_EQ(split_nals(all)[0], split_nals(large)[0]);
}

TEST(ParameterSetsTest, NothingBehindTheFirstSliceIsLookedAt) {
  const Clip clip = make_clip({.width = 64, .height = 64, .frames = 1});
  ParameterSets sets;
  sets.observe(joined(clip.packets[0], clip.headers));
  EXPECT_TRUE(sets.empty());
}

TEST(ParameterSetsTest, GarbageIsIgnored) {
  ParameterSets sets;
  for (const ByteVector& bytes :
       {ByteVector{}, ByteVector{0, 0, 1}, ByteVector{0, 0, 1, 0x67}, ByteVector{0, 0, 1, 0x68},
        ByteVector{0, 0, 1, 0x67, 1, 2, 3}, ByteVector{0, 0, 1, 0x68, 0, 0, 0, 0, 0},
        ByteVector{0, 0, 1, 0x67, 1, 2, 3, 0x02, 0x02}}) {
    EXPECT_TRUE(sets.observe(bytes));
    EXPECT_TRUE(sets.empty());
  }
}

}  // namespace
}  // namespace cudaframe::test
