// SPDX-License-Identifier: LGPL-2.1-or-later
// cudapacketdec: compressed packets to frames in CUDA memory, through NVDEC.

/**
 * SECTION:element-cudapacketdec
 *
 * Decodes H.264 (4:2:0, 8 bits) on an NVIDIA GPU. Takes packets as demuxers and parsers give them
 * (`avc`, `avc3`, `byte-stream`, one access unit a buffer) and gives NV12 frames in display order,
 * each with the timestamp of its packet.
 *
 * Frames come in `memory:CUDAFrame` where downstream asks for it: device memory with an event that
 * is reached when the frame is complete (see #GstCudaEventMeta), so that nobody waits on the host.
 * Else they are in system memory, copied asynchronously; mapping one waits for its copy.
 *
 * Every frame is a copy out of the decoder: applications may keep as many as `max-frames` allows
 * without starving it. With `reuse-policy=bounded-pool` that many frames exist at most, and the
 * element waits for one to come back; set it to one more than what queues, sinks and the
 * application keep.
 *
 * ## Example
 * |[
 * gst-launch-1.0 filesrc location=clip.mp4 ! cudademux ! cudapacketdec ! cudacolorconvert ! \
 *     video/x-raw,format=RGB ! pngenc ! multifilesink location=frame-%04d.png
 * ]|
 *
 * The element has no rank. To let `decodebin` use it: `GST_PLUGIN_FEATURE_RANK=cudapacketdec:MAX`.
 */

#include "elements/gstcudapacketdec.h"

#include <algorithm>
#include <memory>

#include "base/result.h"
#include "cuda/driver.h"
#include "decode/nvdec_session.h"
#include "elements/gstcudacaps.h"
#include "elements/gstcudaerror.h"
#include "elements/gstcudastage.h"
#include "gst/cudaframe/gstcudaframe-private.h"

GST_DEBUG_CATEGORY_STATIC(gst_cuda_packet_dec_debug);
#define GST_CAT_DEFAULT gst_cuda_packet_dec_debug

using cudaframe::Result;
using cudaframe::Status;
using cudaframe::StatusCode;
using cudaframe::decode::NvdecSession;
using cudaframe::decode::PictureFlags;
using cudaframe::decode::SequenceInfo;
using cudaframe::decode::SessionClient;
using cudaframe::decode::SessionConfig;
using cudaframe::decode::StreamFormat;
using cudaframe::memory::FrameLayout;
using cudaframe::memory::FramePtr;

namespace {

enum PropertyId : guint {
  PROP_0,
  PROP_NUM_DECODE_SURFACES,
  PROP_MAX_DISPLAY_DELAY,
  PROP_STAGE,  // and the following
};

constexpr gint kMaxDecodeSurfaces = 32;  // NVDEC's limit
constexpr gint kAutoDisplayDelay = -1;
constexpr gint kMaxDisplayDelay = 16;
constexpr gint kDisplayDelayLive = 0;
// One picture ahead keeps the engine busy: 1 gives the full rate from 320x240 to 1080p, 0 gives 0.6
// to 0.95 of it, and more only costs memory and latency (docs/performance.md).
constexpr gint kDisplayDelayDefault = 1;
constexpr GstClockTime kDefaultFrameDuration = GST_SECOND / 25;
// No picture is shown so many pictures after its turn: 16 in the DPB, 16 of display delay, doubled.
constexpr guint32 kMaxReorder = 64;

GstStaticPadTemplate sink_template = GST_STATIC_PAD_TEMPLATE(
    "sink", GST_PAD_SINK, GST_PAD_ALWAYS,
    GST_STATIC_CAPS("video/x-h264, stream-format=(string){ avc, avc3, byte-stream }, "
                    "alignment=(string)au"));

GstStaticPadTemplate src_template = GST_STATIC_PAD_TEMPLATE(
    "src", GST_PAD_SRC, GST_PAD_ALWAYS,
    GST_STATIC_CAPS(GST_VIDEO_CAPS_MAKE_WITH_FEATURES(GST_CAPS_FEATURE_MEMORY_CUDA_FRAME,
                                                      "NV12") "; " GST_VIDEO_CAPS_MAKE("NV12")));

// What the core tells arrives here, on the streaming thread and under the stream lock.
class DecoderState final : public SessionClient {
 public:
  explicit DecoderState(GstVideoDecoder* owner) : element(owner), stage(GST_ELEMENT(owner)) {}

  Status on_sequence(const SequenceInfo& told) override;
  bool wants_picture(std::int64_t frame_number) override;
  Result<FramePtr> allocate(const FrameLayout& layout) override;
  Status on_picture(FramePtr frame, std::int64_t frame_number, const PictureFlags& flags) override;

  Status negotiate();
  void report_latency();

  GstVideoDecoder* const element;
  GstCudaStage stage;

  // Lock order: stream lock, object lock, policy mutex.
  // Under the object lock:
  gint decode_surfaces = 0;
  gint display_delay = kAutoDisplayDelay;

  // Under the stream lock:
  std::unique_ptr<NvdecSession> session;
  GstVideoCodecState* input_state = nullptr;
  SequenceInfo sequence;
  GstFlowReturn flow = GST_FLOW_OK;  ///< What downstream said during the call that runs.
  bool has_failed = false;           ///< An error has been posted.
  bool must_negotiate = false;       ///< The output state is not that of input_state, sequence.
  bool is_negotiating = false;       ///< negotiate() runs, not the base class by itself.
  bool uses_cuda_memory = false;     ///< What is negotiated.
  GstVideoInfo output_info{};        ///< What is negotiated.
  guint32 last_submitted = 0;        ///< Frame number.
  gint64 latency_frames = 0;         ///< What is reported: as much as has been seen.
};

}  // namespace

struct _GstCudaPacketDec {
  GstVideoDecoder parent;
  DecoderState* state;
};

G_DEFINE_FINAL_TYPE_WITH_CODE(GstCudaPacketDec, gst_cuda_packet_dec, GST_TYPE_VIDEO_DECODER,
                              GST_DEBUG_CATEGORY_INIT(gst_cuda_packet_dec_debug, "cudapacketdec", 0,
                                                      "NVDEC packet decoder"))
GST_ELEMENT_REGISTER_DEFINE(cudapacketdec, "cudapacketdec", GST_RANK_NONE, GST_TYPE_CUDA_PACKET_DEC)

static DecoderState& state_of(gpointer element) {
  return *GST_CUDA_PACKET_DEC(element)->state;
}

// ---- Negotiation

/// Whether frames go out in CUDA memory: only to a peer that names it. ANY is no request.
static bool peer_takes_cuda_memory(GstPad* pad) {
  GstCaps* peer = gst_pad_peer_query_caps(pad, nullptr);
  bool takes = false;
  if (!gst_caps_is_any(peer)) {
    GstCaps* own = gst_pad_get_pad_template_caps(pad);
    GstCaps* common = gst_caps_intersect(peer, own);
    for (guint i = 0; i < gst_caps_get_size(common) && !takes; ++i) {
      takes = gst_caps_features_contains(gst_caps_get_features(common, i),
                                         GST_CAPS_FEATURE_MEMORY_CUDA_FRAME);
    }
    gst_caps_unref(common);
    gst_caps_unref(own);
  }
  gst_caps_unref(peer);
  return takes;
}

/// What upstream's caps leave open comes from the bitstream, and then from GStreamer's defaults for
/// the size. Code 0 of the matrix is RGB, which 4:2:0 can't be.
static void fill_colorimetry(GstVideoInfo* info, const GstVideoColorimetry& upstream,
                             const SequenceInfo& sequence) {
  constexpr int kRgb = 0;
  GstVideoInfo defaults;
  gst_video_info_set_format(&defaults, GST_VIDEO_INFO_FORMAT(info),
                            static_cast<guint>(GST_VIDEO_INFO_WIDTH(info)),
                            static_cast<guint>(GST_VIDEO_INFO_HEIGHT(info)));
  GstVideoColorimetry color = upstream;
  if (color.matrix == GST_VIDEO_COLOR_MATRIX_UNKNOWN && sequence.matrix != kRgb) {
    color.matrix = gst_video_color_matrix_from_iso(static_cast<guint>(sequence.matrix));
  }
  if (color.matrix == GST_VIDEO_COLOR_MATRIX_UNKNOWN) {
    color.matrix = GST_VIDEO_INFO_COLORIMETRY(&defaults).matrix;
  }
  if (color.transfer == GST_VIDEO_TRANSFER_UNKNOWN) {
    color.transfer = gst_video_transfer_function_from_iso(static_cast<guint>(sequence.transfer));
  }
  if (color.transfer == GST_VIDEO_TRANSFER_UNKNOWN) {
    color.transfer = GST_VIDEO_INFO_COLORIMETRY(&defaults).transfer;
  }
  if (color.primaries == GST_VIDEO_COLOR_PRIMARIES_UNKNOWN) {
    color.primaries = gst_video_color_primaries_from_iso(static_cast<guint>(sequence.primaries));
  }
  if (color.primaries == GST_VIDEO_COLOR_PRIMARIES_UNKNOWN) {
    color.primaries = GST_VIDEO_INFO_COLORIMETRY(&defaults).primaries;
  }
  if (color.range == GST_VIDEO_COLOR_RANGE_UNKNOWN) {
    color.range = sequence.full_range ? GST_VIDEO_COLOR_RANGE_0_255 : GST_VIDEO_COLOR_RANGE_16_235;
  }
  GST_VIDEO_INFO_COLORIMETRY(info) = color;
}

/// Left where nothing is said (ITU-T H.264, E.2.1: chroma_sample_loc_type is inferred to be 0).
static GstVideoChromaSite chroma_site_of(const GstStructure* upstream) {
  const char* site = gst_structure_get_string(upstream, "chroma-site");
  return site ? gst_video_chroma_site_from_string(site) : GST_VIDEO_CHROMA_SITE_MPEG2;
}

static void fill_output_info(GstVideoInfo* info, const GstVideoCodecState& input,
                             const SequenceInfo& sequence) {
  const GstStructure* upstream = gst_caps_get_structure(input.caps, 0);
  if (!gst_structure_has_field(upstream, "pixel-aspect-ratio") &&
      sequence.pixel_aspect_ratio.num > 0) {
    GST_VIDEO_INFO_PAR_N(info) = sequence.pixel_aspect_ratio.num;
    GST_VIDEO_INFO_PAR_D(info) = sequence.pixel_aspect_ratio.den;
  }
  if (!gst_structure_has_field(upstream, "framerate") && sequence.frame_rate.num > 0) {
    GST_VIDEO_INFO_FPS_N(info) = sequence.frame_rate.num;
    GST_VIDEO_INFO_FPS_D(info) = sequence.frame_rate.den;
  }
  fill_colorimetry(info, GST_VIDEO_INFO_COLORIMETRY(&input.info), sequence);
  GST_VIDEO_INFO_CHROMA_SITE(info) = chroma_site_of(upstream);
}

Status DecoderState::negotiate() {
  GstPad* pad = GST_VIDEO_DECODER_SRC_PAD(element);
  const bool wants_cuda = peer_takes_cuda_memory(pad);
  GstVideoCodecState* output = gst_video_decoder_set_output_state(
      element, GST_VIDEO_FORMAT_NV12, static_cast<guint>(sequence.display_area.width()),
      static_cast<guint>(sequence.display_area.height()), input_state);
  fill_output_info(&output->info, *input_state, sequence);
  GstCaps* plain = gst_video_info_to_caps(&output->info);
  gst_caps_take(&output->caps, gst_cuda_caps_with_memory(plain, wants_cuda));
  gst_caps_unref(plain);
  output_info = output->info;
  uses_cuda_memory = wants_cuda;
  GST_DEBUG_OBJECT(element, "output %" GST_PTR_FORMAT, output->caps);
  gst_video_codec_state_unref(output);
  report_latency();
  is_negotiating = true;
  const bool accepted = gst_video_decoder_negotiate(element);
  is_negotiating = false;
  if (accepted) {
    must_negotiate = false;
    return {};
  }
  gst_pad_mark_reconfigure(pad);
  flow = GST_PAD_IS_FLUSHING(pad) ? GST_FLOW_FLUSHING : GST_FLOW_NOT_NEGOTIATED;
  return Status(StatusCode::flushing, "downstream did not accept the caps");
}

void DecoderState::report_latency() {
  const gint fps_n = GST_VIDEO_INFO_FPS_N(&output_info);
  const gint fps_d = GST_VIDEO_INFO_FPS_D(&output_info);
  const GstClockTime duration = fps_n > 0 && fps_d > 0
                                    ? gst_util_uint64_scale_int(GST_SECOND, fps_d, fps_n)
                                    : kDefaultFrameDuration;
  const GstClockTime latency = static_cast<GstClockTime>(latency_frames) * duration;
  gst_video_decoder_set_latency(element, latency, latency);
}

// The base class asks by itself when downstream wants something else while a frame is on its way.
// That frame has its memory already; the next one will ask again.
static gboolean packet_dec_negotiate(GstVideoDecoder* decoder) {
  if (!state_of(decoder).is_negotiating) {
    gst_pad_mark_reconfigure(GST_VIDEO_DECODER_SRC_PAD(decoder));
  }
  return GST_VIDEO_DECODER_CLASS(gst_cuda_packet_dec_parent_class)->negotiate(decoder);
}

static gboolean packet_dec_decide_allocation(GstVideoDecoder* decoder, GstQuery* query) {
  state_of(decoder).stage.adopt_allocation(query);
  return GST_VIDEO_DECODER_CLASS(gst_cuda_packet_dec_parent_class)
      ->decide_allocation(decoder, query);
}

// ---- The core's client

Status DecoderState::on_sequence(const SequenceInfo& told) {
  GST_INFO_OBJECT(element, "sequence: %s, coded %dx%d, shown %dx%d",
                  cudaframe::decode::describe(told.kind).c_str(), told.coded_width,
                  told.coded_height, told.display_area.width(), told.display_area.height());
  sequence = told;
  must_negotiate = true;
  return {};
}

/// A frame that lags so far behind was lost in the decoder: a damaged picture, a second field.
static void release_stale_frames(GstVideoDecoder* decoder, guint32 shown) {
  while (true) {
    GstVideoCodecFrame* oldest = gst_video_decoder_get_oldest_frame(decoder);
    if (!oldest) return;
    if (shown - oldest->system_frame_number <= kMaxReorder || shown < oldest->system_frame_number) {
      gst_video_codec_frame_unref(oldest);
      return;
    }
    GST_DEBUG_OBJECT(decoder, "frame %u was never shown", oldest->system_frame_number);
    gst_video_decoder_release_frame(decoder, oldest);
  }
}

bool DecoderState::wants_picture(std::int64_t frame_number) {
  const auto number = static_cast<guint32>(frame_number);
  release_stale_frames(element, number);
  GstVideoCodecFrame* frame =
      frame_number < 0 ? nullptr : gst_video_decoder_get_frame(element, static_cast<int>(number));
  if (!frame) {
    GST_DEBUG_OBJECT(element, "a picture of packet %" G_GINT64_FORMAT " has no frame",
                     frame_number);
    return false;
  }
  if (!GST_VIDEO_CODEC_FRAME_IS_DECODE_ONLY(frame)) {
    gst_video_codec_frame_unref(frame);
    return true;
  }
  gst_video_decoder_finish_frame(element, frame);  // decoded for the sake of others
  return false;
}

Result<FramePtr> DecoderState::allocate(const FrameLayout& layout) {
  if (gst_pad_check_reconfigure(GST_VIDEO_DECODER_SRC_PAD(element)) || must_negotiate) {
    CUDAFRAME_TRY(negotiate());
  }
  // Reverse playback gathers whole groups of pictures before it shows the first.
  const bool bounded = element->input_segment.rate >= 0.0;
  if (uses_cuda_memory) return stage.allocate_device(layout, bounded);
  Result<FrameLayout> host = gst_cuda_host_layout(output_info);
  if (!host) return host.status();
  return stage.allocate_host(*host);
}

Status DecoderState::on_picture(FramePtr picture, std::int64_t frame_number,
                                const PictureFlags& flags) {
  GstVideoCodecFrame* frame = gst_video_decoder_get_frame(element, static_cast<int>(frame_number));
  if (!frame) return {};  // an application has taken it out of the base class's list
  frame->output_buffer = stage.wrap(std::move(picture));
  if (flags.corrupted) GST_BUFFER_FLAG_SET(frame->output_buffer, GST_BUFFER_FLAG_CORRUPTED);
  const gint64 delay = gint64{last_submitted} - frame_number;
  if (delay > latency_frames) {
    latency_frames = delay;
    report_latency();
  }
  flow = gst_video_decoder_finish_frame(element, frame);
  if (flow == GST_FLOW_OK) return {};
  return Status(StatusCode::flushing,
                std::string("downstream returned ") + gst_flow_get_name(flow));
}

// ---- Data

/// Turns a core call's outcome into a flow return; posts what is an error.
static GstFlowReturn conclude(DecoderState& state, const Status& status, const char* doing) {
  if (status.ok()) return GST_FLOW_OK;
  if (state.flow != GST_FLOW_OK) return state.flow;
  if (status.code() == StatusCode::bad_data) {
    GstFlowReturn flow = GST_FLOW_OK;
    GST_VIDEO_DECODER_ERROR(state.element, 1, STREAM, DECODE, ("%s", status.message().c_str()),
                            ("%s: %s", doing, status.dump().c_str()), flow);
    return flow;
  }
  const GstFlowReturn flow = gst_cuda_fail(GST_ELEMENT(state.element), status, doing);
  if (flow == GST_FLOW_ERROR) state.has_failed = true;
  return flow;
}

/// Shows what is pending. Frames that are left over then will never be shown.
static GstFlowReturn drain_session(DecoderState& state) {
  // The base class would complain once more at EOS, that nothing had been decoded.
  if (state.has_failed) return GST_FLOW_ERROR;
  if (!state.session) return GST_FLOW_OK;
  state.flow = GST_FLOW_OK;
  const GstFlowReturn flow = conclude(state, state.session->drain(), "draining");
  GList* frames = gst_video_decoder_get_frames(state.element);
  for (GList* walk = frames; walk; walk = walk->next) {
    auto* frame = static_cast<GstVideoCodecFrame*>(walk->data);
    if (frame->system_frame_number > state.last_submitted) continue;
    GST_DEBUG_OBJECT(state.element, "frame %u was never shown", frame->system_frame_number);
    gst_video_decoder_release_frame(state.element, gst_video_codec_frame_ref(frame));
  }
  g_list_free_full(frames, [](gpointer frame) {
    gst_video_codec_frame_unref(static_cast<GstVideoCodecFrame*>(frame));
  });
  return flow;
}

static bool upstream_is_live(GstVideoDecoder* decoder) {
  GstQuery* query = gst_query_new_latency();
  gboolean live = FALSE;
  if (gst_pad_peer_query(GST_VIDEO_DECODER_SINK_PAD(decoder), query)) {
    gst_query_parse_latency(query, &live, nullptr, nullptr);
  }
  gst_query_unref(query);
  return live;
}

static Status open_session(DecoderState& state, StreamFormat format,
                           std::span<const std::uint8_t> codec_data) {
  if (state.session) return state.session->reconfigure(format, codec_data);
  SessionConfig config{.format = format, .codec_data = codec_data};
  GST_OBJECT_LOCK(state.element);
  config.decode_surfaces = state.decode_surfaces;
  config.max_display_delay = state.display_delay;
  GST_OBJECT_UNLOCK(state.element);
  if (config.max_display_delay == kAutoDisplayDelay) {
    config.max_display_delay =
        upstream_is_live(state.element) ? kDisplayDelayLive : kDisplayDelayDefault;
  }
  Result<std::unique_ptr<NvdecSession>> made =
      NvdecSession::create(state.stage.stream(), config, state);
  if (!made) return made.status();
  state.session = std::move(*made);
  return {};
}

static gboolean packet_dec_set_format(GstVideoDecoder* decoder, GstVideoCodecState* input) {
  DecoderState& state = state_of(decoder);
  const GstStructure* caps = gst_caps_get_structure(input->caps, 0);
  const char* name = gst_structure_get_string(caps, "stream-format");
  const StreamFormat format = g_strcmp0(name, "byte-stream") == 0 ? StreamFormat::byte_stream
                                                                  : StreamFormat::length_prefixed;
  // The base class has drained what came under the old caps.
  GstMapInfo map = GST_MAP_INFO_INIT;
  const bool has_data = input->codec_data && gst_buffer_map(input->codec_data, &map, GST_MAP_READ);
  const std::span<const std::uint8_t> codec_data(map.data, has_data ? map.size : 0);
  const Status opened = open_session(state, format, codec_data);
  if (has_data) gst_buffer_unmap(input->codec_data, &map);
  if (!opened.ok()) {
    // Upstream offers refused caps again with each packet: one error is enough.
    if (!state.has_failed) {
      gst_cuda_post_error(GST_ELEMENT(decoder), opened, "setting up the decoder");
    }
    state.has_failed = true;
    return FALSE;
  }
  state.has_failed = false;
  if (state.input_state) gst_video_codec_state_unref(state.input_state);
  state.input_state = gst_video_codec_state_ref(input);
  // The sequence may stay as it is, and then nobody else would say that the caps have changed.
  state.must_negotiate = true;
  return TRUE;
}

static GstFlowReturn packet_dec_handle_frame(GstVideoDecoder* decoder, GstVideoCodecFrame* frame) {
  DecoderState& state = state_of(decoder);
  // The base class keeps the frame until it is shown; the packet is needed while it is parsed.
  GstBuffer* packet = gst_buffer_ref(frame->input_buffer);
  const guint32 number = frame->system_frame_number;
  if (GST_BUFFER_FLAG_IS_SET(packet, GST_BUFFER_FLAG_DECODE_ONLY)) {
    GST_VIDEO_CODEC_FRAME_SET_DECODE_ONLY(frame);
  }
  gst_video_codec_frame_unref(frame);
  GstMapInfo map;
  if (!gst_buffer_map(packet, &map, GST_MAP_READ)) {
    gst_buffer_unref(packet);
    return conclude(state, Status(StatusCode::bad_data, "a packet can't be read"), "decoding");
  }
  state.flow = GST_FLOW_OK;
  state.last_submitted = number;
  const Status status = state.session->submit(
      {.bytes = {map.data, map.size}, .readable_after = map.maxsize - map.size}, number);
  gst_buffer_unmap(packet, &map);
  gst_buffer_unref(packet);
  return conclude(state, status, "decoding");
}

static GstFlowReturn packet_dec_drain(GstVideoDecoder* decoder) {
  return drain_session(state_of(decoder));
}

static gboolean packet_dec_flush(GstVideoDecoder* decoder) {
  DecoderState& state = state_of(decoder);
  state.flow = GST_FLOW_OK;
  state.has_failed = false;
  if (!state.session) return TRUE;
  const Status status = state.session->flush();
  if (!status.ok()) gst_cuda_post_error(GST_ELEMENT(decoder), status, "flushing");
  return status.ok();
}

// ---- Events, queries, states

static gboolean packet_dec_sink_event(GstVideoDecoder* decoder, GstEvent* event) {
  DecoderState& state = state_of(decoder);
  auto* parent = GST_VIDEO_DECODER_CLASS(gst_cuda_packet_dec_parent_class);
  switch (GST_EVENT_TYPE(event)) {
    case GST_EVENT_FLUSH_START:
      // Before the base class waits for the stream lock, whose holder may be waiting for a frame.
      state.stage.set_flushing(true);
      break;
    case GST_EVENT_FLUSH_STOP:
      state.stage.set_flushing(false);
      break;
    default:
      break;
  }
  return parent->sink_event(decoder, event);
}

static gboolean packet_dec_sink_query(GstVideoDecoder* decoder, GstQuery* query) {
  if (state_of(decoder).stage.handle_context_query(query)) return TRUE;
  return GST_VIDEO_DECODER_CLASS(gst_cuda_packet_dec_parent_class)->sink_query(decoder, query);
}

static gboolean packet_dec_src_query(GstVideoDecoder* decoder, GstQuery* query) {
  if (state_of(decoder).stage.handle_context_query(query)) return TRUE;
  return GST_VIDEO_DECODER_CLASS(gst_cuda_packet_dec_parent_class)->src_query(decoder, query);
}

static void packet_dec_set_context(GstElement* element, GstContext* context) {
  state_of(element).stage.set_context(context);
  GST_ELEMENT_CLASS(gst_cuda_packet_dec_parent_class)->set_context(element, context);
}

static gboolean packet_dec_start(GstVideoDecoder* decoder) {
  DecoderState& state = state_of(decoder);
  state.flow = GST_FLOW_OK;
  state.has_failed = false;
  state.must_negotiate = false;
  state.last_submitted = 0;
  state.latency_frames = 0;
  return TRUE;
}

static gboolean packet_dec_stop(GstVideoDecoder* decoder) {
  DecoderState& state = state_of(decoder);
  state.session.reset();
  if (state.input_state) gst_video_codec_state_unref(state.input_state);
  state.input_state = nullptr;
  return TRUE;
}

/// Both libraries: an autoplugger that gets FAILURE here tries another decoder.
static Status load_drivers() {
  const auto driver = cudaframe::cuda::Driver::load();
  if (!driver) return driver.status();
  const auto cuvid = cudaframe::cuda::CuvidDriver::load();
  return cuvid ? Status() : cuvid.status();
}

static GstStateChangeReturn packet_dec_change_state(GstElement* element,
                                                    GstStateChange transition) {
  return state_of(element).stage.change_state(GST_ELEMENT_CLASS(gst_cuda_packet_dec_parent_class),
                                              transition, load_drivers);
}

// ---- Object

static void packet_dec_set_property(GObject* object, guint id, const GValue* value,
                                    GParamSpec* pspec) {
  DecoderState& state = state_of(object);
  if (id >= PROP_STAGE && id < PROP_STAGE + GstCudaStage::kPropertyCount) {
    state.stage.set_property(id - PROP_STAGE, value);
    return;
  }
  GST_OBJECT_LOCK(object);
  switch (id) {
    case PROP_NUM_DECODE_SURFACES:
      state.decode_surfaces = g_value_get_int(value);
      break;
    case PROP_MAX_DISPLAY_DELAY:
      state.display_delay = g_value_get_int(value);
      break;
    default:
      G_OBJECT_WARN_INVALID_PROPERTY_ID(object, id, pspec);
  }
  GST_OBJECT_UNLOCK(object);
}

static void packet_dec_get_property(GObject* object, guint id, GValue* value, GParamSpec* pspec) {
  DecoderState& state = state_of(object);
  if (id >= PROP_STAGE && id < PROP_STAGE + GstCudaStage::kPropertyCount) {
    state.stage.get_property(id - PROP_STAGE, value);
    return;
  }
  GST_OBJECT_LOCK(object);
  switch (id) {
    case PROP_NUM_DECODE_SURFACES:
      g_value_set_int(value, state.decode_surfaces);
      break;
    case PROP_MAX_DISPLAY_DELAY:
      g_value_set_int(value, state.display_delay);
      break;
    default:
      G_OBJECT_WARN_INVALID_PROPERTY_ID(object, id, pspec);
  }
  GST_OBJECT_UNLOCK(object);
}

static void packet_dec_finalize(GObject* object) {
  delete GST_CUDA_PACKET_DEC(object)->state;
  G_OBJECT_CLASS(gst_cuda_packet_dec_parent_class)->finalize(object);
}

static void gst_cuda_packet_dec_init(GstCudaPacketDec* self) {
  GstVideoDecoder* decoder = GST_VIDEO_DECODER(self);
  self->state = new DecoderState(decoder);
  gst_video_decoder_set_packetized(decoder, TRUE);
  gst_video_decoder_set_needs_format(decoder, TRUE);
}

static void install_properties(GObjectClass* klass) {
  constexpr auto kFlags = static_cast<GParamFlags>(G_PARAM_READWRITE | G_PARAM_STATIC_STRINGS |
                                                   GST_PARAM_MUTABLE_READY);
  g_object_class_install_property(
      klass, PROP_NUM_DECODE_SURFACES,
      g_param_spec_int("num-decode-surfaces", "Decode surfaces",
                       "Surfaces that the decoder works in; 0: the stream's minimum and 4 more. "
                       "Fewer than the stream's minimum are raised to it",
                       0, kMaxDecodeSurfaces, 0, kFlags));
  g_object_class_install_property(
      klass, PROP_MAX_DISPLAY_DELAY,
      g_param_spec_int("max-display-delay", "Most display delay",
                       "Pictures that may wait, ready to be shown, while the decoder works ahead: "
                       "one keeps it busy, more mean memory and latency; -1: none for live "
                       "sources, else 1",
                       kAutoDisplayDelay, kMaxDisplayDelay, kAutoDisplayDelay, kFlags));
  GstCudaStage::install_properties(klass, PROP_STAGE);
}

static void gst_cuda_packet_dec_class_init(GstCudaPacketDecClass* klass) {
  GObjectClass* object_class = G_OBJECT_CLASS(klass);
  object_class->set_property = packet_dec_set_property;
  object_class->get_property = packet_dec_get_property;
  object_class->finalize = packet_dec_finalize;
  install_properties(object_class);

  GstElementClass* element_class = GST_ELEMENT_CLASS(klass);
  element_class->change_state = packet_dec_change_state;
  element_class->set_context = packet_dec_set_context;
  gst_element_class_set_static_metadata(
      element_class, "CUDA packet decoder", "Codec/Decoder/Video/Hardware",
      "Decodes H.264 with NVDEC into CUDA memory, each frame with its completion event",
      "The gst-cudaframe developers");
  gst_element_class_add_static_pad_template(element_class, &sink_template);
  gst_element_class_add_static_pad_template(element_class, &src_template);

  GstVideoDecoderClass* decoder_class = GST_VIDEO_DECODER_CLASS(klass);
  decoder_class->start = packet_dec_start;
  decoder_class->stop = packet_dec_stop;
  decoder_class->set_format = packet_dec_set_format;
  decoder_class->handle_frame = packet_dec_handle_frame;
  decoder_class->drain = packet_dec_drain;
  decoder_class->finish = packet_dec_drain;
  decoder_class->flush = packet_dec_flush;
  decoder_class->negotiate = packet_dec_negotiate;
  decoder_class->decide_allocation = packet_dec_decide_allocation;
  decoder_class->sink_event = packet_dec_sink_event;
  decoder_class->sink_query = packet_dec_sink_query;
  decoder_class->src_query = packet_dec_src_query;
}
