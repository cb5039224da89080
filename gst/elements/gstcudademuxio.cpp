// SPDX-License-Identifier: LGPL-2.1-or-later
#include "elements/gstcudademuxio.h"

#include <algorithm>

using cudaframe::MutexLock;
using cudaframe::Result;
using cudaframe::Status;
using cudaframe::StatusCode;

namespace {

// Enough that reader and writer don't wait for each other at every buffer.
constexpr gsize kQueueBytes = gsize{2} << 20;

}  // namespace

Status GstCudaDemuxSource::fail(GstFlowReturn flow) {
  flow_ = flow;
  if (flow == GST_FLOW_EOS) return Status(StatusCode::end_of_stream, "end of the input");
  if (flow == GST_FLOW_FLUSHING) return Status(StatusCode::flushing, "reading was interrupted");
  return Status(StatusCode::internal,
                std::string("Reading from upstream failed: ") + gst_flow_get_name(flow), flow);
}

Result<std::size_t> GstCudaDemuxPullSource::read(std::span<std::uint8_t> into) {
  GstBuffer* buffer = nullptr;
  const GstFlowReturn flow =
      gst_pad_pull_range(pad_, position_, static_cast<guint>(into.size()), &buffer);
  if (flow != GST_FLOW_OK) return fail(flow);
  const gsize size = gst_buffer_extract(buffer, 0, into.data(), into.size());
  gst_buffer_unref(buffer);
  position_ += size;
  return size;
}

Status GstCudaDemuxPullSource::seek(std::uint64_t position) {
  position_ = position;
  return Status();
}

std::optional<std::uint64_t> GstCudaDemuxPullSource::size() {
  gint64 size = -1;
  if (!gst_pad_peer_query_duration(pad_, GST_FORMAT_BYTES, &size) || size < 0) return std::nullopt;
  return static_cast<std::uint64_t>(size);
}

void GstCudaDemuxPullSource::set_interrupted(bool interrupted) {
  interrupted_.store(interrupted, std::memory_order_release);
}

GstCudaDemuxPushSource::GstCudaDemuxPushSource() : adapter_(gst_adapter_new()) {}

GstCudaDemuxPushSource::~GstCudaDemuxPushSource() {
  g_object_unref(adapter_);
}

Result<std::size_t> GstCudaDemuxPushSource::read(std::span<std::uint8_t> into) {
  MutexLock lock(mutex_);
  while (!interrupted_ && !is_end_ && gst_adapter_available(adapter_) == 0) changed_.wait(mutex_);
  if (interrupted_) return fail(GST_FLOW_FLUSHING);
  const gsize size = std::min<gsize>(gst_adapter_available(adapter_), into.size());
  if (size == 0) return fail(GST_FLOW_EOS);
  gst_adapter_copy(adapter_, into.data(), 0, size);
  gst_adapter_flush(adapter_, size);
  position_ += size;
  changed_.notify_all();
  return size;
}

Status GstCudaDemuxPushSource::seek(std::uint64_t) {
  return Status(StatusCode::not_supported, "pushed input can't be positioned");
}

bool GstCudaDemuxPushSource::interrupted() const {
  MutexLock lock(mutex_);
  return interrupted_;
}

void GstCudaDemuxPushSource::set_interrupted(bool interrupted) {
  MutexLock lock(mutex_);
  interrupted_ = interrupted;
  changed_.notify_all();
}

GstFlowReturn GstCudaDemuxPushSource::push(GstBuffer* buffer) {
  MutexLock lock(mutex_);
  while (!interrupted_ && finish_flow_ == GST_FLOW_OK &&
         gst_adapter_available(adapter_) >= kQueueBytes) {
    changed_.wait(mutex_);
  }
  GstFlowReturn flow = finish_flow_;
  if (interrupted_) flow = GST_FLOW_FLUSHING;
  if (flow == GST_FLOW_OK && is_end_) flow = GST_FLOW_EOS;
  if (flow != GST_FLOW_OK) {
    gst_buffer_unref(buffer);
    return flow;
  }
  gst_adapter_push(adapter_, buffer);
  changed_.notify_all();
  return GST_FLOW_OK;
}

void GstCudaDemuxPushSource::set_end() {
  MutexLock lock(mutex_);
  is_end_ = true;
  changed_.notify_all();
}

void GstCudaDemuxPushSource::finish(GstFlowReturn flow) {
  MutexLock lock(mutex_);
  finish_flow_ = flow;
  gst_adapter_clear(adapter_);
  changed_.notify_all();
}

void GstCudaDemuxPushSource::clear() {
  MutexLock lock(mutex_);
  gst_adapter_clear(adapter_);
  is_end_ = false;
  finish_flow_ = GST_FLOW_OK;
  changed_.notify_all();
}
