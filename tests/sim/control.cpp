// SPDX-License-Identifier: LGPL-2.1-or-later
// The simulator's own controls, and the way in for the simulated libnvcuvid.so.1.
#include <cstdarg>
#include <cstdio>
#include <string>

#include "device.h"
#include "sim_internal.h"

using cudaframe::sim::Access;
using cudaframe::sim::CompletionPtr;
using cudaframe::sim::Device;
using cudaframe::sim::Lock;
using cudaframe::sim::MemoryKind;
using cudaframe::sim::Operation;
using cudaframe::sim::StreamPtr;

namespace {

int hold_stream(void* handle, bool hold) {
  Device& device = Device::get();
  Lock lock(device.mutex());
  const StreamPtr stream = device.stream_or_zombie(static_cast<CUstream>(handle));
  if (!stream) return -1;
  device.hold(*stream, hold);
  return 0;
}

}  // namespace

extern "C" {

int cudaframe_sim_block_stream(void* stream) {
  return hold_stream(stream, true);
}

int cudaframe_sim_unblock_stream(void* stream) {
  return hold_stream(stream, false);
}

size_t cudaframe_sim_step_stream(void* handle, size_t count) {
  Device& device = Device::get();
  Lock lock(device.mutex());
  const StreamPtr stream = device.stream_or_zombie(static_cast<CUstream>(handle));
  return stream ? device.step(*stream, count) : 0;
}

size_t cudaframe_sim_queued_operations(void* handle) {
  Device& device = Device::get();
  Lock lock(device.mutex());
  const StreamPtr stream = device.stream_or_zombie(static_cast<CUstream>(handle));
  return stream ? stream->queue.size() : 0;
}

void cudaframe_sim_await_host_waits(size_t count) {
  Device& device = Device::get();
  Lock lock(device.mutex());
  device.await_host_waits(lock, count);
}

void cudaframe_sim_set_device_lost(int lost) {
  Device& device = Device::get();
  Lock lock(device.mutex());
  device.set_lost(lost != 0);
}

void cudaframe_sim_get_live(cudaframe_sim_live* live) {
  if (!live) return;
  Device& device = Device::get();
  Lock lock(device.mutex());
  live->allocations = device.memory.count(MemoryKind::device);
  live->allocation_bytes = device.memory.bytes(MemoryKind::device);
  live->pinned_allocations = device.memory.count(MemoryKind::pinned);
  live->pinned_bytes = device.memory.bytes(MemoryKind::pinned);
  live->streams = device.live_streams();
  live->events = device.live_events();
  live->modules = device.modules.size();
  live->decoders = device.objects[CUDAFRAME_SIM_DECODER];
  live->parsers = device.objects[CUDAFRAME_SIM_PARSER];
  live->mapped_surfaces = device.objects[CUDAFRAME_SIM_MAPPED_SURFACE];
}

CUresult cudaframe_sim_internal_enqueue(CUstream handle, const char* call,
                                        const cudaframe_sim_access* accesses, size_t count,
                                        void (*run)(void*), void (*destroy)(void*), void* user,
                                        uintptr_t order_key) {
  const std::shared_ptr<void> kept(user, destroy);  // before the lock: may be the last to go
  Device& device = Device::get();
  Lock lock(device.mutex());
  const StreamPtr stream = device.stream(handle, call);
  if (!stream) return CUDA_ERROR_INVALID_HANDLE;
  Operation operation{.call = call, .run = [kept, run] { run(kept.get()); }};
  for (size_t i = 0; i < count; ++i) {
    operation.accesses.push_back({accesses[i].address, accesses[i].width_bytes, accesses[i].height,
                                  accesses[i].pitch_bytes, accesses[i].is_write != 0});
  }
  if (order_key != 0) {
    CompletionPtr& last = device.last_of(order_key);
    if (last) operation.after.push_back(last);
    last = operation.completion;
  }
  return device.enqueue(*stream, std::move(operation));
}

CUresult cudaframe_sim_internal_drain() {
  Device& device = Device::get();
  Lock lock(device.mutex());
  return device.drain(lock);
}

void cudaframe_sim_internal_count_object(cudaframe_sim_object kind, int change) {
  Device& device = Device::get();
  Lock lock(device.mutex());
  device.objects[kind] += static_cast<size_t>(change);
}

void cudaframe_sim_internal_report(const char* format, ...) {
  char text[512];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  cudaframe::sim::report("%s", text);
}

void cudaframe_sim_internal_violation(const char* format, ...) {
  char text[512];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  cudaframe::sim::violation("%s", text);
}

int cudaframe_sim_set_mode(const char* mode) {
  Device& device = Device::get();
  Lock lock(device.mutex());
  return device.set_mode(lock, mode) ? 0 : -1;
}

int cudaframe_sim_checks_order() {
  Device& device = Device::get();
  Lock lock(device.mutex());
  return device.checker().is_on();
}

size_t cudaframe_sim_violation_count() {
  return cudaframe::sim::violation_count();
}

size_t cudaframe_sim_take_violations(char* text, size_t size) {
  size_t count = 0;
  const std::string texts = cudaframe::sim::take_violations(&count);
  if (text && size > 0) snprintf(text, size, "%s", texts.c_str());
  return count;
}
}
