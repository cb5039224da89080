// SPDX-License-Identifier: LGPL-2.1-or-later
// Driver API: modules and kernels. A kernel is the CPU twin registered under its name; what image
// the module was loaded from doesn't matter.
#include <cstring>

#include "entry.h"

using cudaframe::sim::Access;
using cudaframe::sim::KernelTwin;
using cudaframe::sim::Lock;
using cudaframe::sim::Operation;
using cudaframe::sim::StreamPtr;

namespace {

constexpr unsigned kMaxBlockThreads = 1024;

/// A launch with its own copy of the parameters, as cuLaunchKernel takes one.
class Launch {
 public:
  Launch(const KernelTwin& twin, cudaframe_sim_launch dimensions, void** params)
      : twin_(twin), launch_(dimensions) {
    for (size_t i = 0; i < twin.param_sizes.size(); ++i) {
      const auto* bytes = static_cast<const unsigned char*>(params[i]);
      values_.emplace_back(bytes, bytes + twin.param_sizes[i]);
    }
    for (const auto& value : values_) pointers_.push_back(value.data());
    launch_.params = pointers_.data();
  }
  Launch(const Launch&) = delete;
  Launch& operator=(const Launch&) = delete;

  void run() const { twin_.run(&launch_); }

  std::vector<Access> accesses() const {
    if (!twin_.access) return {};
    std::vector<cudaframe_sim_access> raw(8);
    size_t count = twin_.access(&launch_, raw.data(), raw.size());
    if (count > raw.size()) {
      raw.resize(count);
      count = std::min(raw.size(), twin_.access(&launch_, raw.data(), raw.size()));
    }
    std::vector<Access> accesses;
    for (size_t i = 0; i < count; ++i) {
      const cudaframe_sim_access& access = raw[i];
      accesses.push_back({access.address, access.width_bytes, access.height, access.pitch_bytes,
                          access.is_write != 0});
    }
    return accesses;
  }

 private:
  KernelTwin twin_;
  cudaframe_sim_launch launch_;
  std::vector<std::vector<unsigned char>> values_;
  std::vector<const void*> pointers_;
};

bool are_dimensions_valid(const cudaframe_sim_launch& launch) {
  const auto threads = static_cast<uint64_t>(launch.block_x) * launch.block_y * launch.block_z;
  return launch.grid_x && launch.grid_y && launch.grid_z && launch.grid_y <= 65535 &&
         launch.grid_z <= 65535 && threads > 0 && threads <= kMaxBlockThreads &&
         launch.block_z <= 64;
}

}  // namespace

CUDAFRAME_SIM_EXPORT CUresult cuModuleLoadData(CUmodule* module, const void* image) {
  CUDAFRAME_SIM_CALL(context);
  if (!module || !image) return CUDA_ERROR_INVALID_VALUE;
  *module = static_cast<CUmodule>(device.new_handle());
  device.modules[*module] = {};
  return CUDA_SUCCESS;
}

CUDAFRAME_SIM_EXPORT CUresult cuModuleUnload(CUmodule module) {
  CUDAFRAME_SIM_CALL(release);
  const auto found = device.modules.find(module);
  if (found == device.modules.end()) {
    cudaframe::sim::violation("%s: %p is no module, or was unloaded", call.name(),
                              static_cast<void*>(module));
    return CUDA_ERROR_INVALID_HANDLE;
  }
  for (const auto& [name, function] : found->second.functions) device.functions.erase(function);
  device.modules.erase(found);
  return device.lost();
}

CUDAFRAME_SIM_EXPORT CUresult cuModuleGetFunction(CUfunction* function, CUmodule module,
                                                  const char* name) {
  CUDAFRAME_SIM_CALL(context);
  if (!function || !name) return CUDA_ERROR_INVALID_VALUE;
  const auto found = device.modules.find(module);
  if (found == device.modules.end()) return CUDA_ERROR_INVALID_HANDLE;
  const auto twin = device.twins.find(name);
  if (twin == device.twins.end()) {
    cudaframe::sim::report("no CPU twin is registered for the kernel %s", name);
    return CUDA_ERROR_NOT_FOUND;
  }
  CUfunction& known = found->second.functions[name];
  if (!known) known = static_cast<CUfunction>(device.new_handle());
  device.functions[known] = twin->second;
  *function = known;
  return CUDA_SUCCESS;
}

CUDAFRAME_SIM_EXPORT CUresult cuLaunchKernel(CUfunction function, unsigned grid_x, unsigned grid_y,
                                             unsigned grid_z, unsigned block_x, unsigned block_y,
                                             unsigned block_z, unsigned shared_bytes,
                                             CUstream handle, void** params, void** extra) {
  CUDAFRAME_SIM_CALL(context);
  const auto found = device.functions.find(function);
  const StreamPtr stream = device.stream(handle, call.name());
  if (found == device.functions.end() || !stream) return CUDA_ERROR_INVALID_HANDLE;
  const cudaframe_sim_launch launch = {grid_x,  grid_y,  grid_z,       block_x,
                                       block_y, block_z, shared_bytes, nullptr};
  const bool lacks_params = !found->second.param_sizes.empty() && !params;
  if (extra || lacks_params || !are_dimensions_valid(launch)) return CUDA_ERROR_INVALID_VALUE;
  const auto kept = std::make_shared<Launch>(found->second, launch, params);
  Operation operation{.call = call.name(), .run = [kept] { kept->run(); }};
  operation.accesses = kept->accesses();
  return device.enqueue(*stream, std::move(operation));
}

int cudaframe_sim_register_kernel(const char* name, cudaframe_sim_kernel_run run,
                                  cudaframe_sim_kernel_access access, const size_t* param_sizes,
                                  size_t param_count) {
  if (!name || !*name || !run || (param_count && !param_sizes)) return -1;
  auto& device = cudaframe::sim::Device::get();
  Lock lock(device.mutex());
  device.twins[name] = {run, access, {param_sizes, param_sizes + param_count}};
  return 0;
}
