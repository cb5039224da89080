// SPDX-License-Identifier: LGPL-2.1-or-later
// A device's primary context, retained once per process and shared by everything here.
#pragma once

#include <memory>
#include <string>

#include "base/result.h"
#include "cuda/driver.h"

namespace cudaframe::cuda {

class EventPool;

/// The primary context of one device: the one that PyTorch, CuPy and the runtime API live in.
/// Thread-safe. Made on first use and kept until the process ends: making it again costs 0.1 s,
/// and frames may outlive every element.
class Context {
 public:
  /// The context of device `ordinal`; -1 means device 0. not_supported when there is no driver or
  /// no such device. The same pointer for the same device, always.
  static Result<Context*> for_device(int ordinal);

  const Driver& driver() const noexcept { return driver_; }
  CUcontext handle() const noexcept { return handle_; }
  int ordinal() const noexcept { return ordinal_; }
  /// As the driver names it: "NVIDIA H200".
  const std::string& device_name() const noexcept { return device_name_; }
  EventPool& events() const noexcept { return *events_; }

  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

 private:
  Context(const Driver& driver, CUcontext handle, int ordinal, std::string device_name);
  ~Context() = delete;  // process lifetime

  static Result<Context*> create(int ordinal);

  const Driver& driver_;
  const CUcontext handle_;
  const int ordinal_;
  const std::string device_name_;
  EventPool* const events_;
};

/// Makes a context current on this thread for a scope. Thread-bound; never held across a call
/// that leaves this library (a pad push).
class ContextScope {
 public:
  explicit ContextScope(const Context& context);
  ~ContextScope();
  ContextScope(const ContextScope&) = delete;
  ContextScope& operator=(const ContextScope&) = delete;

  /// Whether the push worked; the calls inside would fail otherwise, with less to say.
  const Status& status() const noexcept { return status_; }

 private:
  const Context& context_;
  Status status_;
};

}  // namespace cudaframe::cuda
