// SPDX-License-Identifier: LGPL-2.1-or-later
// What the elements that work on the GPU share: their device, stream, allocators and properties.
#pragma once

#include <gst/gst.h>

#include <memory>

#include "base/mutex.h"
#include "cuda/context.h"
#include "cuda/stream.h"
#include "gst/cudaframe/gstcudaframe-private.h"
#include "memory/memory_policy.h"

/// Settings may change at any time and count from the next start(). Thread-safe, but for start()
/// and stop(), which the state change calls, and the accessors that say "while started".
class GstCudaStage {
 public:
  /// Number of properties that install_properties() takes, from `first_id` on.
  static constexpr guint kPropertyCount = 6;

  explicit GstCudaStage(GstElement* element) : element_(element) {}

  /// cuda-device-id, cuda-stream, reuse-policy, max-frames, max-bytes, stats.
  static void install_properties(GObjectClass* klass, guint first_id);
  /// `index` counts from 0 at cuda-device-id.
  void set_property(guint index, const GValue* value);
  void get_property(guint index, GValue* value);

  /// Device, stream and allocators. Creates the CUDA context on first use in the process.
  cudaframe::Status start();
  /// Frees what nobody references; frames that are still out stay valid.
  void stop();

  /// An element's change_state: `load` in NULL to READY, start() in READY to PAUSED, everything
  /// woken before PAUSED to READY chains up (a base class's stop() comes only after the streaming
  /// thread has left), stop() after it. One error is posted for what fails.
  GstStateChangeReturn change_state(GstElementClass* parent, GstStateChange transition,
                                    cudaframe::Status (*load)());
  /// Before chaining up in decide_allocation: frames come from our own allocators, since a buffer
  /// pool would keep them from their last unref. What downstream keeps raises the bound; the base
  /// class's own pool stays idle.
  void adopt_allocation(GstQuery* query);

  /// Wakes every allocation that waits for a frame, and refuses new ones while set. A flush that
  /// ends while the element is being stopped lets nothing wait again.
  void set_flushing(bool flushing);
  /// The bound becomes at least this, whatever the user asked for.
  void raise_max_frames(guint minimum);

  void set_context(GstContext* context);
  /// Whether `query`, of whatever type, was answered.
  bool handle_context_query(GstQuery* query);

  /// While started:
  cudaframe::cuda::Context& context() const { return *context_; }
  const cudaframe::cuda::StreamPtr& stream() const { return stream_; }
  /// Stream: the stage's own writes first. `bounded` false lifts the bound (reverse playback).
  cudaframe::Result<cudaframe::memory::FramePtr> allocate_device(
      const cudaframe::memory::FrameLayout& layout, bool bounded = true);
  cudaframe::Result<cudaframe::memory::FramePtr> allocate_host(
      const cudaframe::memory::FrameLayout& layout);
  /// A pool for an element's own intermediate pictures, `frames` of them; not in the statistics.
  std::shared_ptr<cudaframe::memory::MemoryPolicy> make_pool(cudaframe::memory::MemoryKind kind,
                                                             std::size_t frames) const;
  /// (transfer full): a buffer around a frame of either allocator.
  GstBuffer* wrap(cudaframe::memory::FramePtr frame);

 private:
  struct Settings {
    gint device_id = -1;
    guint64 stream = 0;
    GstCudaFrameReusePolicy policy = GST_CUDA_FRAME_REUSE_BOUNDED_POOL;
    guint max_frames = 8;
    guint64 max_bytes = 0;
  };

  void wake_for_stop();
  void post_stall() const;
  GstStructure* make_stats();

  GstElement* const element_;
  cudaframe::Mutex mutex_;
  Settings settings_ GUARDED_BY(mutex_);
  gint device_in_use_ GUARDED_BY(mutex_) = -1;
  bool stopping_ GUARDED_BY(mutex_) = false;  ///< From the wake-up to the end of stop().
  GstCudaFrameAllocator* device_allocator_ GUARDED_BY(mutex_) = nullptr;
  GstCudaFrameAllocator* host_allocator_ GUARDED_BY(mutex_) = nullptr;
  cudaframe::memory::PolicyStats last_stats_
      GUARDED_BY(mutex_);  ///< Of the last run, once stopped.

  // Written by start() and stop() only, while no streaming thread runs.
  cudaframe::cuda::Context* context_ = nullptr;
  cudaframe::cuda::StreamPtr stream_;
  std::shared_ptr<cudaframe::memory::MemoryPolicy> device_policy_;
  std::shared_ptr<cudaframe::memory::MemoryPolicy> host_policy_;
};
