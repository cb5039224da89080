// SPDX-License-Identifier: LGPL-2.1-or-later
#include "device.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>

namespace cudaframe::sim {
namespace {

constexpr size_t kDefaultMemory = size_t{4} << 30;

size_t configured_memory() {
  const char* text = getenv("CUDAFRAME_SIM_MEMORY");
  if (!text || !*text) return kDefaultMemory;
  char* end = nullptr;
  const unsigned long long bytes = strtoull(text, &end, 10);
  if (*end || bytes == 0) {
    report("CUDAFRAME_SIM_MEMORY=%s is no number of bytes: taking the default", text);
    return kDefaultMemory;
  }
  return bytes;
}

}  // namespace

Device& Device::get() {
  static auto* const device = new Device;  // never destroyed: calls may come until the very end
  return *device;
}

Device::Device() : memory(configured_memory()), legacy_(std::make_shared<StreamState>()) {
  legacy_->is_legacy = true;
  streams_.push_back(legacy_);
}

CUresult Device::initialise() {
  if (scheduler_) return CUDA_SUCCESS;
  const char* mode = getenv("CUDAFRAME_SIM");
  auto scheduler = make_scheduler(mode);
  if (!scheduler) {
    report("CUDAFRAME_SIM=%s is no mode of this simulator: say eager, lazy or shuffled:SEED", mode);
    return CUDA_ERROR_SYSTEM_NOT_READY;
  }
  if (scheduler->checks_order()) report("mode %s: the order of all work is checked", mode);
  use(std::move(scheduler));
  return CUDA_SUCCESS;
}

bool Device::set_mode(Lock& lock, const char* mode) {
  auto scheduler = make_scheduler(mode);
  if (!scheduler) return false;
  if (scheduler_) synchronize(lock);
  use(std::move(scheduler));
  return true;
}

void Device::use(std::unique_ptr<Scheduler> scheduler) {
  checker_.turn(scheduler->checks_order());
  count_violations(scheduler->checks_order());
  scheduler_ = std::move(scheduler);
}

CUcontext Device::primary() const {
  return reinterpret_cast<CUcontext>(const_cast<Device*>(this));  // any address that is ours
}

void* Device::new_handle() {
  next_handle_ += 16;
  return reinterpret_cast<void*>(next_handle_);
}

void Device::set_lost(bool lost) {
  lost_ = lost ? CUDA_ERROR_ILLEGAL_ADDRESS : CUDA_SUCCESS;
  if (lost) {
    for (const StreamPtr& stream : streams_) {
      for (Operation& operation : stream->queue) operation.completion->done = true;
      stream->queue.clear();
    }
    forget_drained_streams();
  }
  changed();
}

void Device::destroy_context(Lock& lock) {
  const bool is_busy = std::any_of(streams_.begin(), streams_.end(),
                                   [](const StreamPtr& stream) { return !stream->queue.empty(); });
  if (checker_.is_on() && is_busy) violation("the context is destroyed with work queued");
  drain(lock);
  stream_handles_.clear();
  events_.clear();
  modules.clear();
  functions.clear();
  streams_.assign(1, legacy_);
  memory.release_all();
  lost_ = CUDA_SUCCESS;  // the sticky error dies with its context
}

StreamPtr Device::add_stream(bool is_blocking) {
  auto stream = std::make_shared<StreamState>();
  stream->handle = static_cast<CUstream>(new_handle());
  stream->id = ++next_stream_id_;
  stream->is_blocking = is_blocking;
  streams_.push_back(stream);
  stream_handles_[stream->handle] = stream;
  return stream;
}

StreamPtr Device::stream(CUstream handle, const char* call) {
  if (!handle || handle == CU_STREAM_LEGACY) return legacy_;
  const auto found = stream_handles_.find(handle);
  if (found != stream_handles_.end()) return found->second;
  if (handle == CU_STREAM_PER_THREAD) {
    report("%s: per-thread default streams are not simulated", call);
  } else {
    violation("%s: %p is no stream, or was destroyed\n    called from %s", call,
              static_cast<void*>(handle), CallSite::capture().text().c_str());
  }
  return nullptr;
}

StreamPtr Device::stream_or_zombie(CUstream handle) {
  if (!handle || handle == CU_STREAM_LEGACY) return legacy_;
  for (const StreamPtr& stream : streams_) {
    if (stream->handle == handle) return stream;
  }
  return nullptr;
}

bool Device::remove_stream(CUstream handle) {
  if (stream_handles_.erase(handle) == 0) return false;
  forget_drained_streams();
  return true;
}

void Device::forget_drained_streams() {
  const auto is_over = [this](const StreamPtr& stream) {
    return !stream->is_legacy && stream->queue.empty() && !stream_handles_.count(stream->handle);
  };
  streams_.erase(std::remove_if(streams_.begin(), streams_.end(), is_over), streams_.end());
}

CUresult Device::enqueue(StreamState& stream, Operation operation) {
  if (lost_ != CUDA_SUCCESS) return lost_;
  // The legacy stream comes after all blocking streams' work so far, and before what they get
  // later.
  if (stream.is_legacy) {
    for (const StreamPtr& other : streams_) {
      if (!other->is_legacy && other->is_blocking && other->last) {
        operation.after.push_back(other->last);
      }
    }
  } else if (stream.is_blocking && legacy_->last) {
    operation.after.push_back(legacy_->last);
  }
  checker_.queued(stream, operation, memory);
  stream.last = operation.completion;
  operation.completion->stream = &stream;
  stream.queue.push_back(std::move(operation));
  scheduler_->queued(*this, stream);
  forget_drained_streams();
  return lost_;
}

bool Device::may_run(const StreamState& stream) const {
  if (stream.queue.empty() || (stream.is_held && stream.steps == 0)) return false;
  const auto& after = stream.queue.front().after;
  return std::all_of(after.begin(), after.end(), [](const auto& before) { return before->done; });
}

bool Device::run_next(size_t index) {
  return index < streams_.size() && run_next(*streams_[index]);
}

bool Device::run_one_for(const CompletionPtr& completion) {
  const Completion* needed = completion.get();
  while (true) {
    StreamState& stream = *needed->stream;
    if (may_run(stream)) return run_next(stream);
    const auto& after = stream.queue.front().after;
    const auto missing = std::find_if(after.begin(), after.end(),
                                      [](const CompletionPtr& before) { return !before->done; });
    if (missing == after.end()) return false;
    needed = missing->get();
  }
}

bool Device::run_next(StreamState& stream) {
  if (!may_run(stream)) return false;
  if (stream.is_held) --stream.steps;
  Operation operation = std::move(stream.queue.front());
  stream.queue.pop_front();
  if (!check_accesses(operation)) {
    operation.completion->done = true;
    set_lost(true);
    return false;
  }
  if (operation.run) operation.run();
  operation.completion->done = true;
  changed();
  return true;
}

bool Device::check_accesses(const Operation& operation) {
  for (const Access& access : operation.accesses) {
    if (!access.is_registered || access.width == 0 || access.height == 0) continue;
    const size_t size = access.pitch * (access.height - 1) + access.width;
    if (memory.find(access.address, size)) continue;
    report("%s %s 0x%zx + %zu bytes, which is not inside a live allocation: the device is lost",
           operation.call, access.is_write ? "writes" : "reads",
           static_cast<size_t>(access.address), size);
    return false;
  }
  return true;
}

void Device::block_until_done(Lock& lock, const CompletionPtr& completion) {
  if (!completion || completion->done) return;
  scheduler_->host_waits(*this, completion);
  if (completion->done) return;
  ++host_waits_;
  changed();  // for those who wait for somebody to wait
  while (!completion->done) {
    changed_.wait(lock);
    if (!completion->done) scheduler_->host_waits(*this, completion);
  }
  --host_waits_;
}

CUresult Device::wait(Lock& lock, const CompletionPtr& completion) {
  block_until_done(lock, completion);
  if (completion) checker_.host_knows(*completion);
  return lost_;
}

std::vector<CompletionPtr> Device::last_of_all_streams() const {
  std::vector<CompletionPtr> last;
  for (const StreamPtr& stream : streams_) last.push_back(stream->last);
  return last;
}

CUresult Device::synchronize(Lock& lock) {
  for (const CompletionPtr& completion : last_of_all_streams()) wait(lock, completion);
  forget_drained_streams();
  return lost_;
}

CUresult Device::drain(Lock& lock) {
  for (const CompletionPtr& completion : last_of_all_streams()) block_until_done(lock, completion);
  forget_drained_streams();
  return lost_;
}

bool Device::poll(const CompletionPtr& completion) {
  if (!completion) return true;
  if (completion->done) {
    checker_.host_knows(*completion);
    return true;
  }
  scheduler_->polled(*this, completion);
  return false;
}

bool Device::poll_blocking_streams() {
  for (const StreamPtr& stream : streams_) {
    if (!stream->is_legacy && !stream->is_blocking) continue;
    if (!stream->queue.empty()) {
      scheduler_->polled(*this, nullptr);
      return false;
    }
  }
  for (const StreamPtr& stream : streams_) {
    if ((stream->is_legacy || stream->is_blocking) && stream->last) {
      checker_.host_knows(*stream->last);
    }
  }
  return true;
}

void Device::hold(StreamState& stream, bool hold) {
  stream.is_held = hold;
  stream.steps = 0;
  if (!hold && scheduler_) scheduler_->queued(*this, stream);
  changed();
  forget_drained_streams();
}

size_t Device::step(StreamState& stream, size_t count) {
  if (!stream.is_held || !scheduler_) return 0;
  const size_t before = stream.queue.size();
  stream.steps = count;
  while (stream.steps > 0 && run_next(stream)) {
  }
  scheduler_->queued(*this, stream);
  stream.steps = 0;
  const size_t ran = before - stream.queue.size();
  forget_drained_streams();
  return ran;
}

void Device::await_host_waits(Lock& lock, size_t count) {
  changed_.wait(lock, [this, count] { return host_waits_ >= count; });
}

CUevent Device::add_event() {
  const auto handle = static_cast<CUevent>(new_handle());
  events_[handle] = {};
  return handle;
}

EventState* Device::event(CUevent handle, const char* call) {
  const auto found = events_.find(handle);
  if (found != events_.end()) return &found->second;
  violation("%s: %p is no event, or was destroyed\n    called from %s", call,
            static_cast<void*>(handle), CallSite::capture().text().c_str());
  return nullptr;
}

}  // namespace cudaframe::sim
