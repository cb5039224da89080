// SPDX-License-Identifier: LGPL-2.1-or-later
// cudacolorconvert: colour conversion with CUDA kernels, on a stream of its own.

/**
 * SECTION:element-cudacolorconvert
 *
 * Converts NV12 and 8-bit RGB forms into RGB, BGR, RGBA, BGRA, RGBx, BGRx, planar RGBP or GBR, on
 * an NVIDIA GPU. Matrix (BT.601, BT.709, BT.2020 non-constant luminance), range and chroma siting
 * come from the caps; chroma is interpolated as sited, and results are rounded to nearest.
 *
 * The element works on a CUDA stream of its own. That stream waits, on the device, for each input
 * frame's completion event; the output carries an event of its own, and the input is told when it
 * has been read. The host waits for nothing but, with `reuse-policy=bounded-pool`, for a frame to
 * come back while all of them are referenced.
 *
 * Both sides may be in CUDA memory (`memory:CUDAFrame`) or in system memory: pictures are uploaded
 * and downloaded through pinned memory, asynchronously. When downstream has no wish the input goes
 * through unchanged.
 *
 * ## Example
 * |[
 * gst-launch-1.0 filesrc location=clip.mp4 ! cudademux ! cudapacketdec ! cudacolorconvert ! \
 *     "video/x-raw(memory:CUDAFrame),format=RGBP" ! fakesink
 * ]|
 */

#include "elements/gstcudacolorconvert.h"

#include <gst/video/video.h>

#include "convert/color_converter.h"
#include "cuda/driver.h"
#include "cuda/event.h"
#include "elements/gstcudacaps.h"
#include "elements/gstcudacolorconvertcaps.h"
#include "elements/gstcudaerror.h"
#include "elements/gstcudastage.h"
#include "elements/gstcudaupload.h"
#include "memory/frame_copy.h"

GST_DEBUG_CATEGORY_STATIC(gst_cuda_color_convert_debug);
#define GST_CAT_DEFAULT gst_cuda_color_convert_debug

using cudaframe::ColorDescription;
using cudaframe::PixelFormat;
using cudaframe::Result;
using cudaframe::Status;
using cudaframe::StatusCode;
using cudaframe::convert::ChromaMode;
using cudaframe::convert::ColorConverter;
using cudaframe::convert::ConvertOptions;
using cudaframe::cuda::EventPtr;
using cudaframe::memory::Frame;
using cudaframe::memory::FrameLayout;
using cudaframe::memory::FramePtr;
using cudaframe::memory::FrameView;
using cudaframe::memory::MemoryKind;
using cudaframe::memory::MemoryPolicy;

namespace {

enum PropertyId : guint {
  PROP_0,
  PROP_CHROMA_MODE,
  PROP_STAGE,  // and the following
};

constexpr ChromaMode kDefaultChromaMode = ChromaMode::linear;

GstStaticPadTemplate sink_template = GST_STATIC_PAD_TEMPLATE(
    "sink", GST_PAD_SINK, GST_PAD_ALWAYS,
    GST_STATIC_CAPS(GST_VIDEO_CAPS_MAKE_WITH_FEATURES(
        GST_CAPS_FEATURE_MEMORY_CUDA_FRAME,
        GST_CUDA_COLOR_CONVERT_FORMATS) "; " GST_VIDEO_CAPS_MAKE(GST_CUDA_COLOR_CONVERT_FORMATS)));

GstStaticPadTemplate src_template = GST_STATIC_PAD_TEMPLATE(
    "src", GST_PAD_SRC, GST_PAD_ALWAYS,
    GST_STATIC_CAPS(GST_VIDEO_CAPS_MAKE_WITH_FEATURES(
        GST_CAPS_FEATURE_MEMORY_CUDA_FRAME,
        GST_CUDA_COLOR_CONVERT_FORMATS) "; " GST_VIDEO_CAPS_MAKE(GST_CUDA_COLOR_CONVERT_FORMATS)));

/// What caps say about one side.
struct Side {
  GstVideoInfo info;
  bool in_cuda = false;
  FrameLayout device_layout;
  FrameLayout host_layout;  ///< Of plain system memory.
};

struct State {
  explicit State(GstElement* element) : stage(element) {}

  GstCudaStage stage;
  ChromaMode chroma_mode = kDefaultChromaMode;  ///< Under the object lock.

  // Set by set_caps, on the streaming thread.
  Side input;
  Side output;
  ConvertOptions options;
  const ColorConverter* converter = nullptr;  ///< Null: the formats are equal.
  GstCaps* refused = nullptr;                 ///< Input caps for which an error was posted last.

  // From start to stop: pictures on their way between system and device memory. One each is enough
  // on the device, where the next one's copy is queued behind the last one's use.
  std::shared_ptr<MemoryPolicy> upload_pinned;
  std::shared_ptr<MemoryPolicy> upload_device;
  std::shared_ptr<MemoryPolicy> download_device;
};

// So many uploads may be queued before the host waits for the first of them.
constexpr std::size_t kUploadsUnderWay = 4;

GType chroma_mode_get_type() {
  static const GEnumValue values[] = {
      {static_cast<gint>(ChromaMode::linear),
       "Interpolated between the samples, as sited by the caps", "linear"},
      {static_cast<gint>(ChromaMode::nearest), "Each sample covers its four pixels", "nearest"},
      {0, nullptr, nullptr}};
  static const GType type = g_enum_register_static("GstCudaChromaMode", values);
  return type;
}

}  // namespace

struct _GstCudaColorConvert {
  GstBaseTransform parent;
  State* state;
};

G_DEFINE_FINAL_TYPE_WITH_CODE(GstCudaColorConvert, gst_cuda_color_convert, GST_TYPE_BASE_TRANSFORM,
                              GST_DEBUG_CATEGORY_INIT(gst_cuda_color_convert_debug,
                                                      "cudacolorconvert", 0,
                                                      "CUDA colour conversion"))
GST_ELEMENT_REGISTER_DEFINE(cudacolorconvert, "cudacolorconvert", GST_RANK_NONE,
                            GST_TYPE_CUDA_COLOR_CONVERT)

static State& state_of(gpointer element) {
  return *GST_CUDA_COLOR_CONVERT(element)->state;
}

static GstBaseTransformClass* parent_of() {
  return GST_BASE_TRANSFORM_CLASS(gst_cuda_color_convert_parent_class);
}

// ---- Negotiation

static GstCaps* color_convert_transform_caps(GstBaseTransform*, GstPadDirection direction,
                                             GstCaps* caps, GstCaps* filter) {
  GstCaps* result = gst_cuda_color_convert_transform_caps(direction, caps);
  if (!filter) return result;
  GstCaps* filtered = gst_caps_intersect_full(filter, result, GST_CAPS_INTERSECT_FIRST);
  gst_caps_unref(result);
  return filtered;
}

/// ANY, any memory, or nobody there, is no wish.
static bool downstream_has_no_wish(GstBaseTransform* transform, const GstCaps* input) {
  GstCaps* peer = gst_pad_peer_query_caps(GST_BASE_TRANSFORM_SRC_PAD(transform), nullptr);
  bool any = gst_caps_is_any(peer);
  for (guint i = 0; !any && i < gst_caps_get_size(peer); ++i) {
    any =
        gst_caps_features_is_any(gst_caps_get_features(peer, i)) &&
        gst_structure_is_subset(gst_caps_get_structure(input, 0), gst_caps_get_structure(peer, i));
  }
  gst_caps_unref(peer);
  return any;
}

static GstCaps* color_convert_fixate_caps(GstBaseTransform* transform, GstPadDirection direction,
                                          GstCaps* caps, GstCaps* othercaps) {
  GstCaps* fixed;
  if (direction == GST_PAD_SRC) {
    fixed = gst_caps_fixate(gst_caps_copy(othercaps));
  } else if (downstream_has_no_wish(transform, caps)) {
    fixed = gst_caps_ref(caps);
  } else {
    fixed = gst_cuda_color_convert_fixate_output(caps, othercaps);
  }
  gst_caps_unref(othercaps);
  GST_DEBUG_OBJECT(transform, "fixed to %" GST_PTR_FORMAT, fixed);
  return fixed;
}

static Status set_side(const GstCaps* caps, Side* side) {
  if (!gst_cuda_video_info_from_caps(&side->info, caps)) {
    return Status(StatusCode::not_supported, "these caps describe no raw video");
  }
  side->in_cuda = gst_cuda_caps_has_frame_feature(caps);
  Result<FrameLayout> device = gst_cuda_device_layout(side->info);
  if (!device) return device.status();
  side->device_layout = *device;
  Result<FrameLayout> host = gst_cuda_host_layout(side->info);
  if (!host) return host.status();
  side->host_layout = *host;
  return {};
}

/// RGB made from YCbCr has the full range; RGB made from RGB has the same as before.
static Status check_output_range(const GstVideoInfo& input, const GstVideoInfo& output) {
  const auto is_limited = [](const GstVideoInfo& info) {
    return GST_VIDEO_INFO_COLORIMETRY(&info).range == GST_VIDEO_COLOR_RANGE_16_235;
  };
  const bool made_limited = !GST_VIDEO_INFO_IS_YUV(&input) && is_limited(input);
  if (made_limited == is_limited(output)) return {};
  return Status(StatusCode::not_supported,
                std::string("RGB of ") + (made_limited ? "full" : "limited") +
                    " range is asked for, which is not made of this input");
}

static Status configure(GstBaseTransform* transform, const GstCaps* in_caps,
                        const GstCaps* out_caps) {
  State& state = state_of(transform);
  state.converter = nullptr;
  CUDAFRAME_TRY(set_side(in_caps, &state.input));
  CUDAFRAME_TRY(set_side(out_caps, &state.output));
  if (state.input.device_layout.format == state.output.device_layout.format) return {};
  CUDAFRAME_TRY(check_output_range(state.input.info, state.output.info));
  if (GST_VIDEO_INFO_IS_YUV(&state.input.info)) {
    Result<ColorDescription> color = gst_cuda_color_of(state.input.info);
    if (!color) return color.status();
    state.options.color = *color;
  }
  GST_OBJECT_LOCK(transform);
  state.options.chroma = state.chroma_mode;
  GST_OBJECT_UNLOCK(transform);
  Result<const ColorConverter*> converter = ColorConverter::for_context(state.stage.context());
  if (!converter) return converter.status();
  state.converter = *converter;
  return {};
}

static gboolean color_convert_set_caps(GstBaseTransform* transform, GstCaps* in_caps,
                                       GstCaps* out_caps) {
  State& state = state_of(transform);
  const Status status = configure(transform, in_caps, out_caps);
  // The base class tries again at the next event and at the next buffer; one error is enough.
  const bool is_known = state.refused && gst_caps_is_equal(state.refused, in_caps);
  gst_caps_replace(&state.refused, status.ok() ? nullptr : in_caps);
  if (status.ok()) return TRUE;
  if (!is_known) {
    gst_cuda_post_error(GST_ELEMENT(transform), status, "setting up the conversion");
  }
  return FALSE;
}

static gboolean color_convert_get_unit_size(GstBaseTransform*, GstCaps* caps, gsize* size) {
  GstVideoInfo info;
  if (!gst_video_info_from_caps(&info, caps)) return FALSE;
  *size = GST_VIDEO_INFO_SIZE(&info);
  return TRUE;
}

// ---- Allocation

static gboolean color_convert_decide_allocation(GstBaseTransform* transform, GstQuery* query) {
  state_of(transform).stage.adopt_allocation(query);
  return parent_of()->decide_allocation(transform, query);
}

static gboolean color_convert_propose_allocation(GstBaseTransform* transform,
                                                 GstQuery* decide_query, GstQuery* query) {
  if (!parent_of()->propose_allocation(transform, decide_query, query)) return FALSE;
  if (!decide_query) return TRUE;  // passthrough: downstream has answered
  gst_query_add_allocation_meta(query, GST_VIDEO_META_API_TYPE, nullptr);
  gst_query_add_allocation_meta(query, GST_CUDA_EVENT_META_API_TYPE, nullptr);
  return TRUE;
}

static GstFlowReturn color_convert_prepare_output_buffer(GstBaseTransform* transform,
                                                         GstBuffer* input, GstBuffer** output) {
  if (gst_base_transform_is_passthrough(transform)) {
    *output = input;
    return GST_FLOW_OK;
  }
  State& state = state_of(transform);
  Result<FramePtr> frame = state.output.in_cuda
                               ? state.stage.allocate_device(state.output.device_layout)
                               : state.stage.allocate_host(state.output.host_layout);
  if (!frame) {
    return gst_cuda_fail(GST_ELEMENT(transform), frame.status(), "allocating a frame");
  }
  *output = state.stage.wrap(std::move(*frame));
  if (!parent_of()->copy_metadata(transform, input, *output)) {
    GST_DEBUG_OBJECT(transform, "metadata was not copied");
  }
  return GST_FLOW_OK;
}

/// What describes the picture's shape stays true; what speaks of colours or memory does not.
static gboolean color_convert_transform_meta(GstBaseTransform* transform, GstBuffer* output,
                                             GstMeta* meta, GstBuffer* input) {
  static const gchar* kept[] = {GST_META_TAG_VIDEO_STR, GST_META_TAG_VIDEO_SIZE_STR,
                                GST_META_TAG_VIDEO_ORIENTATION_STR, nullptr};
  const gchar* const* tags = gst_meta_api_type_get_tags(meta->info->api);
  if (tags && tags[0]) {
    for (const gchar* const* tag = tags; *tag; ++tag) {
      if (!g_strv_contains(kept, *tag)) return FALSE;
    }
    return TRUE;
  }
  return parent_of()->transform_meta(transform, output, meta, input);
}

// ---- Data

/// Tells `frame` that what has been queued so far reads it.
static Status mark_read(State& state, const Frame& frame) {
  const cudaframe::cuda::StreamPtr& stream = state.stage.stream();
  Result<EventPtr> done = state.stage.context().events().record(stream->handle());
  if (!done) return done.status();
  return frame.fence().add_reader({std::move(*done), stream});
}

/// Stream: queues a copy of `from` into `to`, in order after from's write; records both.
static Status copy_frame(State& state, const Frame& to, const Frame& from) {
  const cudaframe::cuda::StreamPtr& stream = state.stage.stream();
  CUDAFRAME_TRY(from.fence().wait(stream));
  CUDAFRAME_TRY(cudaframe::memory::copy_async(state.stage.context(), FrameView::of(to),
                                              FrameView::of(from), stream->handle()));
  CUDAFRAME_TRY(to.fence().record_write(stream));
  return mark_read(state, from);
}

/// Stream: queues the kernel.
static Status convert_frame(State& state, const Frame& to, const Frame& from) {
  const cudaframe::cuda::StreamPtr& stream = state.stage.stream();
  CUDAFRAME_TRY(from.fence().wait(stream));
  CUDAFRAME_TRY(state.converter->convert(FrameView::of(to), FrameView::of(from), state.options,
                                         stream->handle()));
  CUDAFRAME_TRY(to.fence().record_write(stream));
  return mark_read(state, from);
}

static Status check_input(State& state, const Frame& frame) {
  if (&frame.context() != &state.stage.context()) {
    return Status(StatusCode::invalid_argument,
                  "the frame is on device " + std::to_string(frame.context().ordinal()) +
                      ", this element on device " +
                      std::to_string(state.stage.context().ordinal()) + ": set cuda-device-id");
  }
  const FrameLayout& expected = state.input.device_layout;
  if (frame.layout().format != expected.format || frame.layout().width != expected.width ||
      frame.layout().height != expected.height) {
    return Status(StatusCode::invalid_argument, "the frame is not what the caps say");
  }
  return {};
}

/// The input in device memory: itself, or, put into `uploaded`, a copy of what is in system memory.
static Result<const Frame*> input_on_device(State& state, GstBuffer* buffer, FramePtr* uploaded) {
  const Frame* frame = gst_buffer_n_memory(buffer) == 1
                           ? gst_cuda_frame_memory_get_frame(gst_buffer_peek_memory(buffer, 0))
                           : nullptr;
  if (frame && frame->kind() == MemoryKind::device) {
    CUDAFRAME_TRY(check_input(state, *frame));
    return frame;
  }
  if (state.input.in_cuda) {
    return Status(StatusCode::invalid_argument,
                  "the caps say memory:CUDAFrame, but the buffer's memory is of another kind");
  }
  FramePtr pinned;
  if (!frame || !check_input(state, *frame).ok()) {
    Result<FramePtr> copied =
        gst_cuda_copy_to_pinned(buffer, state.input.info, state.input.host_layout,
                                *state.upload_pinned, state.stage.stream());
    if (!copied) return copied.status();
    pinned = std::move(*copied);
    frame = pinned.get();
  }
  Result<FramePtr> device =
      state.upload_device->allocate(state.input.device_layout, state.stage.stream());
  if (!device) return device.status();
  CUDAFRAME_TRY(copy_frame(state, **device, *frame));
  *uploaded = std::move(*device);
  return uploaded->get();
}

static Status process(State& state, GstBuffer* input, const Frame& output) {
  FramePtr uploaded;
  Result<const Frame*> source = input_on_device(state, input, &uploaded);
  if (!source) return source.status();
  if (!state.converter) return copy_frame(state, output, **source);
  if (output.kind() == MemoryKind::device) return convert_frame(state, output, **source);
  Result<FramePtr> converted =
      state.download_device->allocate(state.output.device_layout, state.stage.stream());
  if (!converted) return converted.status();
  CUDAFRAME_TRY(convert_frame(state, **converted, **source));
  return copy_frame(state, output, **converted);
}

static GstFlowReturn color_convert_transform(GstBaseTransform* transform, GstBuffer* input,
                                             GstBuffer* output) {
  const Frame& frame = *gst_cuda_frame_memory_get_frame(gst_buffer_peek_memory(output, 0));
  const Status status = process(state_of(transform), input, frame);
  return gst_cuda_fail(GST_ELEMENT(transform), status, "converting a frame");
}

// ---- Events, queries, states

static gboolean color_convert_start(GstBaseTransform* transform) {
  State& state = state_of(transform);
  state.upload_pinned = state.stage.make_pool(MemoryKind::pinned_host, kUploadsUnderWay);
  state.upload_device = state.stage.make_pool(MemoryKind::device, 1);
  state.download_device = state.stage.make_pool(MemoryKind::device, 1);
  return TRUE;
}

static gboolean color_convert_stop(GstBaseTransform* transform) {
  State& state = state_of(transform);
  for (auto* pool : {&state.upload_pinned, &state.upload_device, &state.download_device}) {
    (*pool)->shut_down();
    pool->reset();
  }
  gst_clear_caps(&state.refused);
  return TRUE;
}

static gboolean color_convert_sink_event(GstBaseTransform* transform, GstEvent* event) {
  if (GST_EVENT_TYPE(event) == GST_EVENT_FLUSH_START) state_of(transform).stage.set_flushing(true);
  if (GST_EVENT_TYPE(event) == GST_EVENT_FLUSH_STOP) state_of(transform).stage.set_flushing(false);
  return parent_of()->sink_event(transform, event);
}

static gboolean color_convert_query(GstBaseTransform* transform, GstPadDirection direction,
                                    GstQuery* query) {
  if (state_of(transform).stage.handle_context_query(query)) return TRUE;
  return parent_of()->query(transform, direction, query);
}

static void color_convert_set_context(GstElement* element, GstContext* context) {
  state_of(element).stage.set_context(context);
  GST_ELEMENT_CLASS(gst_cuda_color_convert_parent_class)->set_context(element, context);
}

static Status load_driver() {
  return cudaframe::cuda::Driver::load().status();
}

static GstStateChangeReturn color_convert_change_state(GstElement* element,
                                                       GstStateChange transition) {
  return state_of(element).stage.change_state(
      GST_ELEMENT_CLASS(gst_cuda_color_convert_parent_class), transition, load_driver);
}

// ---- Object

static void color_convert_set_property(GObject* object, guint id, const GValue* value,
                                       GParamSpec* pspec) {
  State& state = state_of(object);
  if (id == PROP_CHROMA_MODE) {
    GST_OBJECT_LOCK(object);
    state.chroma_mode = static_cast<ChromaMode>(g_value_get_enum(value));
    GST_OBJECT_UNLOCK(object);
  } else if (id >= PROP_STAGE && id < PROP_STAGE + GstCudaStage::kPropertyCount) {
    state.stage.set_property(id - PROP_STAGE, value);
  } else {
    G_OBJECT_WARN_INVALID_PROPERTY_ID(object, id, pspec);
  }
}

static void color_convert_get_property(GObject* object, guint id, GValue* value,
                                       GParamSpec* pspec) {
  State& state = state_of(object);
  if (id == PROP_CHROMA_MODE) {
    GST_OBJECT_LOCK(object);
    g_value_set_enum(value, static_cast<gint>(state.chroma_mode));
    GST_OBJECT_UNLOCK(object);
  } else if (id >= PROP_STAGE && id < PROP_STAGE + GstCudaStage::kPropertyCount) {
    state.stage.get_property(id - PROP_STAGE, value);
  } else {
    G_OBJECT_WARN_INVALID_PROPERTY_ID(object, id, pspec);
  }
}

static void color_convert_finalize(GObject* object) {
  delete GST_CUDA_COLOR_CONVERT(object)->state;
  G_OBJECT_CLASS(gst_cuda_color_convert_parent_class)->finalize(object);
}

static void gst_cuda_color_convert_init(GstCudaColorConvert* self) {
  self->state = new State(GST_ELEMENT(self));
}

static void gst_cuda_color_convert_class_init(GstCudaColorConvertClass* klass) {
  GObjectClass* object_class = G_OBJECT_CLASS(klass);
  object_class->set_property = color_convert_set_property;
  object_class->get_property = color_convert_get_property;
  object_class->finalize = color_convert_finalize;
  g_object_class_install_property(
      object_class, PROP_CHROMA_MODE,
      g_param_spec_enum("chroma-mode", "Chroma mode",
                        "How the chroma of 4:2:0 pictures is brought to full size",
                        chroma_mode_get_type(), static_cast<gint>(kDefaultChromaMode),
                        static_cast<GParamFlags>(G_PARAM_READWRITE | G_PARAM_STATIC_STRINGS |
                                                 GST_PARAM_MUTABLE_READY)));
  GstCudaStage::install_properties(object_class, PROP_STAGE);
  gst_type_mark_as_plugin_api(chroma_mode_get_type(), static_cast<GstPluginAPIFlags>(0));

  GstElementClass* element_class = GST_ELEMENT_CLASS(klass);
  element_class->change_state = color_convert_change_state;
  element_class->set_context = color_convert_set_context;
  gst_element_class_set_static_metadata(
      element_class, "CUDA colour converter", "Filter/Converter/Video/Colorspace/Hardware",
      "Converts NV12 and RGB video with CUDA kernels, each frame with its completion event",
      "The gst-cudaframe developers");
  gst_element_class_add_static_pad_template(element_class, &sink_template);
  gst_element_class_add_static_pad_template(element_class, &src_template);

  GstBaseTransformClass* transform_class = GST_BASE_TRANSFORM_CLASS(klass);
  transform_class->passthrough_on_same_caps = TRUE;
  transform_class->transform_ip_on_passthrough = FALSE;
  transform_class->start = color_convert_start;
  transform_class->stop = color_convert_stop;
  transform_class->transform_caps = color_convert_transform_caps;
  transform_class->fixate_caps = color_convert_fixate_caps;
  transform_class->set_caps = color_convert_set_caps;
  transform_class->get_unit_size = color_convert_get_unit_size;
  transform_class->decide_allocation = color_convert_decide_allocation;
  transform_class->propose_allocation = color_convert_propose_allocation;
  transform_class->prepare_output_buffer = color_convert_prepare_output_buffer;
  transform_class->transform_meta = color_convert_transform_meta;
  transform_class->transform = color_convert_transform;
  transform_class->sink_event = color_convert_sink_event;
  transform_class->query = color_convert_query;
}
