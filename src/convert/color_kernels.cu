// SPDX-License-Identifier: LGPL-2.1-or-later
// The kernels: a thread's work is in pixel_math.cuh.

#include "convert/kernel_params.h"
#include "convert/pixel_math.cuh"

using cudaframe::convert::ConvertParams;

namespace {

__device__ __forceinline__ int thread_x() {
  return static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
}
__device__ __forceinline__ int thread_y() {
  return static_cast<int>(blockIdx.y * blockDim.y + threadIdx.y);
}

}  // namespace

extern "C" __global__ void cudaframe_nv12_to_packed3(ConvertParams p) {
  cudaframe::convert::nv12_thread<cudaframe::convert::PackedWriter<3>>(p, thread_x(), thread_y());
}

extern "C" __global__ void cudaframe_nv12_to_packed4(ConvertParams p) {
  cudaframe::convert::nv12_thread<cudaframe::convert::PackedWriter<4>>(p, thread_x(), thread_y());
}

extern "C" __global__ void cudaframe_nv12_to_planar(ConvertParams p) {
  cudaframe::convert::nv12_thread<cudaframe::convert::PlanarWriter>(p, thread_x(), thread_y());
}

extern "C" __global__ void cudaframe_rgb_to_rgb(ConvertParams p) {
  cudaframe::convert::rgb_thread(p, thread_x(), thread_y());
}
