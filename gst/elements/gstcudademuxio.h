// SPDX-License-Identifier: LGPL-2.1-or-later
// Two byte sources over a sink pad: pulling by offset, and a bounded queue of pushed buffers.
#pragma once

#include <gst/base/gstadapter.h>
#include <gst/gst.h>

#include <atomic>

#include "base/mutex.h"
#include "demux/byte_source.h"

/// What both have: an interrupt switch, and the flow return behind a failure.
class GstCudaDemuxSource : public cudaframe::demux::ByteSource {
 public:
  /// Thread-safe. Ends a read() that waits, and refuses others while set.
  virtual void set_interrupted(bool interrupted) = 0;
  /// Of the last failed read; GST_FLOW_OK before. Reading thread only.
  GstFlowReturn flow() const { return flow_; }

 protected:
  cudaframe::Status fail(GstFlowReturn flow);

 private:
  GstFlowReturn flow_ = GST_FLOW_OK;
};

/// Over gst_pad_pull_range(). Thread-bound but for the interrupt switch, which can't end a pull
/// that upstream blocks: flush or deactivate upstream for that.
class GstCudaDemuxPullSource final : public GstCudaDemuxSource {
 public:
  explicit GstCudaDemuxPullSource(GstPad* sink_pad) : pad_(sink_pad) {}

  cudaframe::Result<std::size_t> read(std::span<std::uint8_t> into) override;
  cudaframe::Status seek(std::uint64_t position) override;
  std::uint64_t position() const override { return position_; }
  std::optional<std::uint64_t> size() override;
  bool is_seekable() const override { return true; }
  bool interrupted() const override { return interrupted_.load(std::memory_order_acquire); }
  void set_interrupted(bool interrupted) override;

 private:
  GstPad* const pad_;
  std::uint64_t position_ = 0;
  std::atomic<bool> interrupted_{false};
};

/// Between the chain function (any thread) and the demuxing task. Thread-safe.
class GstCudaDemuxPushSource final : public GstCudaDemuxSource {
 public:
  GstCudaDemuxPushSource();
  ~GstCudaDemuxPushSource() override;

  cudaframe::Result<std::size_t> read(std::span<std::uint8_t> into) override;
  cudaframe::Status seek(std::uint64_t position) override;
  std::uint64_t position() const override { return position_; }
  std::optional<std::uint64_t> size() override { return std::nullopt; }
  bool is_seekable() const override { return false; }
  bool interrupted() const override;
  void set_interrupted(bool interrupted) override;

  /// (transfer full). Waits while the queue is full. FLUSHING when interrupted, EOS after
  /// set_end(), else what finish() was given.
  GstFlowReturn push(GstBuffer* buffer);
  /// Upstream sends no more: read() ends when the queue is empty.
  void set_end();
  /// The reader wants no more; push() returns `flow` from now on.
  void finish(GstFlowReturn flow);
  /// Forgets queue, end and finish(). The interrupt switch stays as it is.
  void clear();

 private:
  mutable cudaframe::Mutex mutex_;
  cudaframe::Condition changed_;
  GstAdapter* const adapter_ GUARDED_BY(mutex_);
  bool interrupted_ GUARDED_BY(mutex_) = false;
  bool is_end_ GUARDED_BY(mutex_) = false;
  GstFlowReturn finish_flow_ GUARDED_BY(mutex_) = GST_FLOW_OK;
  std::uint64_t position_ = 0;  ///< Reading thread only.
};
