// SPDX-License-Identifier: LGPL-2.1-or-later
// The one simulated device: its streams, events, memory and whether it still works.
#pragma once

#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "cudaframe_sim.h"
#include "memory.h"
#include "operation.h"
#include "order_checker.h"
#include "scheduler.h"
#include "violations.h"

namespace cudaframe::sim {

using Lock = std::unique_lock<std::mutex>;

struct EventState {
  CompletionPtr recorded;  ///< null: never recorded, which counts as done
};

struct KernelTwin {
  cudaframe_sim_kernel_run run = nullptr;
  cudaframe_sim_kernel_access access = nullptr;
  std::vector<size_t> param_sizes;
};

struct ModuleState {
  std::map<std::string, CUfunction> functions;
};

/// Lives until the process ends. Everything is guarded by mutex(); functions that take a Lock may
/// release it while they wait. Operations run with the mutex held.
class Device {
 public:
  static Device& get();

  std::mutex& mutex() { return mutex_; }

  // --- life
  /// What cuInit answers.
  CUresult initialise();
  /// False for a mode that does not exist.
  bool set_mode(Lock& lock, const char* mode);
  bool is_initialised() const { return scheduler_ != nullptr; }
  CUresult lost() const { return lost_; }
  void set_lost(bool lost);

  CUcontext primary() const;
  bool is_context(CUcontext context) const { return context == primary() && context_users > 0; }
  /// Waits for all work and drops everything the context owned.
  void destroy_context(Lock& lock);

  // --- streams
  StreamPtr add_stream(bool is_blocking);
  /// Null, after a report, for a handle that is not (or no longer) a stream's.
  StreamPtr stream(CUstream handle, const char* call);
  /// Also finds streams that were destroyed while they had work; reports nothing.
  StreamPtr stream_or_zombie(CUstream handle);
  bool remove_stream(CUstream handle);

  /// Puts an operation on a stream and lets the scheduler act. Returns lost().
  CUresult enqueue(StreamState& stream, Operation operation);
  /// Blocks until it is done; the host then knows. Returns lost().
  CUresult wait(Lock& lock, const CompletionPtr& completion);
  /// Blocks until all that is queued has run; the host then knows.
  CUresult synchronize(Lock& lock);
  /// Blocks until all that is queued has run. Nobody may rely on that: it is a side effect.
  CUresult drain(Lock& lock);
  /// Whether it is done, and if so, the host knows. If not, polling may make it happen later.
  bool poll(const CompletionPtr& completion);
  bool poll_blocking_streams();
  /// Something that threads may be waiting for has changed.
  void changed() { changed_.notify_all(); }
  void hold(StreamState& stream, bool hold);
  size_t step(StreamState& stream, size_t count);
  void await_host_waits(Lock& lock, size_t count);

  // --- for schedulers
  Scheduler& scheduler() { return *scheduler_; }
  size_t stream_count() const { return streams_.size(); }
  /// Runs the first operation of the i-th stream, if it may run.
  bool run_next(size_t index);
  /// Runs one operation that this, which is not done, needs. False when a held stream is in the
  /// way.
  bool run_one_for(const CompletionPtr& completion);

  // --- events
  CUevent add_event();
  EventState* event(CUevent handle, const char* call);
  bool remove_event(CUevent handle) { return events_.erase(handle) != 0; }

  /// A handle that no object has had before, so that a stale one is always noticed.
  void* new_handle();

  size_t live_streams() const { return stream_handles_.size(); }
  size_t live_events() const { return events_.size(); }

  OrderChecker& checker() { return checker_; }
  /// Operations with the same key (not 0) come one after the other, whatever their streams.
  CompletionPtr& last_of(uintptr_t order_key) { return ordered_[order_key]; }
  void forget_order(uintptr_t order_key) { ordered_.erase(order_key); }

  MemoryRegistry memory;
  unsigned context_users = 0;  ///< cuDevicePrimaryCtxRetain without a release
  std::unordered_map<CUmodule, ModuleState> modules;
  std::unordered_map<CUfunction, KernelTwin> functions;
  std::map<std::string, KernelTwin> twins;
  size_t objects[3] = {};  ///< by cudaframe_sim_object

 private:
  Device();
  void use(std::unique_ptr<Scheduler> scheduler);
  bool may_run(const StreamState& stream) const;
  bool run_next(StreamState& stream);
  void block_until_done(Lock& lock, const CompletionPtr& completion);
  bool check_accesses(const Operation& operation);
  void forget_drained_streams();
  std::vector<CompletionPtr> last_of_all_streams() const;

  std::mutex mutex_;
  std::condition_variable changed_;
  std::unique_ptr<Scheduler> scheduler_;
  OrderChecker checker_;
  std::unordered_map<uintptr_t, CompletionPtr> ordered_;
  uint32_t next_stream_id_ = 0;
  CUresult lost_ = CUDA_SUCCESS;
  size_t host_waits_ = 0;
  uintptr_t next_handle_ = 0x10000;
  StreamPtr legacy_;
  /// All that may have work: the legacy stream first, destroyed ones until they are empty.
  std::vector<StreamPtr> streams_;
  std::unordered_map<CUstream, StreamPtr> stream_handles_;
  std::unordered_map<CUevent, EventState> events_;
};

}  // namespace cudaframe::sim
