// SPDX-License-Identifier: LGPL-2.1-or-later
// Driver API: device and pinned host memory.
#include "entry.h"
#include "sim_internal.h"

using cudaframe::sim::Allocation;
using cudaframe::sim::MemoryKind;

namespace {

constexpr size_t kPitchAlignment = 512;

CUresult allocate(cudaframe::sim::Device& device, size_t size, MemoryKind kind,
                  uintptr_t* address) {
  if (size == 0) return CUDA_ERROR_INVALID_VALUE;
  *address = device.memory.allocate(size, kind);
  return *address ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult allocate_host(cudaframe::sim::Device& device, size_t size, void** memory) {
  if (!memory) return CUDA_ERROR_INVALID_VALUE;
  uintptr_t address = 0;
  const CUresult result = allocate(device, size, MemoryKind::pinned, &address);
  if (result == CUDA_SUCCESS) *memory = reinterpret_cast<void*>(address);
  return result;
}

// As the driver does, freeing waits for the whole device.
CUresult free_memory(cudaframe::sim::Call& call, uintptr_t address, MemoryKind kind) {
  auto& device = call.device();
  if (address == 0) return CUDA_SUCCESS;
  uintptr_t base = 0;
  const Allocation* found = device.memory.find(address, 1, &base);
  if (!found || found->kind != kind || base != address) {
    cudaframe::sim::violation("%s: no live allocation begins at 0x%zx\n    called from %s",
                              call.name(), static_cast<size_t>(address),
                              cudaframe::sim::CallSite::capture().text().c_str());
    return CUDA_ERROR_INVALID_VALUE;
  }
  device.drain(call.lock());
  if (!device.memory.release(address, kind)) return CUDA_ERROR_INVALID_VALUE;
  return device.lost();
}

}  // namespace

CUDAFRAME_SIM_EXPORT CUresult cuMemAlloc(CUdeviceptr* address, size_t size) {
  CUDAFRAME_SIM_CALL(context);
  if (!address) return CUDA_ERROR_INVALID_VALUE;
  uintptr_t made = 0;
  const CUresult result = allocate(device, size, MemoryKind::device, &made);
  if (result == CUDA_SUCCESS) *address = made;
  return result;
}

CUDAFRAME_SIM_EXPORT CUresult cuMemAllocPitch(CUdeviceptr* address, size_t* pitch, size_t width,
                                              size_t height, unsigned element_bytes) {
  CUDAFRAME_SIM_CALL(context);
  if (!address || !pitch) return CUDA_ERROR_INVALID_VALUE;
  if (element_bytes != 4 && element_bytes != 8 && element_bytes != 16) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  const size_t row = (width + kPitchAlignment - 1) / kPitchAlignment * kPitchAlignment;
  uintptr_t made = 0;
  const CUresult result = allocate(device, row * height, MemoryKind::device, &made);
  if (result != CUDA_SUCCESS) return result;
  *address = made;
  *pitch = row;
  return CUDA_SUCCESS;
}

CUDAFRAME_SIM_EXPORT CUresult cuMemFree(CUdeviceptr address) {
  CUDAFRAME_SIM_CALL(release);
  return free_memory(call, address, MemoryKind::device);
}

CUDAFRAME_SIM_EXPORT CUresult cuMemHostAlloc(void** memory, size_t size, unsigned) {
  CUDAFRAME_SIM_CALL(context);
  return allocate_host(device, size, memory);
}

CUDAFRAME_SIM_EXPORT CUresult cuMemAllocHost(void** memory, size_t size) {
  CUDAFRAME_SIM_CALL(context);
  return allocate_host(device, size, memory);
}

CUDAFRAME_SIM_EXPORT CUresult cuMemFreeHost(void* memory) {
  CUDAFRAME_SIM_CALL(release);
  return free_memory(call, reinterpret_cast<uintptr_t>(memory), MemoryKind::pinned);
}

CUDAFRAME_SIM_EXPORT CUresult cuMemGetInfo(size_t* available, size_t* total) {
  CUDAFRAME_SIM_CALL(context);
  if (!available || !total) return CUDA_ERROR_INVALID_VALUE;
  *total = device.memory.total();
  *available = device.memory.total() - device.memory.used();
  return CUDA_SUCCESS;
}

CUDAFRAME_SIM_EXPORT CUresult cuPointerGetAttribute(void* data, CUpointer_attribute attribute,
                                                    CUdeviceptr address) {
  CUDAFRAME_SIM_CALL(init);
  uintptr_t base = 0;
  const Allocation* found = device.memory.find(address, 1, &base);
  if (!data || !found) return CUDA_ERROR_INVALID_VALUE;
  switch (attribute) {
    case CU_POINTER_ATTRIBUTE_CONTEXT:
      *static_cast<CUcontext*>(data) = device.primary();
      return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
      *static_cast<unsigned*>(data) =
          found->kind == MemoryKind::pinned ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
      return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
      *static_cast<CUdeviceptr*>(data) = address;
      return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_HOST_POINTER:
      if (found->kind != MemoryKind::pinned) return CUDA_ERROR_INVALID_VALUE;
      *static_cast<CUdeviceptr*>(data) = address;
      return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_IS_MANAGED:
      *static_cast<unsigned*>(data) = 0;
      return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
      *static_cast<int*>(data) = 0;
      return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
      *static_cast<CUdeviceptr*>(data) = base;
      return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
      *static_cast<size_t*>(data) = found->size;
      return CUDA_SUCCESS;
    default:
      return CUDA_ERROR_NOT_SUPPORTED;
  }
}

CUresult cudaframe_sim_internal_alloc(size_t bytes, CUdeviceptr* address) {
  auto& device = cudaframe::sim::Device::get();
  cudaframe::sim::Lock lock(device.mutex());
  uintptr_t made = 0;
  const CUresult result = allocate(device, bytes, MemoryKind::decoder, &made);
  *address = made;
  return result;
}

void cudaframe_sim_internal_free(CUdeviceptr address) {
  auto& device = cudaframe::sim::Device::get();
  cudaframe::sim::Lock lock(device.mutex());
  device.memory.release(address, MemoryKind::decoder);
  device.forget_order(address);
}

void cudaframe_sim_internal_set_mapped(CUdeviceptr address, int is_mapped) {
  auto& device = cudaframe::sim::Device::get();
  cudaframe::sim::Lock lock(device.mutex());
  Allocation* surface = device.memory.find_to_remember(address, 1);
  if (surface) surface->is_mapped = is_mapped != 0;
}

CUresult cudaframe_sim_internal_reserve(size_t bytes) {
  auto& device = cudaframe::sim::Device::get();
  cudaframe::sim::Lock lock(device.mutex());
  return device.memory.reserve(bytes) ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

void cudaframe_sim_internal_unreserve(size_t bytes) {
  auto& device = cudaframe::sim::Device::get();
  cudaframe::sim::Lock lock(device.mutex());
  device.memory.unreserve(bytes);
}
