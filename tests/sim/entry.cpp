// SPDX-License-Identifier: LGPL-2.1-or-later
#include "entry.h"

#include <unistd.h>

#include <cctype>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "sim_internal.h"

namespace cudaframe::sim {
namespace {

struct Fault {
  unsigned countdown = 0;
  CUresult result = CUDA_SUCCESS;
};

/// Guarded by the device's mutex; never destroyed.
struct Calls {
  std::map<std::string, uint64_t> counts;
  std::map<std::string, Fault> faults;

  Calls() { read_environment(); }

  static Calls& get() {
    static auto* const calls = new Calls;
    return *calls;
  }

  void fail(const std::string& name, unsigned nth, int result) {
    if (nth == 0) {
      faults.erase(name);
      return;
    }
    if (result == 0) {
      result = name == "cuvidParseVideoData" ? CUDA_ERROR_UNKNOWN : CUDA_ERROR_OUT_OF_MEMORY;
    }
    faults[name] = {nth, static_cast<CUresult>(result)};
  }

 private:
  // name:nth[:result], separated by commas
  void read_environment() {
    const char* text = getenv("CUDAFRAME_SIM_FAIL");
    while (text && *text) {
      const std::string entry(text, strcspn(text, ","));
      text += entry.size();
      if (*text == ',') ++text;
      char name[64];
      unsigned nth = 0;
      int result = 0;
      if (sscanf(entry.c_str(), "%63[A-Za-z0-9]:%u:%d", name, &nth, &result) < 2 || nth == 0) {
        report("CUDAFRAME_SIM_FAIL: \"%s\" is not NAME:NTH or NAME:NTH:RESULT", entry.c_str());
        continue;
      }
      fail(name, nth, result);
    }
  }
};

constexpr int kViolationStatus = 86;

/// CUDAFRAME_SIM_COUNTS=1: one line per entry point that was called.
void print_counts() {
  const char* wanted = getenv("CUDAFRAME_SIM_COUNTS");
  if (!wanted || strcmp(wanted, "1") != 0) return;
  Lock lock(Device::get().mutex());
  for (const auto& [name, count] : Calls::get().counts) {
    fprintf(stderr, "%s %llu\n", name.c_str(), static_cast<unsigned long long>(count));
  }
}

/// A program that broke a rule does not succeed, whatever it says itself.
__attribute__((destructor)) void finish() {
  print_counts();
  const size_t violations = violation_count();
  if (violations == 0) return;
  report("%zu violation(s) of the order of work or of the driver's rules", violations);
  fflush(nullptr);
  _exit(kViolationStatus);
}

CUresult check_needs(const Device& device, Needs needs) {
  if (needs == Needs::nothing) return CUDA_SUCCESS;
  if (!device.is_initialised()) return CUDA_ERROR_NOT_INITIALIZED;
  if (needs == Needs::init || needs == Needs::release) return CUDA_SUCCESS;
  if (needs == Needs::context) {
    if (context_stack().empty()) return CUDA_ERROR_INVALID_CONTEXT;
    if (!device.is_context(context_stack().back())) return CUDA_ERROR_CONTEXT_IS_DESTROYED;
  }
  return device.lost();
}

}  // namespace

std::vector<CUcontext>& context_stack() {
  static thread_local std::vector<CUcontext> stack;
  return stack;
}

const char* plain_name(const char* function) {
  static std::mutex mutex;
  static auto* const names = new std::map<std::string, std::string>;
  const std::lock_guard<std::mutex> lock(mutex);
  auto& plain = (*names)[function];
  if (plain.empty()) {
    plain = function;
    const size_t version = plain.rfind("_v");
    if (version != std::string::npos && version + 3 == plain.size()) plain.resize(version);
    if (plain.size() > 2 && plain.compare(plain.size() - 2, 2, "64") == 0) {
      plain.resize(plain.size() - 2);
    }
  }
  return plain.c_str();
}

CUresult count_call(const char* plain) {
  Calls& calls = Calls::get();
  ++calls.counts[plain];
  if (calls.faults.empty()) return CUDA_SUCCESS;
  const auto fault = calls.faults.find(plain);
  if (fault == calls.faults.end() || --fault->second.countdown > 0) return CUDA_SUCCESS;
  const CUresult result = fault->second.result;
  calls.faults.erase(fault);
  return result;
}

Call::Call(const char* function, Needs needs)
    : device_(Device::get()), name_(function), lock_(device_.mutex()) {
  refused_ = count_call(function);
  if (refused_ == CUDA_SUCCESS) refused_ = check_needs(device_, needs);
  if (refused_ == CUDA_ERROR_INVALID_CONTEXT && device_.checker().is_on()) {
    violation("%s: no context is current\n    called from %s", name_,
              CallSite::capture().text().c_str());
  }
}

}  // namespace cudaframe::sim

using cudaframe::sim::Calls;
using cudaframe::sim::Device;
using cudaframe::sim::Lock;

extern "C" {

CUresult cudaframe_sim_internal_enter(const char* function, int needs_context) {
  using cudaframe::sim::Needs;
  const cudaframe::sim::Call call(cudaframe::sim::plain_name(function),
                                  needs_context ? Needs::context : Needs::nothing);
  return call.refused();
}

void cudaframe_sim_fail_call(const char* call, unsigned nth, int result) {
  if (!call) return;
  Lock lock(Device::get().mutex());
  Calls::get().fail(cudaframe::sim::plain_name(call), nth, result);
}

uint64_t cudaframe_sim_call_count(const char* call) {
  if (!call) return 0;
  Lock lock(Device::get().mutex());
  const auto& counts = Calls::get().counts;
  const auto found = counts.find(cudaframe::sim::plain_name(call));
  return found == counts.end() ? 0 : found->second;
}

void cudaframe_sim_reset_counts() {
  Lock lock(Device::get().mutex());
  Calls::get().counts.clear();
}
}
