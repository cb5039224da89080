// SPDX-License-Identifier: LGPL-2.1-or-later
// Driver API: streams and events.
#include "entry.h"

using cudaframe::sim::CompletionPtr;
using cudaframe::sim::EventState;
using cudaframe::sim::Operation;
using cudaframe::sim::StreamPtr;

namespace {

CUresult ready_or_not(bool is_done) {
  return is_done ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}

}  // namespace

CUDAFRAME_SIM_EXPORT CUresult cuStreamCreate(CUstream* stream, unsigned flags) {
  CUDAFRAME_SIM_CALL(context);
  if (!stream || (flags & ~static_cast<unsigned>(CU_STREAM_NON_BLOCKING))) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  *stream = device.add_stream(!(flags & CU_STREAM_NON_BLOCKING))->handle;
  return CUDA_SUCCESS;
}

CUDAFRAME_SIM_EXPORT CUresult cuStreamCreateWithPriority(CUstream* stream, unsigned flags, int) {
  CUDAFRAME_SIM_CALL(context);
  if (!stream || (flags & ~static_cast<unsigned>(CU_STREAM_NON_BLOCKING))) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  *stream = device.add_stream(!(flags & CU_STREAM_NON_BLOCKING))->handle;
  return CUDA_SUCCESS;
}

// Legal with work queued: that still runs.
CUDAFRAME_SIM_EXPORT CUresult cuStreamDestroy(CUstream handle) {
  CUDAFRAME_SIM_CALL(release);
  const StreamPtr stream = device.stream(handle, call.name());
  if (!stream || stream->is_legacy) return CUDA_ERROR_INVALID_HANDLE;
  device.remove_stream(handle);
  return device.lost();
}

CUDAFRAME_SIM_EXPORT CUresult cuStreamSynchronize(CUstream handle) {
  CUDAFRAME_SIM_STREAM_CALL(handle);
  const StreamPtr stream = device.stream(handle, call.name());
  if (!stream) return CUDA_ERROR_INVALID_HANDLE;
  if (!stream->is_legacy) return device.wait(call.lock(), stream->last);
  // The legacy stream stands for all blocking streams: a marker comes after their work.
  Operation marker{.call = call.name()};
  const CompletionPtr done = marker.completion;
  if (const CUresult result = device.enqueue(*stream, std::move(marker))) return result;
  return device.wait(call.lock(), done);
}

CUDAFRAME_SIM_EXPORT CUresult cuStreamQuery(CUstream handle) {
  CUDAFRAME_SIM_STREAM_CALL(handle);
  const StreamPtr stream = device.stream(handle, call.name());
  if (!stream) return CUDA_ERROR_INVALID_HANDLE;
  if (stream->is_legacy) return ready_or_not(device.poll_blocking_streams());
  const CompletionPtr last = stream->last;
  return ready_or_not(device.poll(last));
}

CUDAFRAME_SIM_EXPORT CUresult cuStreamGetCtx(CUstream handle, CUcontext* context) {
  CUDAFRAME_SIM_STREAM_CALL(handle);
  if (!context) return CUDA_ERROR_INVALID_VALUE;
  if (!device.stream(handle, call.name())) return CUDA_ERROR_INVALID_HANDLE;
  *context = device.primary();
  return CUDA_SUCCESS;
}

CUDAFRAME_SIM_EXPORT CUresult cuStreamGetFlags(CUstream handle, unsigned* flags) {
  CUDAFRAME_SIM_STREAM_CALL(handle);
  if (!flags) return CUDA_ERROR_INVALID_VALUE;
  const StreamPtr stream = device.stream(handle, call.name());
  if (!stream) return CUDA_ERROR_INVALID_HANDLE;
  *flags = stream->is_blocking ? CU_STREAM_DEFAULT : CU_STREAM_NON_BLOCKING;
  return CUDA_SUCCESS;
}

CUDAFRAME_SIM_EXPORT CUresult cuStreamWaitEvent(CUstream handle, CUevent event, unsigned) {
  CUDAFRAME_SIM_STREAM_CALL(handle);
  const StreamPtr stream = device.stream(handle, call.name());
  const EventState* state = device.event(event, call.name());
  if (!stream || !state) return CUDA_ERROR_INVALID_HANDLE;
  if (!state->recorded) return CUDA_SUCCESS;
  Operation wait{.call = call.name()};
  wait.after.push_back(state->recorded);
  return device.enqueue(*stream, std::move(wait));
}

CUDAFRAME_SIM_EXPORT CUresult cuEventCreate(CUevent* event, unsigned) {
  CUDAFRAME_SIM_CALL(context);
  if (!event) return CUDA_ERROR_INVALID_VALUE;
  *event = device.add_event();
  return CUDA_SUCCESS;
}

CUDAFRAME_SIM_EXPORT CUresult cuEventDestroy(CUevent event) {
  CUDAFRAME_SIM_CALL(release);
  if (!device.event(event, call.name())) return CUDA_ERROR_INVALID_HANDLE;
  device.remove_event(event);
  return device.lost();
}

CUDAFRAME_SIM_EXPORT CUresult cuEventRecord(CUevent event, CUstream handle) {
  CUDAFRAME_SIM_STREAM_CALL(handle);
  const StreamPtr stream = device.stream(handle, call.name());
  EventState* state = device.event(event, call.name());
  if (!stream || !state) return CUDA_ERROR_INVALID_HANDLE;
  Operation record{.call = call.name()};
  state->recorded = record.completion;
  return device.enqueue(*stream, std::move(record));
}

CUDAFRAME_SIM_EXPORT CUresult cuEventQuery(CUevent event) {
  CUDAFRAME_SIM_CALL(device);
  const EventState* state = device.event(event, call.name());
  if (!state) return CUDA_ERROR_INVALID_HANDLE;
  const CompletionPtr recorded = state->recorded;
  return ready_or_not(device.poll(recorded));
}

CUDAFRAME_SIM_EXPORT CUresult cuEventSynchronize(CUevent event) {
  CUDAFRAME_SIM_CALL(device);
  const EventState* state = device.event(event, call.name());
  if (!state) return CUDA_ERROR_INVALID_HANDLE;
  // A copy: the event may be recorded again or destroyed while this thread waits.
  const CompletionPtr recorded = state->recorded;
  return device.wait(call.lock(), recorded);
}
