// SPDX-License-Identifier: LGPL-2.1-or-later
#include "elements/gstcudastage.h"

#include <algorithm>

#include "elements/gstcudaerror.h"

using cudaframe::MutexLock;
using cudaframe::Result;
using cudaframe::Status;
using cudaframe::StatusCode;
using cudaframe::cuda::Context;
using cudaframe::cuda::Stream;
using cudaframe::cuda::StreamPtr;
using cudaframe::memory::FrameLayout;
using cudaframe::memory::FramePtr;
using cudaframe::memory::MemoryKind;
using cudaframe::memory::MemoryPolicy;
using cudaframe::memory::PolicyConfig;
using cudaframe::memory::ReusePolicy;

namespace {

enum PropertyIndex : guint {
  kDeviceId,
  kStream,
  kReusePolicy,
  kMaxFrames,
  kMaxBytes,
  kStats,
};

constexpr guint64 kPerThreadStream = 2;  // CU_STREAM_PER_THREAD

constexpr auto kReadWrite =
    static_cast<GParamFlags>(G_PARAM_READWRITE | G_PARAM_STATIC_STRINGS | GST_PARAM_MUTABLE_READY);
constexpr auto kReadOnly = static_cast<GParamFlags>(G_PARAM_READABLE | G_PARAM_STATIC_STRINGS);

GstCudaFrameAllocator* ref_allocator(GstCudaFrameAllocator* allocator) {
  return allocator ? GST_CUDA_FRAME_ALLOCATOR(gst_object_ref(allocator)) : nullptr;
}

}  // namespace

void GstCudaStage::install_properties(GObjectClass* klass, guint first_id) {
  g_object_class_install_property(
      klass, first_id + kDeviceId,
      g_param_spec_int("cuda-device-id", "CUDA device",
                       "CUDA's number of the device to use; -1: the one that the neighbours use, "
                       "else the first",
                       -1, G_MAXINT, -1, kReadWrite));
  g_object_class_install_property(
      klass, first_id + kStream,
      g_param_spec_uint64("cuda-stream", "CUDA stream",
                          "CUstream to queue all work on, which must outlive the element and its "
                          "frames; 0: an own non-blocking stream, 1: the legacy default stream "
                          "(2, the per-thread default stream, is refused)",
                          0, G_MAXUINT64, 0, kReadWrite));
  g_object_class_install_property(
      klass, first_id + kReusePolicy,
      g_param_spec_enum("reuse-policy", "Reuse policy",
                        "When the memory of a frame that has been dropped may be written again",
                        GST_TYPE_CUDA_FRAME_REUSE_POLICY, GST_CUDA_FRAME_REUSE_BOUNDED_POOL,
                        kReadWrite));
  g_object_class_install_property(
      klass, first_id + kMaxFrames,
      g_param_spec_uint("max-frames", "Most frames",
                        "bounded-pool: frames that exist at most. The element waits while all of "
                        "them are referenced, so this must be one more than what is kept "
                        "downstream (queues, lookahead, a sink's last sample)",
                        2, 1024, 8, kReadWrite));
  g_object_class_install_property(
      klass, first_id + kMaxBytes,
      g_param_spec_uint64("max-bytes", "Most bytes",
                          "Device memory that this element's frames may take together; 0: no limit "
                          "but max-frames",
                          0, G_MAXUINT64, 0, kReadWrite));
  g_object_class_install_property(
      klass, first_id + kStats,
      g_param_spec_boxed("stats", "Statistics",
                         "Frames, bytes and waits of the element's CUDA memory: see "
                         "gst_cuda_frame_allocator_get_stats()",
                         GST_TYPE_STRUCTURE, kReadOnly));
}

void GstCudaStage::set_property(guint index, const GValue* value) {
  MutexLock lock(mutex_);
  switch (index) {
    case kDeviceId:
      settings_.device_id = g_value_get_int(value);
      break;
    case kStream:
      settings_.stream = g_value_get_uint64(value);
      break;
    case kReusePolicy:
      settings_.policy = static_cast<GstCudaFrameReusePolicy>(g_value_get_enum(value));
      break;
    case kMaxFrames:
      settings_.max_frames = g_value_get_uint(value);
      break;
    case kMaxBytes:
      settings_.max_bytes = g_value_get_uint64(value);
      break;
    default:
      g_assert_not_reached();
  }
}

void GstCudaStage::get_property(guint index, GValue* value) {
  if (index == kStats) {
    g_value_take_boxed(value, make_stats());
    return;
  }
  MutexLock lock(mutex_);
  switch (index) {
    case kDeviceId:
      g_value_set_int(value, settings_.device_id);
      break;
    case kStream:
      g_value_set_uint64(value, settings_.stream);
      break;
    case kReusePolicy:
      g_value_set_enum(value, settings_.policy);
      break;
    case kMaxFrames:
      g_value_set_uint(value, settings_.max_frames);
      break;
    case kMaxBytes:
      g_value_set_uint64(value, settings_.max_bytes);
      break;
    default:
      g_assert_not_reached();
  }
}

GstStructure* GstCudaStage::make_stats() {
  GstCudaFrameAllocator* allocator;
  cudaframe::memory::PolicyStats stats;
  {
    MutexLock lock(mutex_);
    allocator = ref_allocator(device_allocator_);
    stats = last_stats_;
  }
  if (allocator) {
    stats = gst_cuda_frame_allocator_get_policy(allocator).stats();
    gst_object_unref(allocator);
  }
  return gst_cuda_frame_stats_new(stats);
}

Status GstCudaStage::start() {
  Settings settings;
  {
    MutexLock lock(mutex_);
    settings = settings_;
  }
  if (settings.stream == kPerThreadStream) {
    return Status(StatusCode::invalid_argument,
                  "cuda-stream 2, the per-thread default stream, can't be used: elements run on "
                  "several threads");
  }
  gint device_id = settings.device_id;
  gst_cuda_frame_ensure_device(element_, &device_id);
  Result<Context*> context = Context::for_device(device_id);
  if (!context.ok()) return context.status();
  context_ = *context;
  Result<StreamPtr> stream =
      settings.stream == 0 ? Stream::create(*context_)
                           : Stream::wrap(*context_, reinterpret_cast<CUstream>(settings.stream));
  if (!stream.ok()) return stream.status();
  stream_ = std::move(*stream);

  PolicyConfig config{.max_frames = settings.max_frames, .max_bytes = settings.max_bytes};
  config.on_stall = [this] { post_stall(); };
  device_policy_ = MemoryPolicy::create(settings.policy == GST_CUDA_FRAME_REUSE_RECORD_STREAM
                                            ? ReusePolicy::record_stream
                                            : ReusePolicy::bounded_pool,
                                        *context_, MemoryKind::device, std::move(config));
  // CPU memory is not what the bound is about, and software elements hold as many as they like.
  host_policy_ =
      MemoryPolicy::create(ReusePolicy::record_stream, *context_, MemoryKind::pinned_host, {});
  MutexLock lock(mutex_);
  device_in_use_ = device_id;
  device_allocator_ = gst_cuda_frame_allocator_new_from_policy(device_policy_);
  host_allocator_ = gst_cuda_frame_allocator_new_from_policy(host_policy_);
  return {};
}

void GstCudaStage::stop() {
  GstCudaFrameAllocator* device_allocator;
  GstCudaFrameAllocator* host_allocator;
  if (device_policy_) device_policy_->shut_down();
  if (host_policy_) host_policy_->shut_down();
  {
    MutexLock lock(mutex_);
    if (device_policy_) last_stats_ = device_policy_->stats();
    device_allocator = std::exchange(device_allocator_, nullptr);
    host_allocator = std::exchange(host_allocator_, nullptr);
    device_in_use_ = -1;
    stopping_ = false;
  }
  gst_clear_object(&device_allocator);
  gst_clear_object(&host_allocator);
  device_policy_.reset();
  host_policy_.reset();
  stream_.reset();
  context_ = nullptr;
}

GstStateChangeReturn GstCudaStage::change_state(GstElementClass* parent, GstStateChange transition,
                                                Status (*load)()) {
  Status status;
  const char* doing = "loading the driver";
  if (transition == GST_STATE_CHANGE_NULL_TO_READY) {
    status = load();
  } else if (transition == GST_STATE_CHANGE_READY_TO_PAUSED) {
    status = start();
    doing = "opening the device";
  } else if (transition == GST_STATE_CHANGE_PAUSED_TO_READY) {
    wake_for_stop();
  }
  if (!status.ok()) {
    gst_cuda_post_error(element_, status, doing);
    return GST_STATE_CHANGE_FAILURE;
  }
  const GstStateChangeReturn result = parent->change_state(element_, transition);
  const bool has_stopped = transition == GST_STATE_CHANGE_PAUSED_TO_READY;
  const bool never_started =
      transition == GST_STATE_CHANGE_READY_TO_PAUSED && result == GST_STATE_CHANGE_FAILURE;
  if (has_stopped || never_started) stop();
  return result;
}

void GstCudaStage::adopt_allocation(GstQuery* query) {
  guint kept = 0;
  for (guint i = 0; i < gst_query_get_n_allocation_pools(query); ++i) {
    guint size = 0;
    guint min = 0;
    gst_query_parse_nth_allocation_pool(query, i, nullptr, &size, &min, nullptr);
    kept = std::max(kept, min);
    gst_query_set_nth_allocation_pool(query, i, nullptr, size, 0, 0);
  }
  if (kept > 0) raise_max_frames(kept + 1);
}

void GstCudaStage::set_flushing(bool flushing) {
  MutexLock lock(mutex_);
  flushing |= stopping_;
  if (device_allocator_) gst_cuda_frame_allocator_set_flushing(device_allocator_, flushing);
  if (host_allocator_) gst_cuda_frame_allocator_set_flushing(host_allocator_, flushing);
}

void GstCudaStage::wake_for_stop() {
  {
    MutexLock lock(mutex_);
    stopping_ = true;
  }
  set_flushing(true);
}

void GstCudaStage::raise_max_frames(guint minimum) {
  MutexLock lock(mutex_);
  if (!device_allocator_ || minimum <= settings_.max_frames) return;
  GST_INFO_OBJECT(element_, "downstream keeps frames: max-frames raised from %u to %u",
                  settings_.max_frames, minimum);
  gst_cuda_frame_allocator_get_policy(device_allocator_).set_max_frames(minimum);
}

void GstCudaStage::set_context(GstContext* context) {
  // Read by start() from the element, which keeps its contexts itself.
  gint device_id = -1;
  if (gst_cuda_frame_handle_set_context(context, &device_id)) {
    GST_DEBUG_OBJECT(element_, "told to use device %d", device_id);
  }
}

bool GstCudaStage::handle_context_query(GstQuery* query) {
  if (GST_QUERY_TYPE(query) != GST_QUERY_CONTEXT) return false;
  gint device_id;
  {
    MutexLock lock(mutex_);
    device_id = device_in_use_;
  }
  return gst_cuda_frame_handle_context_query(query, device_id);
}

Result<FramePtr> GstCudaStage::allocate_device(const FrameLayout& layout, bool bounded) {
  return device_policy_->allocate(layout, stream_, bounded);
}

Result<FramePtr> GstCudaStage::allocate_host(const FrameLayout& layout) {
  return host_policy_->allocate(layout, stream_);
}

std::shared_ptr<MemoryPolicy> GstCudaStage::make_pool(MemoryKind kind, std::size_t frames) const {
  return MemoryPolicy::create(ReusePolicy::bounded_pool, *context_, kind, {.max_frames = frames});
}

GstBuffer* GstCudaStage::wrap(FramePtr frame) {
  const bool on_device = frame->kind() == MemoryKind::device;
  GstCudaFrameAllocator* allocator;
  {
    MutexLock lock(mutex_);
    allocator = ref_allocator(on_device ? device_allocator_ : host_allocator_);
  }
  GstBuffer* buffer = gst_cuda_frame_allocator_wrap(allocator, std::move(frame));
  gst_object_unref(allocator);
  return buffer;
}

void GstCudaStage::post_stall() const {
  if (GST_STATE(element_) != GST_STATE_PLAYING) return;
  GST_ELEMENT_WARNING(
      element_, RESOURCE, NO_SPACE_LEFT,
      ("All frames are in use downstream, and have been for two seconds: raise max-frames, or keep "
       "fewer frames"),
      ("waiting for a frame to come back; max-frames must be one more than what queues, sinks and "
       "the application keep"));
}
