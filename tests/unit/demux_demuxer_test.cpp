// SPDX-License-Identifier: LGPL-2.1-or-later
// Demuxer over sources in memory, compared with libavformat reading the file by itself.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <functional>

#include "demux/demuxer.h"
#include "tests/support/demux_reference.h"

namespace cudaframe::demux {
namespace {

using test::demux_clip;
using test::read_bytes;
using test::read_reference;
using test::ReferenceFile;
using test::ReferencePacket;

constexpr std::int64_t kMs = 1'000'000;
const DemuxerOptions kOptions{.formats = "mov,matroska,mpegts"};

class MemorySource final : public ByteSource {
 public:
  MemorySource(std::vector<std::uint8_t> bytes, bool seekable)
      : bytes_(std::move(bytes)), seekable_(seekable) {}

  Result<std::size_t> read(std::span<std::uint8_t> into) override {
    ++reads;
    if (before_read) before_read();
    if (is_interrupted) return Status(StatusCode::flushing, "interrupted");
    if (position_ >= fail_at) return Status(StatusCode::internal, "the disk is on fire");
    if (position_ >= bytes_.size()) return Status(StatusCode::end_of_stream, "end");
    // An odd size, so that nothing relies on whole reads.
    const std::size_t size = std::min<std::size_t>({into.size(), bytes_.size() - position_, 4093});
    std::memcpy(into.data(), bytes_.data() + position_, size);
    position_ += size;
    return size;
  }
  Status seek(std::uint64_t position) override {
    position_ = position;
    return Status();
  }
  std::uint64_t position() const override { return position_; }
  std::optional<std::uint64_t> size() override {
    return seekable_ ? std::optional<std::uint64_t>(bytes_.size()) : std::nullopt;
  }
  bool is_seekable() const override { return seekable_; }
  bool interrupted() const override { return is_interrupted; }

  std::function<void()> before_read;
  bool is_interrupted = false;
  std::uint64_t fail_at = UINT64_MAX;
  int reads = 0;

 private:
  std::vector<std::uint8_t> bytes_;
  bool seekable_;
  std::uint64_t position_ = 0;
};

std::unique_ptr<Demuxer> open(MemorySource& source) {
  Result<std::unique_ptr<Demuxer>> demuxer = Demuxer::open(source, kOptions);
  EXPECT_TRUE(demuxer.ok()) << demuxer.status().dump();
  return demuxer.ok() ? std::move(*demuxer) : nullptr;
}

std::optional<std::int64_t> container_time(const Demuxer& demuxer, const ReferenceFile& file,
                                           std::optional<std::int64_t> time) {
  if (!time) return std::nullopt;
  return *time - demuxer.lead_ns() + file.start_ns;
}

void expect_same(const Demuxer& demuxer, const ReferenceFile& file, const Packet& packet,
                 const ReferencePacket& wanted) {
  EXPECT_EQ(packet.stream_index, wanted.stream);
  EXPECT_EQ(packet.bytes.size(), wanted.size);
  EXPECT_EQ(test::sum_of(packet.bytes.data(), packet.bytes.size()), wanted.sum);
  EXPECT_EQ(container_time(demuxer, file, packet.pts_ns), wanted.pts_ns);
  EXPECT_EQ(container_time(demuxer, file, packet.dts_ns), wanted.dts_ns);
  EXPECT_EQ(packet.duration_ns.value_or(0), wanted.duration_ns);
  EXPECT_EQ(packet.is_key, wanted.is_key);
  EXPECT_EQ(packet.is_discardable, wanted.is_hidden);
}

struct Input {
  const char* name;
  bool seekable;
};

class DemuxerReads : public testing::TestWithParam<Input> {};

TEST_P(DemuxerReads, WhatLibavformatReads) {
  const std::string path = demux_clip(GetParam().name);
  const ReferenceFile file = read_reference(path);
  MemorySource source(read_bytes(path), GetParam().seekable);
  const std::unique_ptr<Demuxer> demuxer = open(source);
  ASSERT_TRUE(demuxer);
  ASSERT_EQ(demuxer->streams().size(), file.codecs.size());
  for (std::size_t i = 0; i < file.codecs.size(); ++i) {
    EXPECT_EQ(demuxer->streams()[i].codec, file.codecs[i]);
    EXPECT_EQ(demuxer->streams()[i].extradata, file.extradata[i]);
  }
  bool starts_at_zero = false;
  for (const ReferencePacket& wanted : file.packets) {
    Result<Packet> packet = demuxer->read_packet();
    ASSERT_TRUE(packet.ok()) << packet.status().dump();
    expect_same(*demuxer, file, *packet, wanted);
    EXPECT_GE(packet->pts_ns.value_or(0), 0);
    EXPECT_GE(packet->dts_ns.value_or(0), 0);
    starts_at_zero |= packet->pts_ns == demuxer->lead_ns();
  }
  EXPECT_TRUE(starts_at_zero) << "no packet has stream time 0";
  for (int i = 0; i < 2; ++i) {
    const Result<Packet> end = demuxer->read_packet();
    ASSERT_FALSE(end.ok());
    EXPECT_EQ(end.status().code(), StatusCode::end_of_stream);
  }
  EXPECT_FALSE(demuxer->is_truncated());
}

INSTANTIATE_TEST_SUITE_P(Containers, DemuxerReads,
                         testing::Values(Input{"av.mp4", true}, Input{"av.mkv", true},
                                         Input{"av.ts", true}, Input{"fast.mp4", true},
                                         Input{"fast.mp4", false}, Input{"av.mkv", false},
                                         Input{"av.ts", false}, Input{"fragments.mp4", true},
                                         Input{"fragments.mp4", false}, Input{"edit.mp4", true},
                                         Input{"offset.ts", true}, Input{"cover.mp4", true},
                                         Input{"tracks.mp4", true}, Input{"tracks.mkv", true},
                                         Input{"other.webm", true}),
                         [](const testing::TestParamInfo<Input>& param) {
                           std::string name = param.param.name;
                           std::replace(name.begin(), name.end(), '.', '_');
                           return name + (param.param.seekable ? "_seekable" : "_pushed");
                         });

TEST(Demuxer, HidesWhatAnEditListHides) {
  const ReferenceFile file = read_reference(demux_clip("edit.mp4"));
  MemorySource source(read_bytes(demux_clip("edit.mp4")), true);
  const auto demuxer = open(source);
  ASSERT_TRUE(demuxer);
  Result<Packet> first = demuxer->read_packet();
  ASSERT_TRUE(first.ok());
  EXPECT_TRUE(first->is_key);
  EXPECT_TRUE(first->is_discardable);
  EXPECT_LT(*first->pts_ns, demuxer->lead_ns());
  EXPECT_GT(demuxer->lead_ns(), 0);
}

TEST(Demuxer, DescribesVideo) {
  MemorySource source(read_bytes(demux_clip("color.mp4")), true);
  const auto demuxer = open(source);
  ASSERT_TRUE(demuxer);
  const StreamInfo& stream = demuxer->streams().at(0);
  EXPECT_EQ(stream.type, MediaType::video);
  EXPECT_EQ(stream.video.width, 160);
  EXPECT_EQ(stream.video.height, 120);
  EXPECT_EQ(stream.video.frame_rate, (Rational{30000, 1001}));
  EXPECT_EQ(stream.video.pixel_aspect_ratio, (Rational{4, 3}));
  EXPECT_EQ(stream.video.field_order, FieldOrder::progressive);
  EXPECT_EQ(stream.video.color, (ColorTags{1, 1, 1, ColorRange::full, 0}));
  EXPECT_TRUE(stream.is_default);
  EXPECT_FALSE(stream.is_attached_picture);
  ASSERT_FALSE(stream.extradata.empty());
  EXPECT_EQ(stream.extradata[0], 1);
  // The header counts in milliseconds and rounds up.
  EXPECT_NEAR(static_cast<double>(demuxer->duration_ns().value_or(0)), 300.3e6, 1e6);
}

TEST(Demuxer, TellsCoversLanguagesAndOtherTracks) {
  MemorySource covered(read_bytes(demux_clip("cover.mp4")), true);
  const auto cover = open(covered);
  ASSERT_TRUE(cover);
  EXPECT_EQ(std::count_if(cover->streams().begin(), cover->streams().end(),
                          [](const StreamInfo& info) { return info.is_attached_picture; }),
            1);
  MemorySource source(read_bytes(demux_clip("tracks.mp4")), true);
  const auto demuxer = open(source);
  ASSERT_TRUE(demuxer);
  ASSERT_EQ(demuxer->streams().size(), 4u);
  EXPECT_EQ(demuxer->streams()[0].type, MediaType::audio);
  EXPECT_EQ(demuxer->streams()[0].language, "deu");
  EXPECT_EQ(demuxer->streams()[0].audio.sample_rate, 48000);
  EXPECT_EQ(demuxer->streams()[0].audio.channels, 1);
  EXPECT_EQ(demuxer->streams()[1].type, MediaType::subtitle);
  EXPECT_EQ(demuxer->streams()[2].type, MediaType::video);
  EXPECT_EQ(demuxer->streams()[3].type, MediaType::other);
}

TEST(Demuxer, LeavesUnselectedStreamsOut) {
  const ReferenceFile file = read_reference(demux_clip("tracks.mkv"));
  MemorySource source(read_bytes(demux_clip("tracks.mkv")), true);
  const auto demuxer = open(source);
  ASSERT_TRUE(demuxer);
  demuxer->select(0, false);
  demuxer->select(1, false);
  std::size_t packets = 0;
  while (true) {
    const Result<Packet> packet = demuxer->read_packet();
    if (!packet.ok()) break;
    EXPECT_EQ(packet.value().stream_index, 2);
    ++packets;
  }
  EXPECT_EQ(packets, file.of_stream(2).size());
}

TEST(Demuxer, NamesWhatIsWrongWithTheInput) {
  const struct {
    const char* name;
    StatusCode code;
    const char* words;
  } cases[] = {
      {"note.txt", StatusCode::not_supported, "no media"},
      {"text.srt", StatusCode::not_supported, "no media"},
      {"empty.mp4", StatusCode::bad_data, "empty"},
      {"headless.mp4", StatusCode::bad_data, "headers"},
  };
  for (const auto& input : cases) {
    for (const bool seekable : {true, false}) {
      MemorySource source(read_bytes(demux_clip(input.name)), seekable);
      const auto demuxer = Demuxer::open(source, kOptions);
      ASSERT_FALSE(demuxer.ok()) << input.name;
      EXPECT_EQ(demuxer.status().code(), input.code) << demuxer.status().dump();
      EXPECT_NE(demuxer.status().message().find(input.words), std::string::npos)
          << demuxer.status().dump();
    }
  }
}

TEST(Demuxer, OpensNoFormatThatIsNotListed) {
  MemorySource source(read_bytes(demux_clip("av.mkv")), true);
  const auto demuxer = Demuxer::open(source, {.formats = "mov,mpegts"});
  ASSERT_FALSE(demuxer.ok());
  EXPECT_EQ(demuxer.status().code(), StatusCode::not_supported);
}

TEST(Demuxer, OpensNoSecondFile) {
  const std::string playlist = demux_clip("list.m3u8");
  std::ofstream(playlist) << "#EXTM3U\n#EXT-X-TARGETDURATION:3\n#EXTINF:2.4,\n"
                          << demux_clip("av.ts") << "\n#EXT-X-ENDLIST\n";
  ASSERT_FALSE(read_reference(playlist).packets.empty()) << "the playlist itself is bad";
  MemorySource source(read_bytes(playlist), true);
  const auto demuxer = Demuxer::open(source, {.formats = "hls"});
  ASSERT_FALSE(demuxer.ok());
}

TEST(Demuxer, EndsCleanlyWhereAFileIsCutOff) {
  const ReferenceFile whole = read_reference(demux_clip("fast.mp4"));
  MemorySource source(read_bytes(demux_clip("cut.mp4")), true);
  const auto demuxer = open(source);
  ASSERT_TRUE(demuxer);
  std::size_t count = 0;
  Result<Packet> packet = demuxer->read_packet();
  for (; packet.ok(); packet = demuxer->read_packet()) {
    ASSERT_LT(count, whole.packets.size());
    if (!packet->is_corrupt) expect_same(*demuxer, whole, *packet, whole.packets[count]);
    ++count;
  }
  EXPECT_EQ(packet.status().code(), StatusCode::end_of_stream) << packet.status().dump();
  EXPECT_TRUE(demuxer->is_truncated());
  EXPECT_GT(count, whole.packets.size() * 4 / 10);
  EXPECT_LT(count, whole.packets.size() * 8 / 10);
}

TEST(Demuxer, PassesTheSourcesFailureOn) {
  const std::vector<std::uint8_t> bytes = read_bytes(demux_clip("large.mp4"));
  MemorySource source(bytes, true);
  source.fail_at = 0;
  const auto at_once = Demuxer::open(source, kOptions);
  ASSERT_FALSE(at_once.ok());
  EXPECT_EQ(at_once.status().message(), "the disk is on fire");

  MemorySource later(bytes, true);
  const auto demuxer = open(later);
  ASSERT_TRUE(demuxer);
  later.fail_at = 0;
  Result<Packet> packet = demuxer->read_packet();
  while (packet.ok()) packet = demuxer->read_packet();
  EXPECT_EQ(packet.status().message(), "the disk is on fire");
}

TEST(Demuxer, GivesUpAtOnceWhenInterrupted) {
  const std::vector<std::uint8_t> bytes = read_bytes(demux_clip("av.ts"));
  MemorySource counted(bytes, true);
  ASSERT_TRUE(open(counted));
  const int reads_to_open = counted.reads;
  for (int at = 1; at <= reads_to_open; ++at) {
    MemorySource source(bytes, true);
    source.before_read = [&] { source.is_interrupted = source.reads >= at; };
    const auto demuxer = Demuxer::open(source, kOptions);
    ASSERT_FALSE(demuxer.ok()) << "interrupted at read " << at;
    EXPECT_EQ(demuxer.status().code(), StatusCode::flushing) << demuxer.status().dump();
    EXPECT_EQ(source.reads, at) << "went on reading";
  }
}

TEST(Demuxer, GoesOnAfterAnInterruptAndASeek) {
  MemorySource source(read_bytes(demux_clip("large.mp4")), true);
  const auto demuxer = open(source);
  ASSERT_TRUE(demuxer);
  source.is_interrupted = true;
  EXPECT_EQ(demuxer->read_packet().status().code(), StatusCode::flushing);
  EXPECT_EQ(demuxer->seek(0).status().code(), StatusCode::flushing);
  source.is_interrupted = false;
  const Result<std::int64_t> key = demuxer->seek(0);
  ASSERT_TRUE(key.ok()) << key.status().dump();
  EXPECT_EQ(key.value(), 0);
  std::size_t count = 0;
  while (demuxer->read_packet().ok()) ++count;
  EXPECT_EQ(count, 50u);
}

class DemuxerSeeks : public testing::TestWithParam<const char*> {};

TEST_P(DemuxerSeeks, ToTheLastKeyFrameShownAtOrBefore) {
  const std::string path = demux_clip(GetParam());
  const ReferenceFile file = read_reference(path);
  const int video = file.video();
  const std::vector<ReferencePacket> packets = file.of_stream(video);
  MemorySource source(read_bytes(path), true);
  const auto demuxer = open(source);
  ASSERT_TRUE(demuxer);
  for (std::int64_t target = 0; target < 3000 * kMs; target += 20 * kMs) {
    std::size_t wanted = 0;
    for (std::size_t i = 0; i < packets.size(); ++i) {
      if (packets[i].is_key && *packets[i].pts_ns - file.start_ns <= target) wanted = i;
    }
    const Result<std::int64_t> key = demuxer->seek(target);
    ASSERT_TRUE(key.ok()) << target / kMs << ": " << key.status().dump();
    ASSERT_EQ(key.value(), *packets[wanted].pts_ns - file.start_ns) << target / kMs;
    for (std::size_t i = wanted; i < packets.size();) {
      const Result<Packet> packet = demuxer->read_packet();
      ASSERT_TRUE(packet.ok()) << packet.status().dump();
      if (packet.value().stream_index != video) continue;
      ASSERT_EQ(packet.value().bytes.size(), packets[i].size) << target / kMs << " packet " << i;
      ASSERT_EQ(container_time(*demuxer, file, packet.value().pts_ns), packets[i].pts_ns);
      ++i;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Containers, DemuxerSeeks,
                         testing::Values("av.mp4", "av.mkv", "av.ts", "offset.ts", "fragments.mp4",
                                         "tracks.mp4", "edit.mp4"),
                         [](const testing::TestParamInfo<const char*>& param) {
                           std::string name = param.param;
                           std::replace(name.begin(), name.end(), '.', '_');
                           return name;
                         });

TEST(Demuxer, RefusesToSeekInWhatIsPushed) {
  MemorySource source(read_bytes(demux_clip("fast.mp4")), false);
  const auto demuxer = open(source);
  ASSERT_TRUE(demuxer);
  EXPECT_EQ(demuxer->seek(0).status().code(), StatusCode::not_supported);
  EXPECT_TRUE(demuxer->read_packet().ok());
}

TEST(Demuxer, PacketsOutliveIt) {
  const ReferenceFile file = read_reference(demux_clip("av.mp4"));
  std::vector<Packet> packets;
  {
    MemorySource source(read_bytes(demux_clip("av.mp4")), true);
    const auto demuxer = open(source);
    ASSERT_TRUE(demuxer);
    while (true) {
      Result<Packet> packet = demuxer->read_packet();
      if (!packet.ok()) break;
      packets.push_back(std::move(*packet));
    }
  }
  ASSERT_EQ(packets.size(), file.packets.size());
  for (std::size_t i = 0; i < packets.size(); ++i) {
    EXPECT_EQ(test::sum_of(packets[i].bytes.data(), packets[i].bytes.size()), file.packets[i].sum);
  }
}

}  // namespace
}  // namespace cudaframe::demux
