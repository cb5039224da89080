// SPDX-License-Identifier: LGPL-2.1-or-later
#include "violations.h"

#include <atomic>
#include <cstdarg>
#include <cstdio>
#include <mutex>
#include <utility>

namespace cudaframe::sim {
namespace {

constexpr size_t kMostTexts = 20;  // the first ones tell the most

std::atomic<size_t> violations_kept{0};

/// A leaf lock: reports are made with and without the device's.
struct Violations {
  std::mutex mutex;
  bool is_counting = false;
  std::string texts;

  static Violations& get() {
    static auto* const violations = new Violations;
    return *violations;
  }
};

std::string formatted(const char* format, va_list arguments) {
  char text[4096];
  vsnprintf(text, sizeof text, format, arguments);
  return text;
}

}  // namespace

void report(const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  const std::string text = formatted(format, arguments);
  va_end(arguments);
  fprintf(stderr, "cudaframe-sim: %s\n", text.c_str());
}

void violation(const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  const std::string text = formatted(format, arguments);
  va_end(arguments);
  Violations& all = Violations::get();
  const std::lock_guard<std::mutex> lock(all.mutex);
  if (all.is_counting && ++violations_kept > kMostTexts) return;
  if (all.is_counting) all.texts += text + "\n";
  fprintf(stderr, "cudaframe-sim: %s\n", text.c_str());
}

void count_violations(bool count) {
  const std::lock_guard<std::mutex> lock(Violations::get().mutex);
  Violations::get().is_counting = count;
}

size_t violation_count() {
  return violations_kept;
}

std::string take_violations(size_t* count) {
  Violations& all = Violations::get();
  const std::lock_guard<std::mutex> lock(all.mutex);
  *count = violations_kept.exchange(0);
  return std::exchange(all.texts, {});
}

}  // namespace cudaframe::sim
