// SPDX-License-Identifier: LGPL-2.1-or-later
// The simulated NVIDIA device's own controls: kernel twins, holding streams, faults and counts.
//
// Plain C. Exported by the simulator's libcuda.so.1; programs that also run on a real device look
// the functions up with dlsym() and find nothing there. Thread-safe unless said otherwise. Streams
// are CUstream handles; NULL and CU_STREAM_LEGACY name the legacy default stream.
#pragma once

#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#define CUDAFRAME_SIM_API __attribute__((visibility("default")))
#else
#define CUDAFRAME_SIM_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

/// One launch. `params[i]` points to the i-th parameter's value as it was at cuLaunchKernel.
typedef struct cudaframe_sim_launch {
  unsigned grid_x, grid_y, grid_z;
  unsigned block_x, block_y, block_z;
  unsigned shared_bytes;
  const void* const* params;
} cudaframe_sim_launch;

/// Bytes that a kernel touches: `height` rows of `width_bytes`, `pitch_bytes` apart.
typedef struct cudaframe_sim_access {
  uint64_t address;
  uint64_t width_bytes;
  uint64_t height;
  uint64_t pitch_bytes;
  int is_write;
} cudaframe_sim_access;

/// The twin's body: does what the whole grid does. Device addresses are host addresses. Must not
/// call the driver.
typedef void (*cudaframe_sim_kernel_run)(const cudaframe_sim_launch* launch);

/// Writes at most `capacity` accesses and returns how many there are; called again with more room
/// when that is more than `capacity`.
typedef size_t (*cudaframe_sim_kernel_access)(const cudaframe_sim_launch* launch,
                                              cudaframe_sim_access* accesses, size_t capacity);

/// Makes cuModuleGetFunction find `name`. `access` may be NULL: the kernel's addresses then go
/// unchecked. Registering a name again replaces it. Returns 0, or -1 for bad arguments.
CUDAFRAME_SIM_API int cudaframe_sim_register_kernel(const char* name, cudaframe_sim_kernel_run run,
                                                    cudaframe_sim_kernel_access access,
                                                    const size_t* param_sizes, size_t param_count);

/// Holds a stream: what is queued on it, and whatever waits for that, stays queued; queries answer
/// CUDA_ERROR_NOT_READY and host waits block. Returns 0, or -1 for an unknown stream.
CUDAFRAME_SIM_API int cudaframe_sim_block_stream(void* stream);
/// Lets a held stream go on, also one that was destroyed while held. Returns 0 or -1.
CUDAFRAME_SIM_API int cudaframe_sim_unblock_stream(void* stream);
/// Runs up to `count` operations of a held stream, then what they set free elsewhere. Returns how
/// many of the held stream's ran.
CUDAFRAME_SIM_API size_t cudaframe_sim_step_stream(void* stream, size_t count);
/// How many operations are queued on the stream and have not run.
CUDAFRAME_SIM_API size_t cudaframe_sim_queued_operations(void* stream);
/// Returns once at least `count` threads are blocked inside the driver.
CUDAFRAME_SIM_API void cudaframe_sim_await_host_waits(size_t count);

/// The `nth` call from now (1 = the next) of the driver function `call` ("cuMemAlloc", no version
/// suffix) fails, once, with the CUresult `result`; 0 = what that call would say itself. `nth` = 0
/// takes it back. In the environment: CUDAFRAME_SIM_FAIL=cuMemAlloc:3,cuvidCreateDecoder:1:999
CUDAFRAME_SIM_API void cudaframe_sim_fail_call(const char* call, unsigned nth, int result);
/// Non-zero: every call that touches the device gives CUDA_ERROR_ILLEGAL_ADDRESS, what was queued
/// is lost. Zero: the device works again (also after an illegal access).
CUDAFRAME_SIM_API void cudaframe_sim_set_device_lost(int lost);

/// Goes on in another mode ("eager", "lazy", "shuffled:SEED"), once all work that is queued has
/// run; what was queued before then counts as known to the host. Before cuInit: what CUDAFRAME_SIM
/// would have said. Returns 0, or -1 for a mode that does not exist.
CUDAFRAME_SIM_API int cudaframe_sim_set_mode(const char* mode);
/// Whether the order of all work is checked: CUDAFRAME_SIM=lazy or shuffled:SEED, after cuInit.
CUDAFRAME_SIM_API int cudaframe_sim_checks_order(void);
/// Races, and other broken rules of the driver's, that were found and not taken. When the process
/// ends with any, its exit status is 86.
CUDAFRAME_SIM_API size_t cudaframe_sim_violation_count(void);
/// Takes them: returns how many there were, and writes the first ones' texts, cut off at `size`.
CUDAFRAME_SIM_API size_t cudaframe_sim_take_violations(char* text, size_t size);

/// What exists now. Allocations are the application's own, without decoders' surfaces.
typedef struct cudaframe_sim_live {
  size_t allocations, allocation_bytes;
  size_t pinned_allocations, pinned_bytes;
  size_t streams, events, modules;
  size_t decoders, parsers, mapped_surfaces;
} cudaframe_sim_live;
CUDAFRAME_SIM_API void cudaframe_sim_get_live(cudaframe_sim_live* live);

/// Calls of a driver function ("cuMemAlloc", "cuvidMapVideoFrame") since start or reset.
CUDAFRAME_SIM_API uint64_t cudaframe_sim_call_count(const char* call);
CUDAFRAME_SIM_API void cudaframe_sim_reset_counts(void);

#ifdef __cplusplus
}
#endif
