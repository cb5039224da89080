// SPDX-License-Identifier: LGPL-2.1-or-later
// The public library, as an application uses it: frames, maps, copies, metas. Driver API calls go
// to the simulated device.

#include <gst/cudaframe/cudaframe.h>
#include <gst/video/video.h>
#include <gtest/gtest.h>

#include <cstring>
#include <thread>
#include <vector>

#include "tests/support/simulator.h"

namespace {

using cudaframe::test::HeldStream;
using cudaframe::test::Simulator;

constexpr int kWidth = 64;
constexpr int kHeight = 32;

class FrameMemoryTest : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_NE(Simulator::get(), nullptr) << "needs the simulated device on LD_LIBRARY_PATH";
    gst_video_info_set_format(&info_, GST_VIDEO_FORMAT_RGB, kWidth, kHeight);
    allocator_ = make(GST_CUDA_FRAME_REUSE_BOUNDED_POOL, 4);
    GstBuffer* probe = gst_cuda_frame_allocator_alloc(allocator_, &info_, nullptr);
    context_ = gst_cuda_frame_memory_get_context(gst_buffer_peek_memory(probe, 0));
    gst_buffer_unref(probe);
    cuCtxPushCurrent(context_);
    cuStreamCreate(&stream_, CU_STREAM_NON_BLOCKING);
    cuStreamCreate(&other_, CU_STREAM_NON_BLOCKING);
  }
  void TearDown() override {
    gst_clear_object(&allocator_);
    cuStreamDestroy(stream_);
    cuStreamDestroy(other_);
    cuCtxPopCurrent(nullptr);
  }

  static GstCudaFrameAllocator* make(GstCudaFrameReusePolicy policy, guint frames) {
    GError* error = nullptr;
    GstCudaFrameAllocator* allocator = gst_cuda_frame_allocator_new(-1, policy, frames, 0, &error);
    EXPECT_EQ(error, nullptr);
    return allocator;
  }
  GstBuffer* alloc() { return gst_cuda_frame_allocator_alloc(allocator_, &info_, stream_); }
  static GstMemory* memory_of(GstBuffer* buffer) { return gst_buffer_peek_memory(buffer, 0); }

  static CUdeviceptr address_of(GstMemory* mem, gsize* pitch = nullptr) {
    CUdeviceptr address = 0;
    EXPECT_TRUE(gst_cuda_frame_memory_get_plane(mem, 0, &address, pitch));
    return address;
  }
  /// Queues a write of the whole picture and records it.
  void fill(GstMemory* mem, int value, CUstream stream) {
    gsize pitch = 0;
    const CUdeviceptr address = address_of(mem, &pitch);
    EXPECT_EQ(cuMemsetD2D8Async(address, pitch, static_cast<unsigned char>(value), 3 * kWidth,
                                kHeight, stream),
              CUDA_SUCCESS);
    EXPECT_TRUE(gst_cuda_frame_memory_record_write(mem, stream));
  }
  static int first_byte_on_device(GstMemory* mem) {
    unsigned char byte = 0;
    EXPECT_EQ(cuMemcpyDtoH(&byte, address_of(mem), 1), CUDA_SUCCESS);
    return byte;
  }
  /// What a CPU map shows; -1 when samples differ from each other.
  int mapped_value(GstBuffer* buffer) {
    GstVideoFrame frame;
    if (!gst_video_frame_map(&frame, &info_, buffer, GST_MAP_READ)) return -2;
    const auto* data = static_cast<const guint8*>(GST_VIDEO_FRAME_PLANE_DATA(&frame, 0));
    int value = data[0];
    for (int y = 0; y < kHeight; ++y) {
      const guint8* row = data + y * GST_VIDEO_FRAME_PLANE_STRIDE(&frame, 0);
      for (int x = 0; x < 3 * kWidth; ++x) value = row[x] == value ? value : -1;
    }
    gst_video_frame_unmap(&frame);
    return value;
  }

  GstVideoInfo info_;
  GstCudaFrameAllocator* allocator_ = nullptr;
  CUcontext context_ = nullptr;
  CUstream stream_ = nullptr;
  CUstream other_ = nullptr;
};

TEST_F(FrameMemoryTest, BufferHasOneMemoryAndBothMetas) {
  GstBuffer* buffer = alloc();
  EXPECT_EQ(gst_buffer_n_memory(buffer), 1u);
  GstMemory* mem = memory_of(buffer);
  EXPECT_TRUE(gst_is_cuda_frame_memory(mem));
  EXPECT_TRUE(gst_memory_is_type(mem, GST_CUDA_FRAME_MEMORY_TYPE_NAME));
  EXPECT_EQ(gst_cuda_frame_memory_get_n_planes(mem), 1u);
  EXPECT_EQ(gst_cuda_frame_memory_get_device_id(mem), 0);
  EXPECT_EQ(gst_cuda_frame_memory_get_context(mem), context_);
  EXPECT_EQ(gst_cuda_frame_memory_get_writer_stream(mem), stream_);
  EXPECT_FALSE(gst_cuda_frame_memory_get_plane(mem, 1, nullptr, nullptr));
  GstVideoMeta* meta = gst_buffer_get_video_meta(buffer);
  ASSERT_NE(meta, nullptr);
  gsize pitch = 0;
  address_of(mem, &pitch);
  EXPECT_EQ(static_cast<gsize>(meta->stride[0]), pitch);
  EXPECT_NE(gst_buffer_get_cuda_event_meta(buffer), nullptr);
  gst_buffer_unref(buffer);
}

TEST_F(FrameMemoryTest, OrdinaryMemoryIsNoFrame) {
  GstMemory* mem = gst_allocator_alloc(nullptr, 16, nullptr);
  EXPECT_FALSE(gst_is_cuda_frame_memory(mem));
  GstBuffer* buffer = gst_buffer_new();
  EXPECT_EQ(gst_buffer_add_cuda_event_meta(buffer, mem), nullptr);
  gst_buffer_unref(buffer);
  gst_memory_unref(mem);
}

TEST_F(FrameMemoryTest, CpuMapWaitsForTheWrite) {
  GstBuffer* buffer = alloc();
  HeldStream held(stream_);
  fill(memory_of(buffer), 7, stream_);
  EXPECT_FALSE(gst_cuda_frame_memory_is_ready(memory_of(buffer)));
  int seen = -3;
  std::thread thread([&] { seen = mapped_value(buffer); });
  Simulator::get()->await_host_waits(1);
  held.let_go();
  thread.join();
  EXPECT_EQ(seen, 7);
  EXPECT_TRUE(gst_cuda_frame_memory_is_ready(memory_of(buffer)));
  gst_buffer_unref(buffer);
}

TEST_F(FrameMemoryTest, DeviceMapGivesTheAddressAndWaitsForNothing) {
  GstBuffer* buffer = alloc();
  HeldStream held(stream_);
  fill(memory_of(buffer), 7, stream_);
  GstMapInfo map;
  const auto flags = static_cast<GstMapFlags>(GST_MAP_READ | GST_MAP_CUDA_FRAME);
  ASSERT_TRUE(gst_memory_map(memory_of(buffer), &map, flags));
  EXPECT_EQ(reinterpret_cast<CUdeviceptr>(map.data), address_of(memory_of(buffer)));
  gst_memory_unmap(memory_of(buffer), &map);
  gst_buffer_unref(buffer);
}

TEST_F(FrameMemoryTest, CpuWriteReachesTheDeviceAfterAllReaders) {
  GstBuffer* buffer = alloc();
  GstMemory* mem = memory_of(buffer);
  fill(mem, 1, stream_);
  EXPECT_EQ(mapped_value(buffer), 1);
  // A read that is queued, and held.
  void* pinned = nullptr;
  ASSERT_EQ(cuMemHostAlloc(&pinned, 1, 0), CUDA_SUCCESS);
  HeldStream held(other_);
  EXPECT_TRUE(gst_cuda_frame_memory_wait(mem, other_));
  EXPECT_TRUE(gst_cuda_frame_memory_record_stream(mem, other_));
  EXPECT_EQ(cuMemcpyDtoHAsync(pinned, address_of(mem), 1, other_), CUDA_SUCCESS);

  GstMapInfo map;
  ASSERT_TRUE(gst_memory_map(mem, &map, GST_MAP_WRITE));
  EXPECT_EQ(map.data[0], 1) << "a write map shows what is there";
  memset(map.data, 9, map.size);
  gst_memory_unmap(mem, &map);
  EXPECT_FALSE(gst_cuda_frame_memory_is_ready(mem)) << "the copy back waits for the reader";
  held.let_go();
  EXPECT_TRUE(gst_cuda_frame_memory_synchronize(mem));
  EXPECT_EQ(cuStreamSynchronize(other_), CUDA_SUCCESS);
  EXPECT_EQ(*static_cast<unsigned char*>(pinned), 1);
  EXPECT_EQ(first_byte_on_device(mem), 9);
  EXPECT_EQ(mapped_value(buffer), 9);
  cuMemFreeHost(pinned);
  gst_buffer_unref(buffer);
}

TEST_F(FrameMemoryTest, DeviceWriteReplacesTheHostCopy) {
  GstBuffer* buffer = alloc();
  fill(memory_of(buffer), 1, stream_);
  EXPECT_EQ(mapped_value(buffer), 1);
  EXPECT_TRUE(gst_cuda_frame_memory_wait_to_write(memory_of(buffer), other_));
  fill(memory_of(buffer), 2, other_);
  EXPECT_EQ(mapped_value(buffer), 2);
  gst_buffer_unref(buffer);
}

TEST_F(FrameMemoryTest, SecondCpuReadCopiesNothing) {
  GstBuffer* buffer = alloc();
  fill(memory_of(buffer), 1, stream_);
  mapped_value(buffer);
  Simulator::get()->reset_counts();
  mapped_value(buffer);
  EXPECT_EQ(Simulator::get()->call_count("cuMemcpy2DAsync"), 0u);
  gst_buffer_unref(buffer);
}

TEST_F(FrameMemoryTest, ShallowCopySharesDeepCopyIsAnotherFrame) {
  GstBuffer* buffer = alloc();
  fill(memory_of(buffer), 5, stream_);
  GstBuffer* shallow = gst_buffer_copy(buffer);
  EXPECT_EQ(memory_of(shallow), memory_of(buffer));
  EXPECT_NE(gst_buffer_get_cuda_event_meta(shallow), nullptr);
  GstBuffer* deep = gst_buffer_copy_deep(buffer);
  ASSERT_NE(deep, nullptr);
  EXPECT_NE(memory_of(deep), memory_of(buffer));
  EXPECT_TRUE(gst_is_cuda_frame_memory(memory_of(deep)));
  EXPECT_EQ(gst_buffer_get_cuda_event_meta(deep), nullptr) << "it speaks of the other memory";
  EXPECT_TRUE(gst_cuda_frame_memory_wait_to_write(memory_of(buffer), stream_));
  fill(memory_of(buffer), 6, stream_);
  EXPECT_EQ(mapped_value(deep), 5);
  gst_buffer_unref(shallow);
  gst_buffer_unref(deep);
  gst_buffer_unref(buffer);
}

TEST_F(FrameMemoryTest, DeepCopyNeverWaitsForThePool) {
  GstCudaFrameAllocator* bounded = make(GST_CUDA_FRAME_REUSE_BOUNDED_POOL, 1);
  GstBuffer* buffer = gst_cuda_frame_allocator_alloc(bounded, &info_, stream_);
  fill(memory_of(buffer), 5, stream_);
  GstBuffer* deep = gst_buffer_copy_deep(buffer);
  ASSERT_NE(deep, nullptr);
  gst_buffer_unref(deep);
  gst_buffer_unref(buffer);
  gst_object_unref(bounded);
}

TEST_F(FrameMemoryTest, PartOfAFrameIsCopiedToTheCpu) {
  GstBuffer* buffer = alloc();
  fill(memory_of(buffer), 5, stream_);
  EXPECT_EQ(gst_memory_share(memory_of(buffer), 0, 16), nullptr);
  GstMemory* part = gst_memory_copy(memory_of(buffer), 16, 32);
  ASSERT_NE(part, nullptr);
  EXPECT_FALSE(gst_is_cuda_frame_memory(part));
  GstMapInfo map;
  ASSERT_TRUE(gst_memory_map(part, &map, GST_MAP_READ));
  EXPECT_EQ(map.size, 32u);
  EXPECT_EQ(map.data[31], 5);
  gst_memory_unmap(part, &map);
  gst_memory_unref(part);
  gst_buffer_unref(buffer);
}

TEST_F(FrameMemoryTest, FrameOutlivesItsAllocator) {
  GstBuffer* buffer = alloc();
  fill(memory_of(buffer), 5, stream_);
  gst_clear_object(&allocator_);
  EXPECT_EQ(mapped_value(buffer), 5);
  gst_buffer_unref(buffer);
}

TEST_F(FrameMemoryTest, AddReaderTakesTheEvent) {
  GstBuffer* buffer = alloc();
  const auto before = Simulator::get()->live();
  CUevent event = nullptr;
  ASSERT_EQ(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING), CUDA_SUCCESS);
  ASSERT_EQ(cuEventRecord(event, other_), CUDA_SUCCESS);
  EXPECT_TRUE(gst_cuda_frame_memory_add_reader(memory_of(buffer), event));
  gst_buffer_unref(buffer);
  gst_clear_object(&allocator_);
  EXPECT_EQ(Simulator::get()->live().events, before.events) << "the library destroys it";
}

TEST_F(FrameMemoryTest, MetaOfAGoneFrameRefuses) {
  GstBuffer* buffer = alloc();
  GstBuffer* holder = gst_buffer_new();
  GstCudaEventMeta* meta = gst_buffer_add_cuda_event_meta(holder, memory_of(buffer));
  EXPECT_TRUE(gst_cuda_event_meta_wait(meta, other_));
  EXPECT_TRUE(gst_cuda_event_meta_is_ready(meta));
  EXPECT_TRUE(gst_cuda_event_meta_synchronize(meta));
  EXPECT_TRUE(gst_cuda_event_meta_record_stream(meta, other_));
  gst_buffer_unref(buffer);
  EXPECT_FALSE(gst_cuda_event_meta_wait(meta, other_));
  EXPECT_FALSE(gst_cuda_event_meta_record_stream(meta, other_));
  gst_buffer_unref(holder);
}

TEST_F(FrameMemoryTest, PerThreadStreamIsRefused) {
  GstBuffer* buffer = alloc();
  EXPECT_FALSE(gst_cuda_frame_memory_record_stream(memory_of(buffer), CU_STREAM_PER_THREAD));
  gst_buffer_unref(buffer);
}

TEST_F(FrameMemoryTest, FlushingWakesAnAllocation) {
  GstCudaFrameAllocator* bounded = make(GST_CUDA_FRAME_REUSE_BOUNDED_POOL, 1);
  GstBuffer* only = gst_cuda_frame_allocator_alloc(bounded, &info_, stream_);
  GstBuffer* second = only;
  std::thread thread([&] { second = gst_cuda_frame_allocator_alloc(bounded, &info_, stream_); });
  gst_cuda_frame_allocator_set_flushing(bounded, TRUE);
  thread.join();
  EXPECT_EQ(second, nullptr);
  gst_buffer_unref(only);
  gst_object_unref(bounded);
}

TEST_F(FrameMemoryTest, FormatsThatAreNotSupportedGiveNothing) {
  GstVideoInfo odd;
  gst_video_info_set_format(&odd, GST_VIDEO_FORMAT_v210, kWidth, kHeight);
  EXPECT_EQ(gst_cuda_frame_allocator_alloc(allocator_, &odd, stream_), nullptr);
}

TEST_F(FrameMemoryTest, BytesWithoutAPictureAreRefused) {
  EXPECT_TRUE(GST_OBJECT_FLAG_IS_SET(allocator_, GST_ALLOCATOR_FLAG_CUSTOM_ALLOC));
}

TEST_F(FrameMemoryTest, StatsHaveAllFields) {
  GstBuffer* buffer = alloc();
  GstStructure* stats = gst_cuda_frame_allocator_get_stats(allocator_);
  guint64 bytes = 0;
  guint in_flight = 0;
  EXPECT_TRUE(gst_structure_get_uint64(stats, "bytes", &bytes));
  EXPECT_GE(bytes, 3u * kWidth * kHeight);
  EXPECT_TRUE(gst_structure_get_uint(stats, "in-flight", &in_flight));
  EXPECT_EQ(in_flight, 1u);
  for (const char* field :
       {"frames", "peak-bytes", "old-layout-bytes", "peak-in-flight", "over-bound",
        "blocks-created", "blocks-reused", "host-waits", "host-wait-time"}) {
    EXPECT_TRUE(gst_structure_has_field(stats, field)) << field;
  }
  gst_structure_free(stats);
  gst_buffer_unref(buffer);
}

}  // namespace
