// SPDX-License-Identifier: LGPL-2.1-or-later
// Takes NV12 frames in CUDA memory straight from the decoder and reads them on a CUDA stream of its
// own: waits for each frame's event there, queues its reads, says so with record_stream, and drops
// the frame at once, while the reads are still queued.
//
//   own_consumer VIDEO
//
// A second run reads every frame synchronously, through a CPU map; the sums of all planes must be
// the same.

#include <cuda.h>
#include <gst/app/gstappsink.h>
#include <gst/cudaframe/cudaframe.h>
#include <gst/gst.h>
#include <gst/video/video.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

namespace {

constexpr int kPlanes = 2;  // NV12: luma, and chroma with Cb and Cr side by side

struct Sums {
  std::uint64_t plane[kPlanes];
  bool operator==(const Sums&) const = default;
};

void check(CUresult result, const char* call) {
  if (result == CUDA_SUCCESS) return;
  const char* name = nullptr;
  cuGetErrorName(result, &name);
  std::fprintf(stderr, "%s: %s\n", call, name ? name : "unknown error");
  std::exit(1);
}
#define CHECK(call) check(call, #call)

void require(bool condition, const char* what) {
  if (condition) return;
  std::fprintf(stderr, "failed: %s\n", what);
  std::exit(1);
}

std::size_t row_bytes(const GstVideoInfo& info, int plane) {
  // Plane 1 has two bytes for each chroma sample.
  return plane == 0 ? static_cast<std::size_t>(info.width)
                    : 2 * static_cast<std::size_t>((info.width + 1) / 2);
}

std::size_t rows(const GstVideoInfo& info, int plane) {
  return static_cast<std::size_t>(plane == 0 ? info.height : (info.height + 1) / 2);
}

std::uint64_t sum(const std::uint8_t* data, std::size_t pitch, std::size_t width,
                  std::size_t height) {
  std::uint64_t total = 0;
  for (std::size_t y = 0; y < height; ++y) {
    for (std::size_t x = 0; x < width; ++x) total += data[y * pitch + x];
  }
  return total;
}

/// Calls `take` with each sample, which it then owns. False when the pipeline did not end well.
bool for_each_sample(const char* video, const std::string& policy,
                     const std::function<void(GstSample*)>& take) {
  const std::string description =
      "filesrc name=source ! cudademux ! cudapacketdec reuse-policy=" + policy +
      " ! video/x-raw(memory:CUDAFrame),format=NV12"
      " ! appsink name=sink sync=false max-buffers=4";
  GError* error = nullptr;
  GstElement* pipeline = gst_parse_launch(description.c_str(), &error);
  require(pipeline && !error, error ? error->message : "making the pipeline");
  GstElement* source = gst_bin_get_by_name(GST_BIN(pipeline), "source");
  GstElement* sink = gst_bin_get_by_name(GST_BIN(pipeline), "sink");
  g_object_set(source, "location", video, nullptr);
  gst_element_set_state(pipeline, GST_STATE_PLAYING);
  while (GstSample* sample = gst_app_sink_try_pull_sample(GST_APP_SINK(sink), 10 * GST_SECOND)) {
    take(sample);
  }
  const bool ended = gst_app_sink_is_eos(GST_APP_SINK(sink));
  gst_element_set_state(pipeline, GST_STATE_NULL);
  gst_object_unref(source);
  gst_object_unref(sink);
  gst_object_unref(pipeline);
  return ended;
}

/// The stream, and pinned memory that frames are copied to; read once everything is done.
class Consumer {
 public:
  void take(GstSample* sample) {
    GstVideoInfo info;
    require(gst_video_info_from_caps(&info, gst_sample_get_caps(sample)), "reading the caps");
    GstMemory* memory = gst_buffer_peek_memory(gst_sample_get_buffer(sample), 0);
    require(gst_is_cuda_frame_memory(memory), "the frame is in CUDA memory");
    open(memory);
    CHECK(cuCtxPushCurrent(context_));
    // 1. The reads start after the frame's own event, on the device.
    require(gst_cuda_frame_memory_wait(memory, stream_), "waiting for the frame's event");
    // 2. The reads, queued.
    for (int plane = 0; plane < kPlanes; ++plane) copy_plane(memory, info, plane);
    // 3. The memory must not be written again before they are done.
    require(gst_cuda_frame_memory_record_stream(memory, stream_), "recording the stream");
    CHECK(cuCtxPopCurrent(nullptr));
    // 4. The frame can go: its reads are still queued.
    gst_sample_unref(sample);
  }

  std::vector<Sums> finish() {
    std::vector<Sums> sums;
    if (!context_) return sums;
    CHECK(cuCtxPushCurrent(context_));
    CHECK(cuStreamSynchronize(stream_));
    for (std::size_t i = 0; i < copies_.size(); ++i) {
      const Copy& copy = copies_[i];
      if (i % kPlanes == 0) sums.push_back({});
      sums.back().plane[i % kPlanes] = sum(copy.data, copy.width, copy.width, copy.height);
      CHECK(cuMemFreeHost(copy.data));
    }
    // Not before the last frame is gone, wherever it is held: the pipeline is in NULL by now.
    CHECK(cuStreamDestroy(stream_));
    CHECK(cuCtxPopCurrent(nullptr));
    return sums;
  }

 private:
  struct Copy {
    std::uint8_t* data;
    std::size_t width;
    std::size_t height;
  };

  void open(GstMemory* memory) {
    if (context_) return;
    context_ = gst_cuda_frame_memory_get_context(memory);
    CHECK(cuCtxPushCurrent(context_));
    CHECK(cuStreamCreate(&stream_, CU_STREAM_NON_BLOCKING));
    CHECK(cuCtxPopCurrent(nullptr));
  }

  void copy_plane(GstMemory* memory, const GstVideoInfo& info, int plane) {
    CUdeviceptr address = 0;
    gsize pitch = 0;
    require(gst_cuda_frame_memory_get_plane(memory, static_cast<guint>(plane), &address, &pitch),
            "the plane is there");
    Copy copy{nullptr, row_bytes(info, plane), rows(info, plane)};
    void* pinned = nullptr;
    CHECK(cuMemHostAlloc(&pinned, copy.width * copy.height, 0));
    copy.data = static_cast<std::uint8_t*>(pinned);
    CUDA_MEMCPY2D parameters{};
    parameters.srcMemoryType = CU_MEMORYTYPE_DEVICE;
    parameters.srcDevice = address;
    parameters.srcPitch = pitch;
    parameters.dstMemoryType = CU_MEMORYTYPE_HOST;
    parameters.dstHost = copy.data;
    parameters.dstPitch = copy.width;
    parameters.WidthInBytes = copy.width;
    parameters.Height = copy.height;
    CHECK(cuMemcpy2DAsync(&parameters, stream_));
    copies_.push_back(copy);
  }

  CUcontext context_ = nullptr;
  CUstream stream_ = nullptr;
  std::vector<Copy> copies_;
};

Sums sums_on_cpu(GstSample* sample) {
  GstVideoInfo info;
  GstVideoFrame frame;
  require(gst_video_info_from_caps(&info, gst_sample_get_caps(sample)), "reading the caps");
  require(gst_video_frame_map(&frame, &info, gst_sample_get_buffer(sample), GST_MAP_READ),
          "mapping the frame on the CPU");
  Sums sums{};
  for (int plane = 0; plane < kPlanes; ++plane) {
    sums.plane[plane] =
        sum(static_cast<const std::uint8_t*>(GST_VIDEO_FRAME_PLANE_DATA(&frame, plane)),
            static_cast<std::size_t>(GST_VIDEO_FRAME_PLANE_STRIDE(&frame, plane)),
            row_bytes(info, plane), rows(info, plane));
  }
  gst_video_frame_unmap(&frame);
  gst_sample_unref(sample);
  return sums;
}

}  // namespace

int main(int argc, char** argv) {
  gst_init(&argc, &argv);
  if (argc != 2) {
    std::fprintf(stderr, "usage: %s VIDEO\n", argv[0]);
    return 2;
  }
  bool ok = true;
  for (const std::string policy : {"bounded-pool", "record-stream"}) {
    Consumer consumer;
    ok &= for_each_sample(argv[1], policy, [&](GstSample* sample) { consumer.take(sample); });
    const std::vector<Sums> queued = consumer.finish();

    std::vector<Sums> synchronous;
    ok &= for_each_sample(argv[1], policy,
                          [&](GstSample* sample) { synchronous.push_back(sums_on_cpu(sample)); });
    const bool equal = queued == synchronous && !queued.empty();
    std::printf("%s: %zu frames, plane sums %s the synchronous run's\n", policy.c_str(),
                queued.size(), equal ? "equal" : "DIFFER FROM");
    ok = ok && equal;
  }
  return ok ? 0 : 1;
}
