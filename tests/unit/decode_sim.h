// SPDX-License-Identifier: LGPL-2.1-or-later
// The simulated device's controls, looked up in the libcuda.so.1 that the product has loaded.
#pragma once

#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>

#include "cudaframe_sim.h"

namespace cudaframe::test {

inline void* sim_symbol(const char* name) {
  static void* const library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  void* symbol = library ? dlsym(library, name) : nullptr;
  if (!symbol) {
    std::fprintf(stderr, "%s: this test runs on the simulated device only\n", name);
    std::abort();
  }
  return symbol;
}

#define CUDAFRAME_SIM(name) (reinterpret_cast<decltype(&::name)>(sim_symbol(#name)))

inline cudaframe_sim_live sim_live() {
  cudaframe_sim_live live{};
  CUDAFRAME_SIM(cudaframe_sim_get_live)(&live);
  return live;
}

inline std::uint64_t sim_calls(const char* call) {
  return CUDAFRAME_SIM(cudaframe_sim_call_count)(call);
}

inline void sim_fail(const char* call, unsigned nth, int result) {
  CUDAFRAME_SIM(cudaframe_sim_fail_call)(call, nth, result);
}

}  // namespace cudaframe::test
