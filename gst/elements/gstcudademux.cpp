// SPDX-License-Identifier: LGPL-2.1-or-later
/**
 * SECTION:element-cudademux
 * @title: cudademux
 * @short_description: Takes containers apart with libavformat
 * @see_also: cudapacketdec, qtdemux, matroskademux, tsdemux
 *
 * Reads MP4/QuickTime, Matroska/WebM, MPEG-TS and other containers, and gives each of their streams
 * a pad of its own: `video_%u`, `audio_%u`, `subtitle_%u`. Buffers hold the container's packets as
 * they are, in memory shared with libavformat (no copy), with presentation and decode times,
 * durations and key-frame flags. Packets that an edit list hides carry
 * #GST_BUFFER_FLAG_DECODE_ONLY. Caps are the container's own (`avc` or `hvc1` with `codec_data`),
 * so that any decoder, parser or muxer can follow. Cover pictures, data and time-code tracks, and
 * codecs that GStreamer has no name for get no pad.
 *
 * Where upstream can be read at any offset (filesrc), the element pulls and can seek: flushing
 * seeks in time, to the key frame at or before the target, forwards. Else (a pipe, appsrc) it takes
 * what is pushed and hands seeks to upstream. An MP4 file with its index at the end can't be read
 * that way, and ends in an error that says so.
 *
 * Running time 0 is where the earliest audio or video stream starts. Buffer times are shifted by
 * one constant so that decode times before that aren't negative; the segment's start undoes it.
 *
 * libavformat's own messages go to wherever the application's av_log callback sends them (standard
 * error, by default): that callback is global to the process, and the element leaves it alone.
 *
 * ## Example launch line
 * |[
 * gst-launch-1.0 filesrc location=clip.mp4 ! cudademux ! h264parse ! fakesink -v
 * ]|
 * Prints the caps and times of the first video stream.
 * |[
 * gst-launch-1.0 filesrc location=clip.mp4 ! cudademux ! cudapacketdec ! fakesink
 * ]|
 * Decodes it on the GPU.
 *
 * Since: 0.1
 */
#include "elements/gstcudademux.h"

#include <memory>
#include <optional>
#include <utility>

#include "demux/demuxer.h"
#include "elements/gstcudademuxcaps.h"
#include "elements/gstcudademuxio.h"
#include "elements/gstcudademuxpads.h"

GST_DEBUG_CATEGORY(gst_cuda_demux_debug);
#define GST_CAT_DEFAULT gst_cuda_demux_debug

using cudaframe::Mutex;
using cudaframe::MutexLock;
using cudaframe::Result;
using cudaframe::Status;
using cudaframe::StatusCode;
using cudaframe::demux::Demuxer;
using cudaframe::demux::MediaType;
using cudaframe::demux::Packet;

namespace {

// So many damaged packets in a row are skipped before the file is given up.
constexpr int kMaxDamage = 32;

// Lock order: seek_lock, streaming lock (the sink pad's stream lock when pulling, task_lock when
// pushing), mutex. No event or buffer is pushed with `mutex` held.
struct State {
  explicit State(GstElement* element, GstCudaDemuxPads::Functions functions)
      : pads(element, functions) {
    g_rec_mutex_init(&task_lock);
    g_rec_mutex_init(&seek_lock);
  }
  ~State() {
    g_rec_mutex_clear(&seek_lock);
    g_rec_mutex_clear(&task_lock);
  }
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  GRecMutex seek_lock;  ///< One seek or flush at a time.
  GRecMutex task_lock;  ///< Held by `task` while it works.

  // Under the streaming lock. `source` lives from activation to deactivation of the sink pad and is
  // replaced only while nothing streams.
  std::unique_ptr<GstCudaDemuxSource> source;
  GstCudaDemuxPushSource* push_source = nullptr;  ///< `source`, when pushing.
  std::unique_ptr<Demuxer> demuxer;               ///< Before `source`: it reads from there.
  GstCudaDemuxPads pads;
  bool need_segment = false;
  guint64 packets = 0;
  int damage = 0;

  Mutex mutex;
  /// When pushing. Taken out before it is stopped: one that pauses itself then would never end.
  GstTask* task GUARDED_BY(mutex) = nullptr;
  bool stopping GUARDED_BY(mutex) = false;
  bool is_open GUARDED_BY(mutex) = false;  ///< The pads are there.
  /// In stream time: segment.start is the same as segment.time. Pads and events add `lead`.
  GstSegment segment GUARDED_BY(mutex);
  guint32 seqnum GUARDED_BY(mutex) = GST_SEQNUM_INVALID;  ///< Of the seek behind the segment.
  std::optional<GstClockTime> duration GUARDED_BY(mutex);
  GstClockTime upstream_time GUARDED_BY(mutex) = GST_CLOCK_TIME_NONE;
};

}  // namespace

struct _GstCudaDemux {
  GstElement parent;
  GstPad* sink_pad;
  State* state;
};

G_DEFINE_FINAL_TYPE_WITH_CODE(GstCudaDemux, gst_cuda_demux, GST_TYPE_ELEMENT,
                              GST_DEBUG_CATEGORY_INIT(gst_cuda_demux_debug, "cudademux", 0,
                                                      "demuxer on libavformat"))
GST_ELEMENT_REGISTER_DEFINE(cudademux, "cudademux", GST_RANK_NONE, GST_TYPE_CUDA_DEMUX)

// ---------------------------------------------------------------- segment and end

/// (transfer full): the segment in buffer time, as pads send it.
static GstEvent* gst_cuda_demux_make_segment(State& state) {
  GstSegment segment;
  guint32 seqnum;
  {
    MutexLock lock(state.mutex);
    segment = state.segment;
    seqnum = state.seqnum;
  }
  const auto lead = static_cast<guint64>(state.demuxer->lead_ns());
  segment.start += lead;
  segment.position += lead;
  if (GST_CLOCK_TIME_IS_VALID(segment.stop)) segment.stop += lead;
  GstEvent* event = gst_event_new_segment(&segment);
  if (seqnum != GST_SEQNUM_INVALID) gst_event_set_seqnum(event, seqnum);
  return event;
}

static void gst_cuda_demux_send_eos(GstCudaDemux* self) {
  State& state = *self->state;
  GstEvent* event = gst_event_new_eos();
  {
    MutexLock lock(state.mutex);
    if (state.seqnum != GST_SEQNUM_INVALID) gst_event_set_seqnum(event, state.seqnum);
  }
  state.pads.send(event);
}

/// Starts or pauses the task, if it isn't being stopped.
static bool gst_cuda_demux_steer_task(State& state, gboolean (*change)(GstTask*)) {
  MutexLock lock(state.mutex);
  return state.task && change(state.task);
}

/// Nobody takes any of the streams: says which there are, which the user may not have expected.
static void gst_cuda_demux_post_not_linked(GstCudaDemux* self) {
  g_autofree gchar* streams = self->state->pads.describe();
  GST_ELEMENT_ERROR_WITH_DETAILS(self, STREAM, FAILED,
                                 ("No element takes any of the file's streams: %s.", streams),
                                 ("streaming stopped, reason not-linked"),
                                 ("flow-return", G_TYPE_INT, GST_FLOW_NOT_LINKED, nullptr));
}

/// Ends the task's turn for good, says why, and tells upstream.
static void gst_cuda_demux_pause(GstCudaDemux* self, GstFlowReturn flow, bool is_reported) {
  State& state = *self->state;
  GST_DEBUG_OBJECT(self, "pausing: %s", gst_flow_get_name(flow));
  if (state.push_source) {
    gst_cuda_demux_steer_task(state, gst_task_pause);
  } else {
    gst_pad_pause_task(self->sink_pad);
  }
  if (flow == GST_FLOW_FLUSHING) return;
  if (state.push_source) state.push_source->finish(flow);
  // GST_FLOW_ERROR means that whoever returned it has posted an error.
  if (flow == GST_FLOW_NOT_LINKED) {
    gst_cuda_demux_post_not_linked(self);
  } else if (flow != GST_FLOW_EOS && flow != GST_FLOW_ERROR && !is_reported) {
    GST_ELEMENT_FLOW_ERROR(self, flow);
  }
  gst_cuda_demux_send_eos(self);
}

// ---------------------------------------------------------------- streaming

/// Posts the message that fits a failure of the core and returns the flow that goes with it.
static GstFlowReturn gst_cuda_demux_fail(GstCudaDemux* self, const Status& status,
                                         bool* is_reported) {
  if (status.code() == StatusCode::flushing) return GST_FLOW_FLUSHING;
  const GstFlowReturn upstream = self->state->source->flow();
  if (status.code() == StatusCode::internal && upstream < GST_FLOW_EOS) return upstream;
  *is_reported = true;
  if (status.code() == StatusCode::not_supported) {
    GST_ELEMENT_ERROR(self, STREAM, WRONG_TYPE, ("%s.", status.message().c_str()),
                      ("%s", status.dump().c_str()));
  } else if (status.code() == StatusCode::out_of_memory) {
    GST_ELEMENT_ERROR(self, RESOURCE, NO_SPACE_LEFT, ("%s.", status.message().c_str()),
                      ("%s", status.dump().c_str()));
  } else {
    GST_ELEMENT_ERROR(self, STREAM, DEMUX, ("%s.", status.message().c_str()),
                      ("%s", status.dump().c_str()));
  }
  return GST_FLOW_ERROR;
}

static GstFlowReturn gst_cuda_demux_open(GstCudaDemux* self, bool* is_reported) {
  State& state = *self->state;
  Result<std::unique_ptr<Demuxer>> opened =
      Demuxer::open(*state.source, {.formats = gst_cuda_demux_container_names()});
  if (!opened.ok()) return gst_cuda_demux_fail(self, opened.status(), is_reported);
  state.demuxer = std::move(*opened);
  state.packets = 0;
  state.damage = 0;
  {
    MutexLock lock(state.mutex);
    gst_segment_init(&state.segment, GST_FORMAT_TIME);
    if (const auto duration = state.demuxer->duration_ns()) {
      state.duration = static_cast<GstClockTime>(*duration);
      state.segment.duration = *state.duration;
    }
  }
  g_autoptr(GstEvent) segment = gst_cuda_demux_make_segment(state);
  state.need_segment = false;
  if (!state.pads.expose(*state.demuxer, self->sink_pad, segment)) {
    return gst_cuda_demux_fail(
        self, Status(StatusCode::bad_data, "The file holds no stream of a known kind"),
        is_reported);
  }
  const auto lead = static_cast<GstClockTime>(state.demuxer->lead_ns());
  state.pads.reset_flow(lead);
  MutexLock lock(state.mutex);
  state.is_open = true;
  return GST_FLOW_OK;
}

static GstFlowReturn gst_cuda_demux_end(GstCudaDemux* self, const Status& status,
                                        bool* is_reported) {
  State& state = *self->state;
  if (status.code() == StatusCode::bad_data && ++state.damage <= kMaxDamage) {
    GST_DEBUG_OBJECT(self, "skipping damage: %s", status.dump().c_str());
    state.pads.set_discont();
    return GST_FLOW_OK;
  }
  const bool is_over = status.code() == StatusCode::end_of_stream;
  if (!is_over && (status.code() != StatusCode::bad_data || state.packets > 0)) {
    return gst_cuda_demux_fail(self, status, is_reported);
  }
  if (state.packets == 0) {
    const char* why = state.source->is_seekable()
                          ? "The file has no packets that can be read"
                          : "The file has no packets that can be read in order; one with its index "
                            "at the end can't be read from a pipe";
    return gst_cuda_demux_fail(self, Status(StatusCode::bad_data, why), is_reported);
  }
  if (state.demuxer->is_truncated()) {
    GST_ELEMENT_WARNING(self, STREAM, DEMUX, ("The file is cut off."),
                        ("%s", status.dump().c_str()));
  }
  return GST_FLOW_EOS;
}

static GstFlowReturn gst_cuda_demux_process(GstCudaDemux* self, bool* is_reported) {
  State& state = *self->state;
  if (std::exchange(state.need_segment, false)) {
    state.pads.send(gst_cuda_demux_make_segment(state));
  }
  Result<Packet> packet = state.demuxer->read_packet();
  if (!packet.ok()) return gst_cuda_demux_end(self, packet.status(), is_reported);
  ++state.packets;
  state.damage = 0;

  const auto lead = static_cast<guint64>(state.demuxer->lead_ns());
  GstSegment segment;
  {
    MutexLock lock(state.mutex);
    segment = state.segment;
  }
  segment.position += lead;
  if (GST_CLOCK_TIME_IS_VALID(segment.stop)) segment.stop += lead;
  const GstFlowReturn flow = state.pads.push(std::move(*packet), &segment);
  MutexLock lock(state.mutex);
  state.segment.position = segment.position > lead ? segment.position - lead : 0;
  return flow;
}

static void gst_cuda_demux_loop(gpointer user_data) {
  auto* self = static_cast<GstCudaDemux*>(user_data);
  bool is_reported = false;
  GstFlowReturn flow = GST_FLOW_OK;
  bool is_open;
  {
    MutexLock lock(self->state->mutex);
    is_open = self->state->is_open;
  }
  if (!is_open) flow = gst_cuda_demux_open(self, &is_reported);
  if (flow == GST_FLOW_OK) flow = gst_cuda_demux_process(self, &is_reported);
  if (flow != GST_FLOW_OK) gst_cuda_demux_pause(self, flow, is_reported);
}

static GstFlowReturn gst_cuda_demux_chain(GstPad*, GstObject* parent, GstBuffer* buffer) {
  auto* self = GST_CUDA_DEMUX(parent);
  return self->state->push_source->push(buffer);
}

/// Lets reading go on after a flush, unless the element is being stopped.
static void gst_cuda_demux_resume_reading(State& state) {
  MutexLock lock(state.mutex);
  if (!state.stopping) state.source->set_interrupted(false);
}

// ---------------------------------------------------------------- seeking

struct SeekRequest {
  gdouble rate;
  GstFormat format;
  GstSeekFlags flags;
  GstSeekType start_type;
  gint64 start;
  GstSeekType stop_type;
  gint64 stop;
  guint32 seqnum;
};

static const char* gst_cuda_demux_why_not(State& state, const SeekRequest& seek) {
  if (seek.format != GST_FORMAT_TIME) return "only seeks in time are done";
  if (seek.rate <= 0) return "reverse playback isn't done";
  if (!(seek.flags & GST_SEEK_FLAG_FLUSH)) return "only flushing seeks are done";
  if (seek.flags & GST_SEEK_FLAG_SEGMENT) return "segment seeks aren't done";
  MutexLock lock(state.mutex);
  if (!state.is_open) return "the file isn't open yet";
  return nullptr;
}

/// With the streaming lock held: moves the demuxer and replaces the segment.
static bool gst_cuda_demux_seek_locked(GstCudaDemux* self, const SeekRequest& seek) {
  State& state = *self->state;
  GstSegment segment;
  {
    MutexLock lock(state.mutex);
    segment = state.segment;
  }
  if (!gst_segment_do_seek(&segment, seek.rate, GST_FORMAT_TIME, seek.flags, seek.start_type,
                           static_cast<guint64>(seek.start), seek.stop_type,
                           static_cast<guint64>(seek.stop), nullptr)) {
    return false;
  }
  const Result<std::int64_t> key = state.demuxer->seek(static_cast<std::int64_t>(segment.position));
  if (!key.ok()) {
    GST_DEBUG_OBJECT(self, "seek failed: %s", key.status().dump().c_str());
    return false;
  }
  GST_DEBUG_OBJECT(self, "wanted %" GST_TIME_FORMAT ", key frame at %" GST_STIME_FORMAT,
                   GST_TIME_ARGS(segment.position), GST_STIME_ARGS(key.value()));
  if (seek.flags & GST_SEEK_FLAG_KEY_UNIT) {
    segment.start = static_cast<guint64>(MAX(key.value(), 0));
    segment.time = segment.start;
    segment.position = segment.start;
  }
  MutexLock lock(state.mutex);
  state.segment = segment;
  state.seqnum = seek.seqnum;
  return true;
}

static bool gst_cuda_demux_seek_pulling(GstCudaDemux* self, const SeekRequest& seek) {
  State& state = *self->state;
  if (const char* why = gst_cuda_demux_why_not(state, seek)) {
    GST_DEBUG_OBJECT(self, "seek refused: %s", why);
    return false;
  }
  GstEvent* flush = gst_event_new_flush_start();
  gst_event_set_seqnum(flush, seek.seqnum);
  state.source->set_interrupted(true);
  gst_pad_push_event(self->sink_pad, gst_event_ref(flush));
  GstCudaDemuxPads::send_to_all(GST_ELEMENT(self), flush);
  gst_pad_pause_task(self->sink_pad);

  GST_PAD_STREAM_LOCK(self->sink_pad);
  flush = gst_event_new_flush_stop(TRUE);
  gst_event_set_seqnum(flush, seek.seqnum);
  gst_pad_push_event(self->sink_pad, gst_event_ref(flush));
  gst_cuda_demux_resume_reading(state);
  const bool done = gst_cuda_demux_seek_locked(self, seek);
  GstCudaDemuxPads::send_to_all(GST_ELEMENT(self), flush);
  GstClockTime position;
  {
    MutexLock lock(state.mutex);
    position = state.segment.position;
  }
  state.pads.reset_flow(position + static_cast<GstClockTime>(state.demuxer->lead_ns()));
  state.pads.set_discont();
  state.need_segment = true;
  gst_pad_start_task(self->sink_pad, gst_cuda_demux_loop, self, nullptr);
  GST_PAD_STREAM_UNLOCK(self->sink_pad);
  return done;
}

static gboolean gst_cuda_demux_seek(GstCudaDemux* self, GstEvent* event) {
  State& state = *self->state;
  SeekRequest seek = {};
  gst_event_parse_seek(event, &seek.rate, &seek.format, &seek.flags, &seek.start_type, &seek.start,
                       &seek.stop_type, &seek.stop);
  seek.seqnum = gst_event_get_seqnum(event);
  if (GST_PAD_MODE(self->sink_pad) != GST_PAD_MODE_PULL) {
    // Only upstream can go elsewhere, and only it knows where a time is.
    return seek.format == GST_FORMAT_TIME &&
           gst_pad_push_event(self->sink_pad, gst_event_ref(event));
  }
  g_rec_mutex_lock(&state.seek_lock);
  bool done;
  {
    MutexLock lock(state.mutex);
    done = state.is_open && state.seqnum == seek.seqnum;  // the same seek through another pad
  }
  if (!done) done = gst_cuda_demux_seek_pulling(self, seek);
  g_rec_mutex_unlock(&state.seek_lock);
  return done;
}

// ---------------------------------------------------------------- events and queries

static gboolean gst_cuda_demux_src_event(GstPad* pad, GstObject* parent, GstEvent* event) {
  if (GST_EVENT_TYPE(event) != GST_EVENT_SEEK) return gst_pad_event_default(pad, parent, event);
  const gboolean done = gst_cuda_demux_seek(GST_CUDA_DEMUX(parent), event);
  gst_event_unref(event);
  return done;
}

static bool gst_cuda_demux_query_seeking(GstCudaDemux* self, GstQuery* query) {
  State& state = *self->state;
  GstFormat format;
  gst_query_parse_seeking(query, &format, nullptr, nullptr, nullptr);
  if (format != GST_FORMAT_TIME) return false;
  if (GST_PAD_MODE(self->sink_pad) != GST_PAD_MODE_PULL) {
    if (gst_pad_peer_query(self->sink_pad, query)) {
      gst_query_parse_seeking(query, &format, nullptr, nullptr, nullptr);
      if (format == GST_FORMAT_TIME) return true;
    }
    gst_query_set_seeking(query, GST_FORMAT_TIME, FALSE, 0, -1);
    return true;
  }
  MutexLock lock(state.mutex);
  gst_query_set_seeking(query, GST_FORMAT_TIME, state.is_open, 0,
                        state.duration ? static_cast<gint64>(*state.duration) : -1);
  return true;
}

static bool gst_cuda_demux_query_duration(State& state, GstQuery* query) {
  GstFormat format;
  gst_query_parse_duration(query, &format, nullptr);
  MutexLock lock(state.mutex);
  if (format != GST_FORMAT_TIME || !state.duration) return false;
  gst_query_set_duration(query, GST_FORMAT_TIME, static_cast<gint64>(*state.duration));
  return true;
}

static bool gst_cuda_demux_query_position(State& state, GstQuery* query) {
  GstFormat format;
  gst_query_parse_position(query, &format, nullptr);
  MutexLock lock(state.mutex);
  if (format != GST_FORMAT_TIME || !state.is_open) return false;
  gst_query_set_position(query, GST_FORMAT_TIME, static_cast<gint64>(state.segment.position));
  return true;
}

static bool gst_cuda_demux_query_segment(State& state, GstQuery* query) {
  MutexLock lock(state.mutex);
  if (!state.is_open) return false;
  const GstSegment segment = state.segment;
  const guint64 stop = GST_CLOCK_TIME_IS_VALID(segment.stop) ? segment.stop : segment.duration;
  gst_query_set_segment(query, segment.rate, GST_FORMAT_TIME, static_cast<gint64>(segment.start),
                        static_cast<gint64>(stop));
  return true;
}

static gboolean gst_cuda_demux_src_query(GstPad* pad, GstObject* parent, GstQuery* query) {
  auto* self = GST_CUDA_DEMUX(parent);
  switch (GST_QUERY_TYPE(query)) {
    case GST_QUERY_SEEKING:
      return gst_cuda_demux_query_seeking(self, query);
    case GST_QUERY_DURATION:
      return gst_cuda_demux_query_duration(*self->state, query);
    case GST_QUERY_POSITION:
      return gst_cuda_demux_query_position(*self->state, query);
    case GST_QUERY_SEGMENT:
      return gst_cuda_demux_query_segment(*self->state, query);
    default:
      return gst_pad_query_default(pad, parent, query);
  }
}

/// What upstream pushes from here on doesn't follow on what it pushed before.
static void gst_cuda_demux_flush_stop(GstCudaDemux* self, GstEvent* event) {
  State& state = *self->state;
  g_rec_mutex_lock(&state.task_lock);
  state.push_source->clear();
  gst_cuda_demux_resume_reading(state);
  if (state.demuxer) {
    state.demuxer->resync();
    state.pads.set_discont();
    MutexLock lock(state.mutex);
    state.seqnum = gst_event_get_seqnum(event);
    state.upstream_time = GST_CLOCK_TIME_NONE;
  }
  GstCudaDemuxPads::send_to_all(GST_ELEMENT(self), event);
  state.need_segment = true;
  g_rec_mutex_unlock(&state.task_lock);
}

static void gst_cuda_demux_take_segment(GstCudaDemux* self, GstEvent* event) {
  State& state = *self->state;
  const GstSegment* segment;
  gst_event_parse_segment(event, &segment);
  MutexLock lock(state.mutex);
  if (!state.is_open || segment->format != GST_FORMAT_TIME) return;
  // An upstream that seeks in time says so where it has gone.
  state.segment.start = state.segment.time = state.segment.position = segment->time;
}

static gboolean gst_cuda_demux_sink_event(GstPad* pad, GstObject* parent, GstEvent* event) {
  auto* self = GST_CUDA_DEMUX(parent);
  State& state = *self->state;
  if (!state.push_source) return gst_pad_event_default(pad, parent, event);
  switch (GST_EVENT_TYPE(event)) {
    case GST_EVENT_EOS:
      state.push_source->set_end();
      break;
    case GST_EVENT_FLUSH_START:
      state.source->set_interrupted(true);
      GstCudaDemuxPads::send_to_all(GST_ELEMENT(self), event);
      gst_cuda_demux_steer_task(state, gst_task_pause);
      return TRUE;
    case GST_EVENT_FLUSH_STOP:
      gst_cuda_demux_flush_stop(self, event);
      gst_cuda_demux_steer_task(state, gst_task_start);
      return TRUE;
    case GST_EVENT_SEGMENT:
      gst_cuda_demux_take_segment(self, event);
      break;
    case GST_EVENT_STREAM_START:
    case GST_EVENT_CAPS:
    case GST_EVENT_TAG:
    case GST_EVENT_STREAM_COLLECTION:
    case GST_EVENT_GAP:
      // Of the container as a byte stream: they mean nothing for the streams inside.
      GST_LOG_OBJECT(self, "not passed on: %" GST_PTR_FORMAT, event);
      break;
    default:
      return gst_pad_event_default(pad, parent, event);
  }
  gst_event_unref(event);
  return TRUE;
}

// ---------------------------------------------------------------- activation and state

static gboolean gst_cuda_demux_sink_activate(GstPad* pad, GstObject*) {
  g_autoptr(GstQuery) query = gst_query_new_scheduling();
  const bool can_pull =
      gst_pad_peer_query(pad, query) && gst_query_has_scheduling_mode_with_flags(
                                            query, GST_PAD_MODE_PULL, GST_SCHEDULING_FLAG_SEEKABLE);
  return gst_pad_activate_mode(pad, can_pull ? GST_PAD_MODE_PULL : GST_PAD_MODE_PUSH, TRUE);
}

static gboolean gst_cuda_demux_stop_reading(GstCudaDemux* self) {
  State& state = *self->state;
  if (state.source) state.source->set_interrupted(true);
  GstTask* task;
  {
    MutexLock lock(state.mutex);
    task = std::exchange(state.task, nullptr);
  }
  if (!task) return gst_pad_stop_task(self->sink_pad);
  gst_task_stop(task);
  gst_task_join(task);
  gst_object_unref(task);
  return TRUE;
}

static gboolean gst_cuda_demux_sink_activate_mode(GstPad* pad, GstObject* parent, GstPadMode mode,
                                                  gboolean active) {
  auto* self = GST_CUDA_DEMUX(parent);
  State& state = *self->state;
  if (mode == GST_PAD_MODE_NONE) return FALSE;
  if (!active) return gst_cuda_demux_stop_reading(self);
  state.demuxer.reset();
  state.push_source = nullptr;
  if (mode == GST_PAD_MODE_PULL) {
    state.source = std::make_unique<GstCudaDemuxPullSource>(pad);
    return gst_pad_start_task(pad, gst_cuda_demux_loop, self, nullptr);
  }
  auto source = std::make_unique<GstCudaDemuxPushSource>();
  state.push_source = source.get();
  state.source = std::move(source);
  GstTask* task = gst_task_new(gst_cuda_demux_loop, self, nullptr);
  gst_task_set_lock(task, &state.task_lock);
  {
    MutexLock lock(state.mutex);
    state.task = task;
  }
  return gst_cuda_demux_steer_task(state, gst_task_start);
}

static void gst_cuda_demux_reset(GstCudaDemux* self) {
  State& state = *self->state;
  state.pads.remove_all();
  state.demuxer.reset();
  MutexLock lock(state.mutex);
  state.is_open = false;
  state.seqnum = GST_SEQNUM_INVALID;
  state.duration.reset();
}

static GstStateChangeReturn gst_cuda_demux_change_state(GstElement* element,
                                                        GstStateChange transition) {
  auto* self = GST_CUDA_DEMUX(element);
  State& state = *self->state;
  if (transition == GST_STATE_CHANGE_READY_TO_PAUSED ||
      transition == GST_STATE_CHANGE_PAUSED_TO_READY) {
    // Before chaining up, which waits for the streaming thread.
    MutexLock lock(state.mutex);
    state.stopping = transition == GST_STATE_CHANGE_PAUSED_TO_READY;
    if (state.stopping && state.source) state.source->set_interrupted(true);
  }
  const GstStateChangeReturn result =
      GST_ELEMENT_CLASS(gst_cuda_demux_parent_class)->change_state(element, transition);
  if (transition == GST_STATE_CHANGE_PAUSED_TO_READY) gst_cuda_demux_reset(self);
  return result;
}

// ---------------------------------------------------------------- object

static void gst_cuda_demux_finalize(GObject* object) {
  auto* self = GST_CUDA_DEMUX(object);
  delete self->state;
  G_OBJECT_CLASS(gst_cuda_demux_parent_class)->finalize(object);
}

static void gst_cuda_demux_init(GstCudaDemux* self) {
  self->state = new State(GST_ELEMENT(self),
                          {.event = gst_cuda_demux_src_event, .query = gst_cuda_demux_src_query});
  GstPadTemplate* pad_template =
      gst_element_class_get_pad_template(GST_ELEMENT_GET_CLASS(self), "sink");
  self->sink_pad = gst_pad_new_from_template(pad_template, "sink");
  gst_pad_set_activate_function(self->sink_pad, gst_cuda_demux_sink_activate);
  gst_pad_set_activatemode_function(self->sink_pad, gst_cuda_demux_sink_activate_mode);
  gst_pad_set_chain_function(self->sink_pad, gst_cuda_demux_chain);
  gst_pad_set_event_function(self->sink_pad, gst_cuda_demux_sink_event);
  gst_element_add_pad(GST_ELEMENT(self), self->sink_pad);
}

static void gst_cuda_demux_add_template(GstElementClass* klass, const char* name,
                                        GstPadDirection direction, GstPadPresence presence,
                                        GstCaps* caps) {
  // The class keeps them for as long as the process lives.
  GST_MINI_OBJECT_FLAG_SET(caps, GST_MINI_OBJECT_FLAG_MAY_BE_LEAKED);
  gst_element_class_add_pad_template(klass, gst_pad_template_new(name, direction, presence, caps));
  gst_caps_unref(caps);
}

static void gst_cuda_demux_class_init(GstCudaDemuxClass* klass) {
  GObjectClass* object_class = G_OBJECT_CLASS(klass);
  GstElementClass* element_class = GST_ELEMENT_CLASS(klass);
  object_class->finalize = gst_cuda_demux_finalize;
  element_class->change_state = gst_cuda_demux_change_state;
  gst_cuda_demux_add_template(element_class, "sink", GST_PAD_SINK, GST_PAD_ALWAYS,
                              gst_cuda_demux_container_caps());
  gst_cuda_demux_add_template(element_class, "video_%u", GST_PAD_SRC, GST_PAD_SOMETIMES,
                              gst_cuda_demux_template_caps(MediaType::video));
  gst_cuda_demux_add_template(element_class, "audio_%u", GST_PAD_SRC, GST_PAD_SOMETIMES,
                              gst_cuda_demux_template_caps(MediaType::audio));
  gst_cuda_demux_add_template(element_class, "subtitle_%u", GST_PAD_SRC, GST_PAD_SOMETIMES,
                              gst_cuda_demux_template_caps(MediaType::subtitle));
  gst_element_class_set_static_metadata(
      element_class, "Demuxer for the CUDA frame elements", "Codec/Demuxer",
      "Takes MP4, Matroska, MPEG-TS and other containers apart with libavformat, without copying "
      "packets; pulls and seeks where upstream can, else takes what is pushed",
      "The gst-cudaframe developers");
}
