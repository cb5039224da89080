// SPDX-License-Identifier: LGPL-2.1-or-later
// The NVIDIA driver's functions, looked up at run time: nothing here links libcuda or libnvcuvid.
#pragma once

#include <cuda.h>  // before ffnvcodec: its own CUDA declarations then step aside

#include <ffnvcodec/dynlink_cuviddec.h>
#include <ffnvcodec/dynlink_nvcuvid.h>

#include <string>

#include "base/result.h"

// <cuda.h> turns some of these names into the versioned export (cuMemAlloc -> cuMemAlloc_v2), here
// and wherever a table's member is named, so the two always agree. tests/sim exports every name.
#define CUDAFRAME_CUDA_SYMBOLS(X) \
  X(cuInit)                       \
  X(cuDriverGetVersion)           \
  X(cuGetErrorName)               \
  X(cuGetErrorString)             \
  X(cuDeviceGet)                  \
  X(cuDeviceGetCount)             \
  X(cuDeviceGetName)              \
  X(cuDeviceGetAttribute)         \
  X(cuDevicePrimaryCtxRetain)     \
  X(cuDevicePrimaryCtxRelease)    \
  X(cuCtxPushCurrent)             \
  X(cuCtxPopCurrent)              \
  X(cuStreamCreate)               \
  X(cuStreamDestroy)              \
  X(cuStreamSynchronize)          \
  X(cuStreamWaitEvent)            \
  X(cuEventCreate)                \
  X(cuEventDestroy)               \
  X(cuEventRecord)                \
  X(cuEventQuery)                 \
  X(cuEventSynchronize)           \
  X(cuMemAlloc)                   \
  X(cuMemFree)                    \
  X(cuMemHostAlloc)               \
  X(cuMemFreeHost)                \
  X(cuMemGetInfo)                 \
  X(cuMemcpyDtoDAsync)            \
  X(cuMemcpy2DAsync)              \
  X(cuModuleLoadData)             \
  X(cuModuleUnload)               \
  X(cuModuleGetFunction)          \
  X(cuLaunchKernel)

// X(name, type): the exported name, and its function type in ffnvcodec.
#define CUDAFRAME_CUVID_SYMBOLS(X)                     \
  X(cuvidGetDecoderCaps, tcuvidGetDecoderCaps)         \
  X(cuvidCreateDecoder, tcuvidCreateDecoder)           \
  X(cuvidDestroyDecoder, tcuvidDestroyDecoder)         \
  X(cuvidDecodePicture, tcuvidDecodePicture)           \
  X(cuvidGetDecodeStatus, tcuvidGetDecodeStatus)       \
  X(cuvidReconfigureDecoder, tcuvidReconfigureDecoder) \
  X(cuvidMapVideoFrame64, tcuvidMapVideoFrame64)       \
  X(cuvidUnmapVideoFrame64, tcuvidUnmapVideoFrame64)   \
  X(cuvidCreateVideoParser, tcuvidCreateVideoParser)   \
  X(cuvidParseVideoData, tcuvidParseVideoData)         \
  X(cuvidDestroyVideoParser, tcuvidDestroyVideoParser)

namespace cudaframe::cuda {

/// libcuda's table. Thread-safe; lives until the process ends (never unloaded, on purpose).
struct Driver {
#define CUDAFRAME_MEMBER(name) decltype(&::name) name = nullptr;
  CUDAFRAME_CUDA_SYMBOLS(CUDAFRAME_MEMBER)
#undef CUDAFRAME_MEMBER

  /// Opens libcuda.so.1 and calls cuInit, once per process; the outcome is kept. not_supported
  /// names the library or the symbol that is missing, or what cuInit said. Thread-safe.
  static Result<const Driver*> load();

  /// Ok for CUDA_SUCCESS. `call` names the driver call. Out of memory, lost devices and missing
  /// features get their own codes; CUDA_ERROR_DEINITIALIZED (the process is ending) counts as ok.
  Status check(CUresult result, const char* call, const char* file = __builtin_FILE(),
               int line = __builtin_LINE()) const;
};

/// libnvcuvid's table. Thread-safe; lives until the process ends.
struct CuvidDriver {
#define CUDAFRAME_MEMBER(name, type) type* name = nullptr;
  CUDAFRAME_CUVID_SYMBOLS(CUDAFRAME_MEMBER)
#undef CUDAFRAME_MEMBER

  /// Opens libnvcuvid.so.1, once per process. not_supported names what is missing. Thread-safe.
  static Result<const CuvidDriver*> load();
};

/// The driver's version as /proc tells it ("580.159.04"), or what CUDA API it speaks
/// ("CUDA 13.0"), for messages.
std::string driver_version(const Driver& driver);

}  // namespace cudaframe::cuda

/// Status of a driver call, with the call's text in it: CUDAFRAME_CUDA(driver, cuMemFree(p)).
#define CUDAFRAME_CUDA(driver, call) (driver).check((driver).call, #call)
