// SPDX-License-Identifier: LGPL-2.1-or-later
#include "cuda/event.h"

#include "base/log.h"

namespace cudaframe::cuda {

EventPtr Event::adopt(Context& context, CUevent handle) {
  return EventPtr(new Event(context, handle));
}

Event::~Event() {
  ContextScope scope(context_);
  const Status status = CUDAFRAME_CUDA(context_.driver(), cuEventDestroy(handle_));
  if (!status.ok()) log(LogLevel::warning, "cuda", "%s", status.dump().c_str());
}

Status Event::record(CUstream stream) {
  ContextScope scope(context_);
  CUDAFRAME_TRY(scope.status());
  return CUDAFRAME_CUDA(context_.driver(), cuEventRecord(handle_, stream));
}

Status Event::make_stream_wait(CUstream stream) const {
  ContextScope scope(context_);
  CUDAFRAME_TRY(scope.status());
  return CUDAFRAME_CUDA(context_.driver(),
                        cuStreamWaitEvent(stream, handle_, CU_EVENT_WAIT_DEFAULT));
}

Status Event::synchronize() const {
  ContextScope scope(context_);
  CUDAFRAME_TRY(scope.status());
  return CUDAFRAME_CUDA(context_.driver(), cuEventSynchronize(handle_));
}

Result<bool> Event::is_done() const {
  ContextScope scope(context_);
  CUDAFRAME_TRY(scope.status());
  const CUresult result = context_.driver().cuEventQuery(handle_);
  if (result == CUDA_ERROR_NOT_READY) return false;
  CUDAFRAME_TRY(context_.driver().check(result, "cuEventQuery"));
  return true;
}

Result<EventPtr> EventPool::record(CUstream stream) {
  std::unique_ptr<Event> event;
  {
    MutexLock lock(mutex_);
    if (!idle_.empty()) {
      event = std::move(idle_.back());
      idle_.pop_back();
    }
  }
  ContextScope scope(context_);
  CUDAFRAME_TRY(scope.status());
  if (!event) {
    CUevent handle = nullptr;
    CUDAFRAME_TRY(
        CUDAFRAME_CUDA(context_.driver(), cuEventCreate(&handle, CU_EVENT_DISABLE_TIMING)));
    event.reset(new Event(context_, handle));
  }
  // Straight to the driver: Event::record would push the context a second time.
  CUDAFRAME_TRY(CUDAFRAME_CUDA(context_.driver(), cuEventRecord(event->handle(), stream)));
  return EventPtr(event.release(), [this](Event* done) { recycle(done); });
}

void EventPool::recycle(Event* event) noexcept {
  MutexLock lock(mutex_);
  idle_.emplace_back(event);
}

}  // namespace cudaframe::cuda
