// SPDX-License-Identifier: LGPL-2.1-or-later
// Consumers of frames, right and wrong ones, under schedules of the simulated device.
#pragma once

#include <cuda.h>
#include <gst/cudaframe/cudaframe.h>
#include <gst/gst.h>
#include <gst/video/video.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "tests/support/simulator.h"

namespace cudaframe::test {

/// The primary context, current on the thread that constructs it, and destroyed with it.
class CurrentContext {
 public:
  CurrentContext() {
    cuInit(0);
    CUcontext context = nullptr;
    cuDevicePrimaryCtxRetain(&context, 0);
    cuCtxPushCurrent(context);
  }
  ~CurrentContext() {
    cuCtxPopCurrent(nullptr);
    cuDevicePrimaryCtxRelease(0);
  }
  CurrentContext(const CurrentContext&) = delete;
  CurrentContext& operator=(const CurrentContext&) = delete;
};

/// What a consumer does about the order of its reads.
enum class Care {
  wait_and_record,    ///< waits, reads, record_stream
  record_first,       ///< record_stream, waits, reads
  wait_and_event,     ///< waits, reads, add_reader
  nothing_for_write,  ///< reads without a wait
  nothing_for_reuse,  ///< waits, reads, tells nobody
  nothing,            ///< reads
};

/// Reads frames asynchronously on a stream of its own, into pinned memory of its own.
class Consumer {
 public:
  explicit Consumer(std::size_t bytes) {
    cuStreamCreate(&stream_, CU_STREAM_NON_BLOCKING);
    cuMemHostAlloc(&target_, bytes, 0);
  }
  ~Consumer() {
    cuStreamSynchronize(stream_);
    cuStreamDestroy(stream_);
    cuMemFreeHost(target_);
  }
  Consumer(const Consumer&) = delete;
  Consumer& operator=(const Consumer&) = delete;

  CUstream stream() const { return stream_; }

  /// All planes of a frame. The caller drops the buffer whenever it likes.
  void read(GstBuffer* buffer, Care care = Care::wait_and_record) {
    GstMemory* mem = gst_buffer_peek_memory(buffer, 0);
    if (care == Care::record_first) {
      EXPECT_TRUE(gst_cuda_frame_memory_record_stream(mem, stream_));
    }
    if (care != Care::nothing_for_write && care != Care::nothing) {
      EXPECT_TRUE(gst_cuda_frame_memory_wait(mem, stream_));
    }
    copy_planes(buffer, mem);
    if (care == Care::wait_and_record || care == Care::nothing_for_write) {
      EXPECT_TRUE(gst_cuda_frame_memory_record_stream(mem, stream_));
    } else if (care == Care::wait_and_event) {
      CUevent event = nullptr;
      EXPECT_EQ(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING), CUDA_SUCCESS);
      EXPECT_EQ(cuEventRecord(event, stream_), CUDA_SUCCESS);
      EXPECT_TRUE(gst_cuda_frame_memory_add_reader(mem, event));
    }
  }

 private:
  void copy_planes(GstBuffer* buffer, GstMemory* mem) {
    const GstVideoMeta* meta = gst_buffer_get_video_meta(buffer);
    GstVideoInfo info;
    gst_video_info_set_format(&info, meta->format, meta->width, meta->height);
    auto* to = static_cast<unsigned char*>(target_);
    for (guint plane = 0; plane < gst_cuda_frame_memory_get_n_planes(mem); ++plane) {
      CUDA_MEMCPY2D copy{};
      gsize pitch = 0;
      copy.srcMemoryType = CU_MEMORYTYPE_DEVICE;
      EXPECT_TRUE(gst_cuda_frame_memory_get_plane(mem, plane, &copy.srcDevice, &pitch));
      copy.srcPitch = pitch;
      copy.dstMemoryType = CU_MEMORYTYPE_HOST;
      copy.dstHost = to;
      copy.WidthInBytes = copy.dstPitch = static_cast<std::size_t>(
          GST_VIDEO_INFO_COMP_WIDTH(&info, plane) * GST_VIDEO_INFO_COMP_PSTRIDE(&info, plane));
      copy.Height = static_cast<std::size_t>(GST_VIDEO_INFO_COMP_HEIGHT(&info, plane));
      EXPECT_EQ(cuMemcpy2DAsync(&copy, stream_), CUDA_SUCCESS);
      to += copy.dstPitch * copy.Height;
    }
  }

  CUstream stream_ = nullptr;
  void* target_ = nullptr;
};

}  // namespace cudaframe::test
