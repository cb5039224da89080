// SPDX-License-Identifier: LGPL-2.1-or-later
#include "base/log.h"

#include <atomic>
#include <cstdarg>
#include <cstdio>

namespace cudaframe {
namespace {

std::atomic<LogSink> current_sink{nullptr};

}  // namespace

void set_log_sink(LogSink sink) noexcept {
  current_sink.store(sink, std::memory_order_release);
}

void log(LogLevel level, const char* component, const char* format, ...) noexcept {
  const LogSink sink = current_sink.load(std::memory_order_acquire);
  if (!sink) return;
  char message[512];
  va_list args;
  va_start(args, format);
  std::vsnprintf(message, sizeof message, format, args);
  va_end(args);
  sink(level, component, message);
}

}  // namespace cudaframe
