// SPDX-License-Identifier: LGPL-2.1-or-later
// How an entry point of the simulated libnvcuvid.so.1 begins.
#pragma once

#include "sim_internal.h"

#define CUDAFRAME_SIM_ENTRY_POINT extern "C" __attribute__((visibility("default")))

/// Counts the call and returns early when it is refused (fault asked for, device lost, no context).
#define CUDAFRAME_SIM_ENTER(needs_context)                                                      \
  if (const CUresult refused = cudaframe_sim_internal_enter(__func__, (needs_context) ? 1 : 0); \
      refused != CUDA_SUCCESS)                                                                  \
  return refused
