// SPDX-License-Identifier: LGPL-2.1-or-later
// A driver-API program of somebody's, with (an argument) or without the wait that it needs.
#include <cuda.h>

#include <cstdio>

int main(int argc, char**) {
  constexpr std::size_t kBytes = 4096;
  CUcontext context = nullptr;
  CUstream writer = nullptr, reader = nullptr;
  CUevent written = nullptr;
  CUdeviceptr memory = 0;
  void* target = nullptr;
  const bool is_ready = cuInit(0) == CUDA_SUCCESS &&
                        cuDevicePrimaryCtxRetain(&context, 0) == CUDA_SUCCESS &&
                        cuCtxPushCurrent(context) == CUDA_SUCCESS &&
                        cuStreamCreate(&writer, CU_STREAM_NON_BLOCKING) == CUDA_SUCCESS &&
                        cuStreamCreate(&reader, CU_STREAM_NON_BLOCKING) == CUDA_SUCCESS &&
                        cuEventCreate(&written, CU_EVENT_DISABLE_TIMING) == CUDA_SUCCESS &&
                        cuMemAlloc(&memory, kBytes) == CUDA_SUCCESS &&
                        cuMemHostAlloc(&target, kBytes, 0) == CUDA_SUCCESS;
  if (!is_ready) return 1;
  cuMemsetD8Async(memory, 1, kBytes, writer);
  cuEventRecord(written, writer);
  if (argc > 1) cuStreamWaitEvent(reader, written, 0);
  cuMemcpyDtoHAsync(target, memory, kBytes, reader);
  cuStreamSynchronize(reader);
  std::printf("%d\n", static_cast<unsigned char*>(target)[0]);
  return 0;
}
