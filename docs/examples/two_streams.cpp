// SPDX-License-Identifier: LGPL-2.1-or-later
// Decodes and converts on two CUDA streams and takes RGB frames in CUDA memory, under both answers
// to "when may a dropped frame's memory be written again".
//
//   two_streams VIDEO
//
// The elements order the two streams: the converter's stream waits, on the device, for each frame's
// own event, and tells the frame when its read will be done. Nothing here waits for the GPU.

#include <gst/app/gstappsink.h>
#include <gst/cudaframe/cudaframe.h>
#include <gst/gst.h>
#include <gst/video/video.h>

#include <cstdio>
#include <string>

namespace {

constexpr guint kMaxFrames = 8;

struct Outcome {
  bool ok = false;
  guint frames = 0;
  gint width = 0;
  gint height = 0;
  guint peak_in_flight = 0;  // decoded frames that were referenced, or whose readers were not done
};

GstElement* make_pipeline(const char* video, const std::string& policy) {
  const std::string description =
      "filesrc name=source ! cudademux ! cudapacketdec name=decode reuse-policy=" + policy +
      " max-frames=" + std::to_string(kMaxFrames) + " ! cudacolorconvert reuse-policy=" + policy +
      " ! video/x-raw(memory:CUDAFrame),format=RGB ! appsink name=sink sync=false";
  GError* error = nullptr;
  GstElement* pipeline = gst_parse_launch(description.c_str(), &error);
  if (error) {
    std::fprintf(stderr, "%s\n", error->message);
    g_clear_error(&error);
    gst_clear_object(&pipeline);
    return nullptr;
  }
  GstElement* source = gst_bin_get_by_name(GST_BIN(pipeline), "source");
  g_object_set(source, "location", video, nullptr);
  gst_object_unref(source);
  return pipeline;
}

/// Looks at one frame as a consumer would: it is in CUDA memory, RGB, later than the one before.
bool look_at(GstSample* sample, GstClockTime* last_pts, Outcome* outcome) {
  GstVideoInfo info;
  GstBuffer* buffer = gst_sample_get_buffer(sample);
  if (!gst_video_info_from_caps(&info, gst_sample_get_caps(sample)) ||
      !gst_is_cuda_frame_memory(gst_buffer_peek_memory(buffer, 0))) {
    std::fprintf(stderr, "not a frame in CUDA memory\n");
    return false;
  }
  const GstClockTime pts = GST_BUFFER_PTS(buffer);
  if (GST_CLOCK_TIME_IS_VALID(*last_pts) && pts <= *last_pts) {
    std::fprintf(stderr, "frame %u is not later than the one before\n", outcome->frames);
    return false;
  }
  *last_pts = pts;
  outcome->width = info.width;
  outcome->height = info.height;
  ++outcome->frames;
  return true;
}

/// Whether the pipeline ended without an error; prints the error.
bool ended_well(GstElement* pipeline) {
  GstBus* bus = gst_element_get_bus(pipeline);
  GstMessage* message = gst_bus_pop_filtered(bus, GST_MESSAGE_ERROR);
  gst_object_unref(bus);
  if (!message) return true;
  GError* error = nullptr;
  gst_message_parse_error(message, &error, nullptr);
  std::fprintf(stderr, "%s\n", error->message);
  g_clear_error(&error);
  gst_message_unref(message);
  return false;
}

guint peak_in_flight(GstElement* pipeline) {
  GstElement* decoder = gst_bin_get_by_name(GST_BIN(pipeline), "decode");
  GstStructure* stats = nullptr;
  guint peak = 0;
  g_object_get(decoder, "stats", &stats, nullptr);
  gst_structure_get_uint(stats, "peak-in-flight", &peak);
  gst_structure_free(stats);
  gst_object_unref(decoder);
  return peak;
}

Outcome run(const char* video, const std::string& policy) {
  Outcome outcome;
  GstElement* pipeline = make_pipeline(video, policy);
  if (!pipeline) return outcome;
  GstElement* sink = gst_bin_get_by_name(GST_BIN(pipeline), "sink");
  gst_element_set_state(pipeline, GST_STATE_PLAYING);
  GstClockTime last_pts = GST_CLOCK_TIME_NONE;
  bool good = true;
  while (good) {
    // Null at the end of the stream; on errors too, because the demuxer then ends the stream.
    GstSample* sample = gst_app_sink_try_pull_sample(GST_APP_SINK(sink), 10 * GST_SECOND);
    if (!sample) break;
    good = look_at(sample, &last_pts, &outcome);
    gst_sample_unref(sample);
  }
  outcome.ok = good && ended_well(pipeline) && gst_app_sink_is_eos(GST_APP_SINK(sink));
  outcome.peak_in_flight = peak_in_flight(pipeline);
  gst_element_set_state(pipeline, GST_STATE_NULL);
  gst_object_unref(sink);
  gst_object_unref(pipeline);
  return outcome;
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
    const Outcome outcome = run(argv[1], policy);
    const bool bounded = policy == "bounded-pool";
    if (bounded && outcome.peak_in_flight > kMaxFrames) {
      std::fprintf(stderr, "%u frames in flight, above the bound\n", outcome.peak_in_flight);
      ok = false;
    }
    ok = ok && outcome.ok && outcome.frames > 0;
    std::printf("%s: %u frames, shape = [3, %d, %d], at most %u frames in flight\n", policy.c_str(),
                outcome.frames, outcome.height, outcome.width,
                bounded ? kMaxFrames : outcome.peak_in_flight);
  }
  return ok ? 0 : 1;
}
