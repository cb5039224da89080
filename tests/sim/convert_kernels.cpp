// SPDX-License-Identifier: LGPL-2.1-or-later
// CPU twins of the conversion kernels: each thread runs the code that nvcc compiles.

#include "builtin_kernels.h"
#include "convert/kernel_params.h"
#include "convert/pixel_math.cuh"
#include "cudaframe_sim.h"

namespace {

using cudaframe::convert::ConvertParams;
using ThreadFunction = void (*)(const ConvertParams&, int, int);

const ConvertParams& params_of(const cudaframe_sim_launch* launch) {
  return *static_cast<const ConvertParams*>(launch->params[0]);
}

template <ThreadFunction kThread>
void run(const cudaframe_sim_launch* launch) {
  const ConvertParams& params = params_of(launch);
  const int threads_x = static_cast<int>(launch->grid_x * launch->block_x);
  const int threads_y = static_cast<int>(launch->grid_y * launch->block_y);
  for (int y = 0; y < threads_y; ++y) {
    for (int x = 0; x < threads_x; ++x) kThread(params, x, y);
  }
}

cudaframe_sim_access access(std::uint64_t address, std::uint64_t pitch, int width_bytes, int rows,
                            bool is_write) {
  return {address, static_cast<std::uint64_t>(width_bytes), static_cast<std::uint64_t>(rows), pitch,
          is_write};
}

std::size_t deliver(const cudaframe_sim_access* all, std::size_t count, cudaframe_sim_access* out,
                    std::size_t capacity) {
  for (std::size_t i = 0; i < count && i < capacity; ++i) out[i] = all[i];
  return count;
}

/// `kDstBytes` of a packed pixel; 1: three planes.
template <int kDstBytes>
std::size_t nv12_accesses(const cudaframe_sim_launch* launch, cudaframe_sim_access* out,
                          std::size_t capacity) {
  const ConvertParams& p = params_of(launch);
  cudaframe_sim_access all[5];
  std::size_t count = 0;
  all[count++] = access(p.src[0], p.src_pitch[0], p.width, p.height, false);
  all[count++] = access(p.src[1], p.src_pitch[1], (p.width + 1) / 2 * 2, (p.height + 1) / 2, false);
  for (int i = 0; i < (kDstBytes == 1 ? 3 : 1); ++i) {
    all[count++] = access(p.dst[i], p.dst_pitch[i], p.width * kDstBytes, p.height, true);
  }
  return deliver(all, count, out, capacity);
}

std::size_t rgb_accesses(const cudaframe_sim_launch* launch, cudaframe_sim_access* out,
                         std::size_t capacity) {
  const ConvertParams& p = params_of(launch);
  cudaframe_sim_access all[6];
  std::size_t count = 0;
  for (int i = 0; i < (p.src_step == 1 ? 3 : 1); ++i) {
    all[count++] = access(p.src[i], p.src_pitch[i], p.width * p.src_step, p.height, false);
  }
  for (int i = 0; i < (p.dst_step == 1 ? 3 : 1); ++i) {
    all[count++] = access(p.dst[i], p.dst_pitch[i], p.width * p.dst_step, p.height, true);
  }
  return deliver(all, count, out, capacity);
}

void add(const char* name, cudaframe_sim_kernel_run body, cudaframe_sim_kernel_access accesses) {
  const std::size_t size = sizeof(ConvertParams);
  cudaframe_sim_register_kernel(name, body, accesses, &size, 1);
}

}  // namespace

namespace cudaframe::sim {

void register_convert_kernels() {
  using namespace cudaframe::convert;
  add(kNv12ToPacked3, run<nv12_thread<PackedWriter<3>>>, nv12_accesses<3>);
  add(kNv12ToPacked4, run<nv12_thread<PackedWriter<4>>>, nv12_accesses<4>);
  add(kNv12ToPlanar, run<nv12_thread<PlanarWriter>>, nv12_accesses<1>);
  add(kRgbToRgb, run<rgb_thread>, rgb_accesses);
}

}  // namespace cudaframe::sim
