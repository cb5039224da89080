// SPDX-License-Identifier: LGPL-2.1-or-later
// A mutex and a condition that clang's -Wthread-safety understands. g++ ignores the attributes.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>

#if defined(__clang__)
#define CUDAFRAME_TSA(x) __attribute__((x))
#else
#define CUDAFRAME_TSA(x)
#endif

#define GUARDED_BY(x) CUDAFRAME_TSA(guarded_by(x))
#define REQUIRES(...) CUDAFRAME_TSA(requires_capability(__VA_ARGS__))
#define EXCLUDES(...) CUDAFRAME_TSA(locks_excluded(__VA_ARGS__))

namespace cudaframe {

class CUDAFRAME_TSA(capability("mutex")) Mutex {
 public:
  Mutex() = default;
  Mutex(const Mutex&) = delete;
  Mutex& operator=(const Mutex&) = delete;

  void lock() CUDAFRAME_TSA(acquire_capability()) { mutex_.lock(); }
  void unlock() CUDAFRAME_TSA(release_capability()) { mutex_.unlock(); }
  std::mutex& native() { return mutex_; }

 private:
  std::mutex mutex_;
};

/// Locks for a scope; may be dropped and taken again inside it.
class CUDAFRAME_TSA(scoped_lockable) MutexLock {
 public:
  explicit MutexLock(Mutex& mutex) CUDAFRAME_TSA(acquire_capability(mutex)) : mutex_(mutex) {
    mutex_.lock();
  }
  ~MutexLock() CUDAFRAME_TSA(release_capability()) {
    if (locked_) mutex_.unlock();
  }
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;

  void unlock() CUDAFRAME_TSA(release_capability()) {
    mutex_.unlock();
    locked_ = false;
  }
  void lock() CUDAFRAME_TSA(acquire_capability()) {
    mutex_.lock();
    locked_ = true;
  }

 private:
  Mutex& mutex_;
  bool locked_ = true;
};

/// Waits come back spuriously too: always loop over the predicate, which includes "flushing".
class Condition {
 public:
  void wait(Mutex& mutex) REQUIRES(mutex) {
    std::unique_lock<std::mutex> lock(mutex.native(), std::adopt_lock);
    condition_.wait(lock);
    lock.release();
  }
  /// False when the time is up.
  bool wait_until(Mutex& mutex, std::chrono::steady_clock::time_point deadline) REQUIRES(mutex) {
    std::unique_lock<std::mutex> lock(mutex.native(), std::adopt_lock);
    const bool in_time = condition_.wait_until(lock, deadline) == std::cv_status::no_timeout;
    lock.release();
    return in_time;
  }
  void notify_all() noexcept { condition_.notify_all(); }

 private:
  std::condition_variable condition_;
};

}  // namespace cudaframe
