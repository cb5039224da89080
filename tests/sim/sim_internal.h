// SPDX-License-Identifier: LGPL-2.1-or-later
// What the simulated libnvcuvid.so.1 needs from the simulated libcuda.so.1. Not for applications.
#pragma once

#include <cuda.h>

#include "cudaframe_sim.h"

extern "C" {

/// Counts a call of `function` (its exported name) and answers what such a call gets before it does
/// anything: a fault that was asked for, a lost device, no current context.
CUDAFRAME_SIM_API CUresult cudaframe_sim_internal_enter(const char* function, int needs_context);

/// Device memory that belongs to a decoder. `reserve` only takes it off the free memory.
CUDAFRAME_SIM_API CUresult cudaframe_sim_internal_alloc(size_t bytes, CUdeviceptr* address);
CUDAFRAME_SIM_API void cudaframe_sim_internal_free(CUdeviceptr address);
/// Between map and unmap the program may use it.
CUDAFRAME_SIM_API void cudaframe_sim_internal_set_mapped(CUdeviceptr address, int is_mapped);
CUDAFRAME_SIM_API CUresult cudaframe_sim_internal_reserve(size_t bytes);
CUDAFRAME_SIM_API void cudaframe_sim_internal_unreserve(size_t bytes);

/// Queues an operation. `destroy(user)` is called exactly once, after `run(user)` or instead of it.
/// Operations with the same `order_key` come one after the other, whatever their streams; an
/// address of decoder memory, which freeing that forgets.
CUDAFRAME_SIM_API CUresult cudaframe_sim_internal_enqueue(CUstream stream, const char* call,
                                                          const cudaframe_sim_access* accesses,
                                                          size_t count, void (*run)(void*),
                                                          void (*destroy)(void*), void* user,
                                                          uintptr_t order_key);
/// Waits until everything that is queued now has run.
CUDAFRAME_SIM_API CUresult cudaframe_sim_internal_drain();

enum cudaframe_sim_object {
  CUDAFRAME_SIM_DECODER,
  CUDAFRAME_SIM_PARSER,
  CUDAFRAME_SIM_MAPPED_SURFACE,
};
CUDAFRAME_SIM_API void cudaframe_sim_internal_count_object(cudaframe_sim_object kind, int change);

/// One line on stderr, prefixed with the simulator's name.
CUDAFRAME_SIM_API void cudaframe_sim_internal_report(const char* format, ...)
    __attribute__((format(printf, 1, 2)));
/// The same for a rule that the program has broken.
CUDAFRAME_SIM_API void cudaframe_sim_internal_violation(const char* format, ...)
    __attribute__((format(printf, 1, 2)));
}
