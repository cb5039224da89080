// SPDX-License-Identifier: LGPL-2.1-or-later
#include "memory/fence.h"

#include <algorithm>

namespace cudaframe::memory {
namespace {

Status wait_for(const std::vector<cuda::EventPtr>& events, CUstream stream) {
  for (const cuda::EventPtr& event : events) CUDAFRAME_TRY(event->make_stream_wait(stream));
  return {};
}

}  // namespace

Fence::Fence(cuda::Context& context, cuda::StreamPtr writer, std::vector<Reader> prior)
    : context_(context), writer_(std::move(writer)), prior_(std::move(prior)) {}

Status Fence::check_open() const {
  if (!closed_) return {};
  return Status(StatusCode::invalid_argument,
                "the frame's memory has gone back to its allocator; this view is of the past");
}

// Note [Before the first write]: until something has been written, a stream other than the one the
// block was acquired for has to wait for what the block's past still holds.
std::vector<cuda::EventPtr> Fence::events_to_wait(bool with_readers) const {
  std::vector<cuda::EventPtr> events;
  if (ready_) {
    events.push_back(ready_);
  } else {
    for (const Reader& reader : prior_) events.push_back(reader.done);
  }
  if (with_readers) {
    for (const Reader& reader : readers_) events.push_back(reader.done);
  }
  return events;
}

Result<Reader> Fence::record_now(const cuda::StreamPtr& stream) const {
  Result<cuda::EventPtr> event = context_.events().record(stream->handle());
  if (!event) return event.status();
  return Reader{std::move(*event), stream};
}

Status Fence::wait(const cuda::StreamPtr& stream) const {
  std::vector<cuda::EventPtr> events;
  {
    MutexLock lock(mutex_);
    CUDAFRAME_TRY(check_open());
    if (stream == writer_) return {};
    events = events_to_wait(false);
  }
  return wait_for(events, stream->handle());
}

Status Fence::wait(CUstream stream) const {
  std::vector<cuda::EventPtr> events;
  {
    MutexLock lock(mutex_);
    CUDAFRAME_TRY(check_open());
    events = events_to_wait(false);
  }
  return wait_for(events, stream);
}

Status Fence::wait_to_write(CUstream stream) const {
  std::vector<cuda::EventPtr> events;
  std::vector<cuda::StreamPtr> recorded;
  {
    MutexLock lock(mutex_);
    CUDAFRAME_TRY(check_open());
    events = events_to_wait(true);
    recorded = recorded_streams_;
  }
  for (const cuda::StreamPtr& reader : recorded) {
    Result<Reader> now = record_now(reader);
    if (!now) return now.status();
    events.push_back(std::move(now->done));
  }
  return wait_for(events, stream);
}

Status Fence::synchronize() const {
  std::vector<cuda::EventPtr> events;
  {
    MutexLock lock(mutex_);
    CUDAFRAME_TRY(check_open());
    events = events_to_wait(false);
  }
  for (const cuda::EventPtr& event : events) CUDAFRAME_TRY(event->synchronize());
  return {};
}

Result<bool> Fence::is_ready() const {
  std::vector<cuda::EventPtr> events;
  {
    MutexLock lock(mutex_);
    CUDAFRAME_TRY(check_open());
    events = events_to_wait(false);
  }
  for (const cuda::EventPtr& event : events) {
    Result<bool> done = event->is_done();
    if (!done || !*done) return done;
  }
  return true;
}

Status Fence::record_write(const cuda::StreamPtr& stream) {
  Result<Reader> write = record_now(stream);
  if (!write) return write.status();
  MutexLock lock(mutex_);
  CUDAFRAME_TRY(check_open());
  ready_ = std::move(write->done);
  writer_ = stream;
  return {};
}

Status Fence::record_stream(cuda::StreamPtr stream) {
  MutexLock lock(mutex_);
  CUDAFRAME_TRY(check_open());
  const bool known = std::any_of(recorded_streams_.begin(), recorded_streams_.end(),
                                 [&](const cuda::StreamPtr& recorded) {
                                   // One event at the end covers the queue, whichever object names
                                   // it.
                                   return recorded->handle() == stream->handle();
                                 });
  if (!known) recorded_streams_.push_back(std::move(stream));
  return {};
}

Status Fence::add_reader(Reader reader) {
  MutexLock lock(mutex_);
  CUDAFRAME_TRY(check_open());
  readers_.push_back(std::move(reader));
  return {};
}

cuda::StreamPtr Fence::writer() const {
  MutexLock lock(mutex_);
  return writer_;
}

Result<BlockHistory> Fence::close() {
  std::vector<cuda::StreamPtr> recorded;
  BlockHistory history;
  {
    MutexLock lock(mutex_);
    CUDAFRAME_TRY(check_open());
    closed_ = true;
    recorded.swap(recorded_streams_);
    history.readers.swap(readers_);
    history.ready = std::move(ready_);
    if (history.ready) {
      history.last_writer = std::move(writer_);
    } else {
      // Never written: the block's past is still its past.
      for (Reader& reader : prior_) history.readers.push_back(std::move(reader));
    }
    prior_.clear();
  }
  for (const cuda::StreamPtr& stream : recorded) {
    Result<Reader> now = record_now(stream);
    if (!now) return now.status().with_context("recording the reads of a dropped frame");
    history.readers.push_back(std::move(*now));
  }
  return history;
}

}  // namespace cudaframe::memory
