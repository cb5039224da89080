// SPDX-License-Identifier: LGPL-2.1-or-later
// Whole clips through the decode session on the simulated device: what comes out, in what order,
// and what happens when something goes wrong in the middle.
#include "decode/nvdec_session.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "cuda/context.h"
#include "decode/decoder_cache.h"
#include "decode_clip.h"
#include "memory/frame_copy.h"
#include "memory/memory_policy.h"
#include "tests/support/simulator.h"

namespace cudaframe::test {
namespace {

using decode::DecoderCache;
using decode::NvdecSession;
using decode::PictureFlags;
using decode::SequenceInfo;
using decode::SessionConfig;
using decode::StreamFormat;
using memory::FrameLayout;
using memory::FramePtr;
using memory::MemoryKind;
using memory::MemoryPolicy;

const Simulator& sim() {
  static const Simulator* const simulator = [] {
    const Simulator* found = Simulator::get();
    if (!found) std::abort();  // these tests look into the driver
    return found;
  }();
  return *simulator;
}

cudaframe_sim_live sim_live() {
  return sim().live();
}

std::uint64_t sim_calls(const char* call) {
  return sim().call_count(call);
}

cuda::Context& context() {
  static cuda::Context* const opened = [] {
    auto made = cuda::Context::for_device(0);
    EXPECT_TRUE(made.ok()) << made.status().dump();
    return *made;
  }();
  return *opened;
}

cuda::StreamPtr make_stream() {
  auto made = cuda::Stream::create(context());
  EXPECT_TRUE(made.ok());
  return *made;
}

FrameLayout tight_layout(int width, int height) {
  const auto w = static_cast<std::size_t>(width);
  const auto h = static_cast<std::size_t>(height);
  const std::size_t offsets[] = {0, w * h};
  const std::size_t pitches[] = {w, (w + 1) / 2 * 2};
  return *memory::make_layout(PixelFormat::nv12, width, height, offsets, pitches,
                              w * h + (w + 1) / 2 * 2 * ((h + 1) / 2));
}

struct Shown {
  std::int64_t number;
  PictureFlags flags;
  ByteVector nv12;
};

// Takes everything, and fails where the test says.
class Recorder : public decode::SessionClient {
 public:
  explicit Recorder(MemoryKind kind = MemoryKind::device)
      : policy(MemoryPolicy::create(memory::ReusePolicy::bounded_pool, context(), kind,
                                    {.max_frames = 2})),
        host(MemoryPolicy::create(memory::ReusePolicy::bounded_pool, context(),
                                  MemoryKind::pinned_host, {.max_frames = 2})) {}

  ~Recorder() override {
    policy->shut_down();
    host->shut_down();
  }

  Status on_sequence(const SequenceInfo& sequence) override {
    check_no_context();
    shown_before_sequence.push_back(shown.size());
    sequences.push_back(sequence);
    return sequence_status;
  }

  bool wants_picture(std::int64_t number) override {
    return std::find(unwanted.begin(), unwanted.end(), number) == unwanted.end();
  }

  Result<FramePtr> allocate(const FrameLayout& layout) override {
    check_no_context();
    if (!allocate_status.ok()) return allocate_status;
    if (policy->kind() == MemoryKind::device) return policy->allocate(layout, stream);
    return policy->allocate(tight_layout(layout.width, layout.height), stream);
  }

  Status on_picture(FramePtr frame, std::int64_t number, const PictureFlags& flags) override {
    check_no_context();
    EXPECT_FALSE(has_ended) << "a picture after the failure";
    shown.push_back({number, flags, read(*frame)});
    if (fail_at == shown.size()) {
      has_ended = true;
      return Status(StatusCode::flushing, "told to stop");
    }
    return {};
  }

  // Reads on another stream than the session's, behind the frame's fence.
  ByteVector read(const memory::Frame& frame) {
    const FrameLayout tight = tight_layout(frame.layout().width, frame.layout().height);
    auto copy = host->allocate(tight, reader);
    EXPECT_TRUE(copy.ok()) << copy.status().dump();
    if (!copy) return {};
    const memory::Frame* source = &frame;
    if (frame.kind() == MemoryKind::device) {
      EXPECT_TRUE(frame.fence().wait(reader).ok());
      EXPECT_TRUE(memory::copy_async(context(), memory::FrameView::of(**copy),
                                     memory::FrameView::of(frame), reader->handle())
                      .ok());
      EXPECT_TRUE((*copy)->fence().record_write(reader).ok());
      EXPECT_TRUE(frame.fence().record_stream(reader).ok());
      source = copy->get();
    }
    EXPECT_TRUE(source->fence().synchronize().ok());
    const auto* bytes = reinterpret_cast<const std::uint8_t*>(source->host_address());
    return ByteVector(bytes, bytes + tight.bytes);
  }

  void check_no_context() {
    EXPECT_EQ(sim_calls("cuCtxPushCurrent"), sim_calls("cuCtxPopCurrent"))
        << "a context is current while the client is called";
  }

  cuda::StreamPtr stream = make_stream();
  cuda::StreamPtr reader = make_stream();
  std::shared_ptr<MemoryPolicy> policy;
  std::shared_ptr<MemoryPolicy> host;
  std::vector<Shown> shown;
  std::vector<SequenceInfo> sequences;
  std::vector<std::size_t> shown_before_sequence;
  std::vector<std::int64_t> unwanted;
  Status sequence_status;
  Status allocate_status;
  std::size_t fail_at = 0;
  bool has_ended = false;
};

class NvdecSessionTest : public testing::Test {
 protected:
  void SetUp() override { before_ = sim_live(); }

  void TearDown() override {
    DecoderCache::instance().clear();
    const cudaframe_sim_live after = sim_live();
    EXPECT_EQ(after.decoders, before_.decoders);
    EXPECT_EQ(after.parsers, before_.parsers);
    EXPECT_EQ(after.mapped_surfaces, 0U);
    EXPECT_EQ(after.allocations, before_.allocations);
    EXPECT_EQ(after.pinned_allocations, before_.pinned_allocations);
    EXPECT_EQ(after.streams, before_.streams);
  }

  static std::unique_ptr<NvdecSession> open(Recorder& client, SessionConfig config) {
    auto made = NvdecSession::create(client.stream, config, client);
    EXPECT_TRUE(made.ok()) << made.status().dump();
    return made ? std::move(*made) : nullptr;
  }

  static Status submit(NvdecSession& session, const Clip& clip, std::size_t i) {
    return session.submit({clip.packets[i], 0}, clip.pts[i]);
  }

  static void submit_all(NvdecSession& session, const Clip& clip) {
    for (std::size_t i = 0; i < clip.packets.size(); ++i) {
      const Status status = submit(session, clip, i);
      ASSERT_TRUE(status.ok()) << "packet " << i << ": " << status.dump();
    }
  }

  static void expect_equal(const std::vector<Shown>& shown,
                           const std::vector<ReferenceFrame>& reference) {
    ASSERT_EQ(shown.size(), reference.size());
    for (std::size_t i = 0; i < shown.size(); ++i) {
      EXPECT_EQ(shown[i].number, reference[i].pts) << "picture " << i;
      EXPECT_TRUE(shown[i].nv12 == reference[i].nv12) << "content of picture " << i;
      EXPECT_FALSE(shown[i].flags.corrupted);
    }
  }

 private:
  cudaframe_sim_live before_{};
};

struct DecodeCase {
  const char* name;
  ClipSpec clip;
  StreamFormat format = StreamFormat::byte_stream;
  MemoryKind kind = MemoryKind::device;
  int surfaces = 0;
  int delay = 4;
};

class NvdecSessionDecodeTest : public NvdecSessionTest,
                               public testing::WithParamInterface<DecodeCase> {};

TEST_P(NvdecSessionDecodeTest, EqualsTheSoftwareDecoderBitForBitInOrder) {
  const DecodeCase& param = GetParam();
  Clip clip = make_clip(param.clip);
  const std::vector<ReferenceFrame> reference = decode_reference(clip);
  ASSERT_EQ(reference.size(), clip.packets.size());
  ByteVector codec_data = clip.headers;
  if (param.format == StreamFormat::length_prefixed) {
    codec_data = make_avcc_record(clip.headers);
    for (ByteVector& packet : clip.packets) packet = to_length_prefixed(packet);
  }
  Recorder client(param.kind);
  auto session = open(client, {.format = param.format,
                               .codec_data = codec_data,
                               .decode_surfaces = param.surfaces,
                               .max_display_delay = param.delay});
  ASSERT_TRUE(session);
  submit_all(*session, clip);
  ASSERT_TRUE(session->drain().ok());
  expect_equal(client.shown, reference);
  ASSERT_EQ(client.sequences.size(), 1U);
  EXPECT_EQ(client.sequences[0].display_area.width(), clip.width);
  EXPECT_EQ(client.sequences[0].display_area.height(), clip.height);
}

INSTANTIATE_TEST_SUITE_P(
    Clips, NvdecSessionDecodeTest,
    testing::Values(
        DecodeCase{"ByteStream", {.b_frames = 2}},
        DecodeCase{"InBandHeaders", {.b_frames = 2, .repeat_headers = true}},
        DecodeCase{"LengthPrefixed", {.b_frames = 2}, StreamFormat::length_prefixed},
        DecodeCase{"Avc3", {.b_frames = 2, .repeat_headers = true}, StreamFormat::length_prefixed},
        DecodeCase{"OpenGop", {.b_frames = 3, .open_gop = true}},
        DecodeCase{"DeepReorder", {.frames = 33, .gop = 60, .b_frames = 8, .refs = 4}},
        DecodeCase{"OneFrame", {.frames = 1}},
        DecodeCase{"NotMultiplesOf16", {.width = 350, .height = 246, .frames = 12}},
        DecodeCase{
            "PinnedHost", {.b_frames = 2}, StreamFormat::byte_stream, MemoryKind::pinned_host},
        DecodeCase{
            "FewestSurfaces", {.b_frames = 3}, StreamFormat::byte_stream, MemoryKind::device, 1, 0},
        DecodeCase{"ManySurfaces",
                   {.b_frames = 3},
                   StreamFormat::byte_stream,
                   MemoryKind::device,
                   24,
                   16}),
    [](const testing::TestParamInfo<DecodeCase>& param) { return std::string(param.param.name); });

TEST_F(NvdecSessionTest, TheComparisonSeesOtherContent) {
  const auto one = decode_reference(make_clip({.frames = 4}));
  const auto other = decode_reference(make_clip({.frames = 4, .seed = 1}));
  for (std::size_t i = 0; i < one.size(); ++i) {
    EXPECT_FALSE(one[i].nv12 == other[i].nv12);
    if (i > 0) {
      EXPECT_FALSE(one[i].nv12 == one[i - 1].nv12);
    }
  }
}

TEST_F(NvdecSessionTest, DrainShowsEverythingAndANewStartFollows) {
  const Clip clip = make_clip({.frames = 20, .gop = 10, .b_frames = 2});
  const auto reference = decode_reference(clip);
  Recorder client;
  auto session = open(client, {.codec_data = clip.headers});
  for (int round = 1; round <= 2; ++round) {
    submit_all(*session, clip);
    ASSERT_TRUE(session->drain().ok());
    EXPECT_EQ(client.shown.size(), 20U * static_cast<unsigned>(round));
    ASSERT_TRUE(session->drain().ok());
    EXPECT_EQ(client.shown.size(), 20U * static_cast<unsigned>(round)) << "shown twice";
  }
  client.shown.erase(client.shown.begin(), client.shown.begin() + 20);
  expect_equal(client.shown, reference);
  EXPECT_EQ(client.sequences.size(), 1U);
}

TEST_F(NvdecSessionTest, FlushDropsWhatIsPendingAndKeepsTheDecoder) {
  const Clip clip = make_clip({.frames = 30, .gop = 10, .b_frames = 2});
  Recorder client;
  auto session = open(client, {.codec_data = clip.headers});
  const std::uint64_t created = sim_calls("cuvidCreateDecoder");
  for (std::size_t i = 0; i < 15; ++i) ASSERT_TRUE(submit(*session, clip, i).ok());
  const std::size_t shown = client.shown.size();
  ASSERT_LT(shown, 15U) << "nothing was pending";
  ASSERT_TRUE(session->flush().ok());
  EXPECT_EQ(client.shown.size(), shown) << "the flush showed pictures";
  client.shown.clear();
  ASSERT_TRUE(clip.is_key[10]);
  for (std::size_t i = 10; i < 30; ++i) ASSERT_TRUE(submit(*session, clip, i).ok());
  ASSERT_TRUE(session->drain().ok());
  expect_equal(client.shown, decode_reference(clip, 10));
  EXPECT_EQ(client.sequences.size(), 1U);
  EXPECT_EQ(sim_calls("cuvidCreateDecoder") - created, 1U);
}

TEST_F(NvdecSessionTest, AChangeOfSizeComesAfterThePicturesOfTheOldOne) {
  const Clip clips[] = {
      make_clip({.frames = 10, .b_frames = 2, .repeat_headers = true}),
      make_clip({.width = 640, .height = 360, .frames = 8, .b_frames = 2, .repeat_headers = true}),
      make_clip({.width = 256, .height = 144, .frames = 6, .b_frames = 2, .repeat_headers = true})};
  Recorder client;
  auto session = open(client, {});
  std::vector<ReferenceFrame> reference;
  for (const Clip& clip : clips) {
    submit_all(*session, clip);
    const auto more = decode_reference(clip);
    reference.insert(reference.end(), more.begin(), more.end());
    EXPECT_LE(sim_live().decoders, 1U + DecoderCache::instance().size());
  }
  ASSERT_TRUE(session->drain().ok());
  expect_equal(client.shown, reference);
  EXPECT_EQ(client.shown_before_sequence, (std::vector<std::size_t>{0, 10, 18}));
}

TEST_F(NvdecSessionTest, NewCodecDataCountsFromTheNextPacket) {
  const Clip small = make_clip({.frames = 5});
  const Clip large = make_clip({.width = 640, .height = 360, .frames = 5});
  Recorder client;
  auto session = open(client, {.codec_data = small.headers});
  submit_all(*session, small);
  ASSERT_TRUE(session->drain().ok());
  ASSERT_TRUE(session->reconfigure(StreamFormat::byte_stream, large.headers).ok());
  submit_all(*session, large);
  ASSERT_TRUE(session->drain().ok());
  auto reference = decode_reference(small);
  const auto more = decode_reference(large);
  reference.insert(reference.end(), more.begin(), more.end());
  expect_equal(client.shown, reference);
}

TEST_F(NvdecSessionTest, AClientThatStopsGetsNothingMoreAndItsStatusComesBack) {
  const Clip clip = make_clip({.frames = 30, .gop = 10, .b_frames = 2});
  Recorder client;
  client.fail_at = 7;
  auto session = open(client, {.codec_data = clip.headers});
  Status status;
  std::size_t i = 0;
  while (i < clip.packets.size() && status.ok()) status = submit(*session, clip, i++);
  EXPECT_EQ(status.code(), StatusCode::flushing);
  EXPECT_EQ(status.message(), "told to stop");
  EXPECT_EQ(client.shown.size(), 7U);
  EXPECT_TRUE(session->drain().ok());
  EXPECT_EQ(client.shown.size(), 7U) << "shown after the failure";
  client.has_ended = false;
  client.shown.clear();
  client.fail_at = 0;
  for (i = 20; i < 30; ++i) ASSERT_TRUE(submit(*session, clip, i).ok());
  ASSERT_TRUE(session->drain().ok());
  expect_equal(client.shown, decode_reference(clip, 20));
}

TEST_F(NvdecSessionTest, AStopDuringTheDrainEndsIt) {
  const Clip clip = make_clip({.frames = 6, .b_frames = 2});
  Recorder client;
  auto session = open(client, {.codec_data = clip.headers, .max_display_delay = 16});
  submit_all(*session, clip);
  client.fail_at = client.shown.size() + 1;
  EXPECT_EQ(session->drain().code(), StatusCode::flushing);
  EXPECT_EQ(client.shown.size(), client.fail_at);
}

TEST_F(NvdecSessionTest, RefusalsOfTheClientComeBack) {
  const Clip clip = make_clip({.frames = 8});
  Recorder client;
  client.sequence_status = Status(StatusCode::invalid_argument, "not these caps");
  {
    auto session = open(client, {.codec_data = clip.headers});
    EXPECT_EQ(submit(*session, clip, 0).message(), "not these caps");
    EXPECT_EQ(submit(*session, clip, 0).message(), "not these caps") << "asked once only";
  }
  client.sequence_status = {};
  client.allocate_status = Status(StatusCode::out_of_memory, "no frame");
  auto session = open(client, {.codec_data = clip.headers, .max_display_delay = 0});
  Status status;
  for (std::size_t i = 0; i < 8 && status.ok(); ++i) status = submit(*session, clip, i);
  if (status.ok()) status = session->drain();
  EXPECT_EQ(status.message(), "no frame");
  EXPECT_EQ(client.shown.size(), 0U);
}

TEST_F(NvdecSessionTest, UnwantedPicturesAreDecodedAndNeverMapped) {
  const Clip clip = make_clip({.frames = 12, .b_frames = 2});
  auto reference = decode_reference(clip);
  Recorder client;
  client.unwanted = {0, 3, 11};
  auto session = open(client, {.codec_data = clip.headers});
  const std::uint64_t mapped = sim_calls("cuvidMapVideoFrame");
  submit_all(*session, clip);
  ASSERT_TRUE(session->drain().ok());
  std::erase_if(reference,
                [&](const ReferenceFrame& f) { return f.pts == 0 || f.pts == 3 || f.pts == 11; });
  expect_equal(client.shown, reference);
  EXPECT_EQ(sim_calls("cuvidMapVideoFrame") - mapped, 9U);
}

struct RefusedCase {
  const char* name;
  ClipSpec clip;
  std::vector<std::string> words;
};

class NvdecSessionRefusalTest : public NvdecSessionTest,
                                public testing::WithParamInterface<RefusedCase> {};

TEST_P(NvdecSessionRefusalTest, NamesWhatTheDeviceCantDoOnTheFirstPacket) {
  const Clip clip = make_clip(GetParam().clip);
  Recorder client;
  auto session = open(client, {.codec_data = clip.headers});
  const Status status = submit(*session, clip, 0);
  ASSERT_EQ(status.code(), StatusCode::not_supported) << status.dump();
  for (const std::string& word : GetParam().words) {
    EXPECT_NE(status.message().find(word), std::string::npos) << word << ": " << status.dump();
  }
  EXPECT_EQ(sim_live().decoders, 0U);
  EXPECT_TRUE(client.sequences.empty());
}

INSTANTIATE_TEST_SUITE_P(
    Streams, NvdecSessionRefusalTest,
    testing::Values(RefusedCase{"TenBits", {.frames = 1, .high10 = true}, {"H.264", "10-bit"}},
                    RefusedCase{"TooWide",
                                {.width = 4112, .height = 64, .frames = 1},
                                {"H.264", "4:2:0", "8-bit", "4112x64", "4096x4096"}},
                    RefusedCase{"TooSmall",
                                {.width = 32, .height = 32, .frames = 1},
                                {"H.264", "32x32", "48x16"}}),
    [](const testing::TestParamInfo<RefusedCase>& param) { return std::string(param.param.name); });

TEST_F(NvdecSessionTest, AFailingDecoderCreationIsReported) {
  const Clip clip = make_clip({.frames = 1});
  Recorder client;
  auto session = open(client, {.codec_data = clip.headers});
  sim().fail_call("cuvidCreateDecoder", 1, CUDA_ERROR_OUT_OF_MEMORY);
  const Status status = submit(*session, clip, 0);
  EXPECT_EQ(status.code(), StatusCode::out_of_memory);
  EXPECT_NE(status.message().find("320x240"), std::string::npos) << status.message();
  EXPECT_TRUE(submit(*session, clip, 0).ok()) << "the next try has a device that works";
}

TEST_F(NvdecSessionTest, AFailureBetweenMapAndUnmapReturnsTheSurface) {
  const Clip clip = make_clip({.frames = 10});
  for (const char* call : {"cuMemcpy2DAsync", "cuEventRecord"}) {
    Recorder client;
    auto session = open(client, {.codec_data = clip.headers, .max_display_delay = 0});
    Status status = submit(*session, clip, 0);
    sim().fail_call(call, 1, CUDA_ERROR_UNKNOWN);
    for (std::size_t i = 1; i < clip.packets.size() && status.ok(); ++i) {
      status = submit(*session, clip, i);
    }
    EXPECT_EQ(status.code(), StatusCode::internal) << call;
    EXPECT_EQ(sim_live().mapped_surfaces, 0U) << call;
    sim().fail_call(call, 0, 0);
  }
}

TEST_F(NvdecSessionTest, ALostDeviceIsCalledSo) {
  const Clip clip = make_clip({.frames = 10});
  Recorder client;
  auto session = open(client, {.codec_data = clip.headers, .max_display_delay = 0});
  ASSERT_TRUE(submit(*session, clip, 0).ok());
  sim().set_device_lost(1);
  Status status;
  for (std::size_t i = 1; i < clip.packets.size() && status.ok(); ++i) {
    status = submit(*session, clip, i);
  }
  EXPECT_EQ(status.code(), StatusCode::device_lost) << status.dump();
  session.reset();
  sim().set_device_lost(0);
}

TEST_F(NvdecSessionTest, DamagedPacketsDontEndTheStream) {
  const Clip clip = make_clip({.frames = 30, .gop = 10});
  Clip damaged = clip;
  for (std::size_t i = 3; i < 6; ++i) {
    ByteVector& packet = damaged.packets[i];
    for (std::size_t k = 8; k < packet.size(); k += 3) packet[k] ^= 0x5a;
  }
  damaged.packets[7] = ByteVector(40, 0xff);
  Recorder client;
  auto session = open(client, {.codec_data = clip.headers});
  for (std::size_t i = 0; i < damaged.packets.size(); ++i) {
    const Status status = submit(*session, damaged, i);
    EXPECT_TRUE(status.ok() || status.code() == StatusCode::bad_data) << status.dump();
  }
  const Status drained = session->drain();
  EXPECT_TRUE(drained.ok() || drained.code() == StatusCode::bad_data) << drained.dump();
  // From the next key frame on everything is as if nothing had happened.
  const auto reference = decode_reference(clip, 10);
  ASSERT_GE(client.shown.size(), reference.size());
  client.shown.erase(client.shown.begin(),
                     client.shown.end() - static_cast<std::ptrdiff_t>(reference.size()));
  expect_equal(client.shown, reference);
}

TEST_F(NvdecSessionTest, GarbageFromTheStartShowsNothing) {
  Recorder client;
  auto session = open(client, {});
  for (int i = 0; i < 20; ++i) {
    ByteVector garbage(static_cast<std::size_t>(50 + i));
    for (std::size_t k = 0; k < garbage.size(); ++k) {
      garbage[k] = static_cast<std::uint8_t>(k * 37 + static_cast<std::size_t>(i));
    }
    const Status status = session->submit({garbage, 0}, i);
    EXPECT_TRUE(status.ok() || status.code() == StatusCode::bad_data) << status.dump();
  }
  EXPECT_TRUE(session->drain().ok());
  EXPECT_TRUE(client.shown.empty());
}

TEST_F(NvdecSessionTest, SteadyStateAllocatesNothingAndWaitsForNothing) {
  const Clip clip = make_clip({.frames = 60, .gop = 60, .b_frames = 2});
  // Keeps nothing and reads nothing: what is counted is the session's doing.
  class Dropper final : public Recorder {
    Status on_picture(FramePtr, std::int64_t, const PictureFlags&) override { return {}; }
  };
  Dropper client;
  auto session = open(client, {.codec_data = clip.headers});
  for (std::size_t i = 0; i < 30; ++i) ASSERT_TRUE(submit(*session, clip, i).ok());
  sim().reset_counts();
  for (std::size_t i = 30; i < 60; ++i) ASSERT_TRUE(submit(*session, clip, i).ok());
  EXPECT_EQ(sim_calls("cuvidMapVideoFrame"), 30U);
  EXPECT_EQ(sim_calls("cuvidUnmapVideoFrame"), 30U);
  EXPECT_EQ(sim_calls("cuMemcpy2DAsync"), 30U) << "one copy a frame";
  for (const char* call :
       {"cuMemAlloc", "cuMemFree", "cuMemHostAlloc", "cuMemFreeHost", "cuStreamSynchronize",
        "cuEventSynchronize", "cuCtxSynchronize", "cuEventCreate", "cuEventDestroy",
        "cuStreamCreate", "cuvidCreateDecoder", "cuvidGetDecoderCaps"}) {
    EXPECT_EQ(sim_calls(call), 0U) << call;
  }
}

// Keeps the frames as they come, without a look inside.
class Keeper final : public Recorder {
 public:
  Keeper() { policy->set_max_frames(6); }
  Status on_picture(FramePtr frame, std::int64_t, const PictureFlags&) override {
    frames.push_back(std::move(frame));
    return {};
  }
  std::vector<FramePtr> frames;
};

TEST_F(NvdecSessionTest, FramesGoOutBeforeTheirCopiesAreDone) {
  const Clip clip = make_clip({.frames = 6, .b_frames = 2});
  const auto reference = decode_reference(clip);
  Keeper client;
  auto session = open(client, {.codec_data = clip.headers});
  {
    // Six copies are queued behind each other, though the decoder has fewer output surfaces.
    const HeldStream held(client.stream->handle());
    submit_all(*session, clip);
    ASSERT_TRUE(session->drain().ok());
    ASSERT_EQ(client.frames.size(), 6U);
    EXPECT_EQ(sim_live().mapped_surfaces, 0U);
    for (const FramePtr& frame : client.frames) {
      const Result<bool> ready = frame->fence().is_ready();
      EXPECT_TRUE(ready.ok() && !*ready) << "ready before its copy";
    }
  }
  for (std::size_t i = 0; i < client.frames.size(); ++i) {
    EXPECT_TRUE(client.read(*client.frames[i]) == reference[i].nv12) << i;
    EXPECT_TRUE(*client.frames[i]->fence().is_ready());
  }
  client.frames.clear();
}

TEST_F(NvdecSessionTest, TheDecoderStaysUntilItsPicturesAreCopied) {
  const Clip clip = make_clip({.frames = 6});
  Keeper client;
  auto session = open(client, {.codec_data = clip.headers});
  HeldStream held(client.stream->handle());
  submit_all(*session, clip);
  ASSERT_TRUE(session->drain().ok());
  session.reset();  // waits for nothing: the decoder is idle, and remembers the last copy
  const std::uint64_t destroyed = sim_calls("cuvidDestroyDecoder");
  std::thread closer([] { DecoderCache::instance().clear(); });
  sim().await_host_waits(1);
  EXPECT_EQ(sim_calls("cuvidDestroyDecoder"), destroyed);
  held.let_go();
  closer.join();
  EXPECT_EQ(sim_calls("cuvidDestroyDecoder"), destroyed + 1);
  client.frames.clear();
}

// Another stream takes over the decoder while copies out of its surfaces are still queued: what it
// decodes must not reach the surfaces before them.
TEST_F(NvdecSessionTest, AnIdleDecoderServesTheNextStreamInOrder) {
  const Clip clip = make_clip({.frames = 6});
  const Clip other = make_clip({.frames = 6, .seed = 1});
  const std::uint64_t created = sim_calls("cuvidCreateDecoder");
  Keeper first;
  auto session = open(first, {.codec_data = clip.headers});
  HeldStream held(first.stream->handle());
  submit_all(*session, clip);
  ASSERT_TRUE(session->drain().ok());
  session.reset();
  Keeper second;
  session = open(second, {.codec_data = other.headers});
  submit_all(*session, other);
  ASSERT_TRUE(session->drain().ok());
  EXPECT_EQ(sim_calls("cuvidCreateDecoder") - created, 1U);
  const Result<bool> ready = second.frames[0]->fence().is_ready();
  EXPECT_TRUE(ready.ok() && !*ready) << "it did not wait for the first stream's copies";
  held.let_go();
  session.reset();
  for (auto [client, source] : {std::pair(&first, &clip), std::pair(&second, &other)}) {
    const auto reference = decode_reference(*source);
    ASSERT_EQ(client->frames.size(), reference.size());
    for (std::size_t i = 0; i < reference.size(); ++i) {
      EXPECT_TRUE(client->read(*client->frames[i]) == reference[i].nv12) << i;
    }
    client->frames.clear();
  }
}

TEST_F(NvdecSessionTest, NoMoreDecodersAreKeptIdleThanTheCacheHolds) {
  for (int i = 0; i < 6; ++i) {
    const Clip clip = make_clip({.width = 320 + 16 * i, .height = 240, .frames = 2});
    Recorder client;
    auto session = open(client, {.codec_data = clip.headers});
    submit_all(*session, clip);
    ASSERT_TRUE(session->drain().ok());
  }
  EXPECT_EQ(DecoderCache::instance().size(), DecoderCache::kCapacity);
  EXPECT_EQ(sim_live().decoders, DecoderCache::kCapacity);
}

TEST_F(NvdecSessionTest, CapsAreAskedOncePerProcess) {
  const Clip clip = make_clip({.frames = 1});
  Recorder client;
  { ASSERT_TRUE(submit(*open(client, {.codec_data = clip.headers}), clip, 0).ok()); }
  const std::uint64_t asked = sim_calls("cuvidGetDecoderCaps");
  { ASSERT_TRUE(submit(*open(client, {.codec_data = clip.headers}), clip, 0).ok()); }
  EXPECT_EQ(sim_calls("cuvidGetDecoderCaps"), asked);
}

}  // namespace
}  // namespace cudaframe::test
