// SPDX-License-Identifier: LGPL-2.1-or-later
// Driver API: copies and memsets.
#include <cstring>

#include "entry.h"

using cudaframe::sim::Access;
using cudaframe::sim::Allocation;
using cudaframe::sim::Call;
using cudaframe::sim::CompletionPtr;
using cudaframe::sim::MemoryKind;
using cudaframe::sim::Operation;
using cudaframe::sim::StreamPtr;

namespace {

enum class HostWait { no, yes };

struct Side {
  uintptr_t address = 0;
  size_t pitch = 0;
  bool is_host = false;  ///< as the call names it; a device pointer may be pinned memory too
};

struct Copy {
  Side source, target;
  size_t width = 0, height = 1;
};

Side device_side(CUdeviceptr address, size_t pitch = 0) { return {address, pitch, false}; }

Side host_side(const void* memory, size_t pitch = 0) {
  return {reinterpret_cast<uintptr_t>(memory), pitch, true};
}

unsigned char* bytes_at(const Side& side, size_t row) {
  return reinterpret_cast<unsigned char*>(side.address + row * side.pitch);
}

void run_copy(const Copy& copy) {
  for (size_t row = 0; row < copy.height; ++row) {
    memmove(bytes_at(copy.target, row), bytes_at(copy.source, row), copy.width);
  }
}

void fill(const Side& target, size_t width, size_t height, unsigned char value) {
  for (size_t row = 0; row < height; ++row) memset(bytes_at(target, row), value, width);
}

bool is_pageable(Call& call, const Side& side) {
  return side.is_host && !call.device().memory.find(side.address, 1);
}

Access access_of(Call& call, const Side& side, size_t width, size_t height, bool is_write) {
  return {side.address, width, height, side.pitch, is_write, !is_pageable(call, side)};
}

CUresult queue_copy(Call& call, CUstream handle, const Copy& copy, HostWait wait) {
  auto& device = call.device();
  const StreamPtr stream = device.stream(handle, call.name());
  if (!stream) return CUDA_ERROR_INVALID_HANDLE;
  if (copy.width == 0 || copy.height == 0) return CUDA_SUCCESS;
  if (!copy.source.address || !copy.target.address) return CUDA_ERROR_INVALID_VALUE;
  Operation operation{.call = call.name(), .run = [copy] { run_copy(copy); }};
  operation.accesses = {access_of(call, copy.source, copy.width, copy.height, false),
                        access_of(call, copy.target, copy.width, copy.height, true)};
  const bool any_pageable = is_pageable(call, copy.source) || is_pageable(call, copy.target);
  // A host that reads its buffer too early finds poison, not last time's data.
  const size_t target_size = copy.target.pitch * (copy.height - 1) + copy.width;
  if (copy.target.is_host && device.memory.find(copy.target.address, target_size)) {
    fill(copy.target, copy.width, copy.height, cudaframe::sim::kPoisonByte);
  }
  const CompletionPtr done = operation.completion;
  const CUresult result = device.enqueue(*stream, std::move(operation));
  if (result != CUDA_SUCCESS || (wait == HostWait::no && !any_pageable)) return result;
  return device.wait(call.lock(), done);
}

CUresult queue_memset(Call& call, CUstream handle, const Side& target, size_t width, size_t height,
                      unsigned char value) {
  auto& device = call.device();
  const StreamPtr stream = device.stream(handle, call.name());
  if (!stream) return CUDA_ERROR_INVALID_HANDLE;
  if (width == 0 || height == 0) return CUDA_SUCCESS;
  if (!target.address || (height > 1 && target.pitch < width)) return CUDA_ERROR_INVALID_VALUE;
  Operation operation{.call = call.name(),
                      .run = [=] { fill(target, width, height, value); }};
  operation.accesses = {access_of(call, target, width, height, true)};
  return device.enqueue(*stream, std::move(operation));
}

/// One side of a 2-D copy; false for arrays and pitches that are too small.
bool side_2d(CUmemorytype type, const void* host, CUdeviceptr address, size_t pitch, size_t x,
             size_t y, const CUDA_MEMCPY2D& copy, Side* side) {
  switch (type) {
    case CU_MEMORYTYPE_HOST:
      *side = host_side(host, pitch);
      break;
    case CU_MEMORYTYPE_DEVICE:
    case CU_MEMORYTYPE_UNIFIED:
      *side = device_side(address, pitch);
      break;
    default:
      return false;
  }
  if (side->pitch == 0) side->pitch = copy.WidthInBytes + x;
  side->address += y * side->pitch + x;
  return copy.WidthInBytes + x <= side->pitch;
}

CUresult queue_copy_2d(Call& call, CUstream stream, const CUDA_MEMCPY2D* asked, bool is_async) {
  if (!asked) return CUDA_ERROR_INVALID_VALUE;
  Copy copy;
  copy.width = asked->WidthInBytes;
  copy.height = asked->Height;
  if (!side_2d(asked->srcMemoryType, asked->srcHost, asked->srcDevice, asked->srcPitch,
               asked->srcXInBytes, asked->srcY, *asked, &copy.source) ||
      !side_2d(asked->dstMemoryType, asked->dstHost, asked->dstDevice, asked->dstPitch,
               asked->dstXInBytes, asked->dstY, *asked, &copy.target)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  const bool waits = !is_async && (copy.source.is_host || copy.target.is_host);
  return queue_copy(call, stream, copy, waits ? HostWait::yes : HostWait::no);
}

}  // namespace

CUDAFRAME_SIM_EXPORT CUresult cuMemcpyHtoD(CUdeviceptr target, const void* source, size_t size) {
  CUDAFRAME_SIM_CALL(context);
  return queue_copy(call, nullptr, {host_side(source), device_side(target), size}, HostWait::yes);
}

CUDAFRAME_SIM_EXPORT CUresult cuMemcpyDtoH(void* target, CUdeviceptr source, size_t size) {
  CUDAFRAME_SIM_CALL(context);
  return queue_copy(call, nullptr, {device_side(source), host_side(target), size}, HostWait::yes);
}

CUDAFRAME_SIM_EXPORT CUresult cuMemcpyDtoD(CUdeviceptr target, CUdeviceptr source, size_t size) {
  CUDAFRAME_SIM_CALL(context);
  return queue_copy(call, nullptr, {device_side(source), device_side(target), size}, HostWait::no);
}

CUDAFRAME_SIM_EXPORT CUresult cuMemcpyHtoDAsync(CUdeviceptr target, const void* source, size_t size,
                                                CUstream stream) {
  CUDAFRAME_SIM_CALL(context);
  return queue_copy(call, stream, {host_side(source), device_side(target), size}, HostWait::no);
}

CUDAFRAME_SIM_EXPORT CUresult cuMemcpyDtoHAsync(void* target, CUdeviceptr source, size_t size,
                                                CUstream stream) {
  CUDAFRAME_SIM_CALL(context);
  return queue_copy(call, stream, {device_side(source), host_side(target), size}, HostWait::no);
}

CUDAFRAME_SIM_EXPORT CUresult cuMemcpyDtoDAsync(CUdeviceptr target, CUdeviceptr source, size_t size,
                                                CUstream stream) {
  CUDAFRAME_SIM_CALL(context);
  return queue_copy(call, stream, {device_side(source), device_side(target), size}, HostWait::no);
}

CUDAFRAME_SIM_EXPORT CUresult cuMemcpy2D(const CUDA_MEMCPY2D* copy) {
  CUDAFRAME_SIM_CALL(context);
  return queue_copy_2d(call, nullptr, copy, false);
}

CUDAFRAME_SIM_EXPORT CUresult cuMemcpy2DAsync(const CUDA_MEMCPY2D* copy, CUstream stream) {
  CUDAFRAME_SIM_CALL(context);
  return queue_copy_2d(call, stream, copy, true);
}

CUDAFRAME_SIM_EXPORT CUresult cuMemsetD8(CUdeviceptr target, unsigned char value, size_t size) {
  CUDAFRAME_SIM_CALL(context);
  return queue_memset(call, nullptr, device_side(target), size, 1, value);
}

CUDAFRAME_SIM_EXPORT CUresult cuMemsetD8Async(CUdeviceptr target, unsigned char value, size_t size,
                                              CUstream stream) {
  CUDAFRAME_SIM_CALL(context);
  return queue_memset(call, stream, device_side(target), size, 1, value);
}

CUDAFRAME_SIM_EXPORT CUresult cuMemsetD2D8(CUdeviceptr target, size_t pitch, unsigned char value,
                                           size_t width, size_t height) {
  CUDAFRAME_SIM_CALL(context);
  return queue_memset(call, nullptr, device_side(target, pitch), width, height, value);
}

CUDAFRAME_SIM_EXPORT CUresult cuMemsetD2D8Async(CUdeviceptr target, size_t pitch,
                                                unsigned char value, size_t width, size_t height,
                                                CUstream stream) {
  CUDAFRAME_SIM_CALL(context);
  return queue_memset(call, stream, device_side(target, pitch), width, height, value);
}
