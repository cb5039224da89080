// SPDX-License-Identifier: LGPL-2.1-or-later
// Driver API: start-up, error texts, the device and its primary context.
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <mutex>

#include "builtin_kernels.h"
#include "entry.h"

using cudaframe::sim::context_stack;

namespace {

constexpr char kDeviceName[] = "NVIDIA H200 (simulated)";
constexpr int kDriverVersion = 13000;

struct ErrorText {
  CUresult result;
  const char* name;
  const char* text;
};

#define CUDAFRAME_SIM_ERROR(name, text) \
  { name, #name, text }
constexpr ErrorText kErrors[] = {
    CUDAFRAME_SIM_ERROR(CUDA_SUCCESS, "no error"),
    CUDAFRAME_SIM_ERROR(CUDA_ERROR_INVALID_VALUE, "invalid argument"),
    CUDAFRAME_SIM_ERROR(CUDA_ERROR_OUT_OF_MEMORY, "out of memory"),
    CUDAFRAME_SIM_ERROR(CUDA_ERROR_NOT_INITIALIZED, "initialization error"),
    CUDAFRAME_SIM_ERROR(CUDA_ERROR_DEINITIALIZED, "driver shutting down"),
    CUDAFRAME_SIM_ERROR(CUDA_ERROR_NO_DEVICE, "no CUDA-capable device is detected"),
    CUDAFRAME_SIM_ERROR(CUDA_ERROR_INVALID_DEVICE, "invalid device ordinal"),
    CUDAFRAME_SIM_ERROR(CUDA_ERROR_INVALID_IMAGE, "device kernel image is invalid"),
    CUDAFRAME_SIM_ERROR(CUDA_ERROR_INVALID_CONTEXT, "invalid device context"),
    CUDAFRAME_SIM_ERROR(CUDA_ERROR_NO_BINARY_FOR_GPU,
                        "no kernel image is available for execution on the device"),
    CUDAFRAME_SIM_ERROR(CUDA_ERROR_INVALID_HANDLE, "invalid resource handle"),
    CUDAFRAME_SIM_ERROR(CUDA_ERROR_NOT_FOUND, "named symbol not found"),
    CUDAFRAME_SIM_ERROR(CUDA_ERROR_NOT_READY, "device not ready"),
    CUDAFRAME_SIM_ERROR(CUDA_ERROR_ILLEGAL_ADDRESS, "an illegal memory access was encountered"),
    CUDAFRAME_SIM_ERROR(CUDA_ERROR_CONTEXT_IS_DESTROYED, "context is destroyed"),
    CUDAFRAME_SIM_ERROR(CUDA_ERROR_LAUNCH_FAILED, "unspecified launch failure"),
    CUDAFRAME_SIM_ERROR(CUDA_ERROR_NOT_PERMITTED, "operation not permitted"),
    CUDAFRAME_SIM_ERROR(CUDA_ERROR_NOT_SUPPORTED, "operation not supported"),
    CUDAFRAME_SIM_ERROR(CUDA_ERROR_SYSTEM_NOT_READY, "system not yet initialized"),
    CUDAFRAME_SIM_ERROR(CUDA_ERROR_UNKNOWN, "unknown error"),
};

struct Attribute {
  CUdevice_attribute attribute;
  int value;
};

constexpr Attribute kAttributes[] = {
    {CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK, 1024},
    {CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X, 1024},
    {CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y, 1024},
    {CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z, 64},
    {CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X, 2147483647},
    {CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y, 65535},
    {CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z, 65535},
    {CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK, 49152},
    {CU_DEVICE_ATTRIBUTE_TOTAL_CONSTANT_MEMORY, 65536},
    {CU_DEVICE_ATTRIBUTE_WARP_SIZE, 32},
    {CU_DEVICE_ATTRIBUTE_MAX_PITCH, 2147483647},
    {CU_DEVICE_ATTRIBUTE_CLOCK_RATE, 1980000},
    {CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT, 512},
    {CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, 132},
    {CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY, 1},
    {CU_DEVICE_ATTRIBUTE_COMPUTE_MODE, CU_COMPUTEMODE_DEFAULT},
    {CU_DEVICE_ATTRIBUTE_CONCURRENT_KERNELS, 1},
    {CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT, 3},
    {CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING, 1},
    {CU_DEVICE_ATTRIBUTE_TEXTURE_PITCH_ALIGNMENT, 32},
    {CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, 9},
    {CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, 0},
    {CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR, 2048},
};

const ErrorText* find_error(CUresult result) {
  const auto* found = std::find_if(std::begin(kErrors), std::end(kErrors),
                                   [result](const ErrorText& e) { return e.result == result; });
  return found == std::end(kErrors) ? nullptr : found;
}

}  // namespace

CUDAFRAME_SIM_EXPORT CUresult cuInit(unsigned flags) {
  static std::once_flag registered;
  std::call_once(registered, cudaframe::sim::register_builtin_kernels);
  CUDAFRAME_SIM_CALL(nothing);
  if (flags != 0) return CUDA_ERROR_INVALID_VALUE;
  return device.initialise();
}

CUDAFRAME_SIM_EXPORT CUresult cuDriverGetVersion(int* version) {
  CUDAFRAME_SIM_CALL(nothing);
  if (!version) return CUDA_ERROR_INVALID_VALUE;
  *version = kDriverVersion;
  return CUDA_SUCCESS;
}

CUDAFRAME_SIM_EXPORT CUresult cuGetErrorName(CUresult error, const char** name) {
  CUDAFRAME_SIM_CALL(nothing);
  if (!name) return CUDA_ERROR_INVALID_VALUE;
  const ErrorText* found = find_error(error);
  *name = found ? found->name : nullptr;
  return found ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUDAFRAME_SIM_EXPORT CUresult cuGetErrorString(CUresult error, const char** text) {
  CUDAFRAME_SIM_CALL(nothing);
  if (!text) return CUDA_ERROR_INVALID_VALUE;
  const ErrorText* found = find_error(error);
  *text = found ? found->text : nullptr;
  return found ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUDAFRAME_SIM_EXPORT CUresult cuDeviceGetCount(int* count) {
  CUDAFRAME_SIM_CALL(init);
  if (!count) return CUDA_ERROR_INVALID_VALUE;
  *count = 1;
  return CUDA_SUCCESS;
}

CUDAFRAME_SIM_EXPORT CUresult cuDeviceGet(CUdevice* handle, int ordinal) {
  CUDAFRAME_SIM_CALL(init);
  if (!handle) return CUDA_ERROR_INVALID_VALUE;
  if (ordinal != 0) return CUDA_ERROR_INVALID_DEVICE;
  *handle = 0;
  return CUDA_SUCCESS;
}

CUDAFRAME_SIM_EXPORT CUresult cuDeviceGetName(char* name, int size, CUdevice handle) {
  CUDAFRAME_SIM_CALL(init);
  if (!name || size <= 0) return CUDA_ERROR_INVALID_VALUE;
  if (handle != 0) return CUDA_ERROR_INVALID_DEVICE;
  snprintf(name, static_cast<size_t>(size), "%s", kDeviceName);
  return CUDA_SUCCESS;
}

CUDAFRAME_SIM_EXPORT CUresult cuDeviceGetUuid(CUuuid* uuid, CUdevice handle) {
  CUDAFRAME_SIM_CALL(init);
  if (!uuid) return CUDA_ERROR_INVALID_VALUE;
  if (handle != 0) return CUDA_ERROR_INVALID_DEVICE;
  memcpy(uuid->bytes, "cudaframe-sim\0\0", sizeof uuid->bytes);
  return CUDA_SUCCESS;
}

CUDAFRAME_SIM_EXPORT CUresult cuDeviceTotalMem(size_t* bytes, CUdevice handle) {
  CUDAFRAME_SIM_CALL(init);
  if (!bytes) return CUDA_ERROR_INVALID_VALUE;
  if (handle != 0) return CUDA_ERROR_INVALID_DEVICE;
  *bytes = device.memory.total();
  return CUDA_SUCCESS;
}

CUDAFRAME_SIM_EXPORT CUresult cuDeviceGetAttribute(int* value, CUdevice_attribute attribute,
                                                   CUdevice handle) {
  CUDAFRAME_SIM_CALL(init);
  if (!value || attribute <= 0 || attribute >= CU_DEVICE_ATTRIBUTE_MAX) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (handle != 0) return CUDA_ERROR_INVALID_DEVICE;
  const auto* found =
      std::find_if(std::begin(kAttributes), std::end(kAttributes),
                   [attribute](const Attribute& a) { return a.attribute == attribute; });
  *value = found == std::end(kAttributes) ? 0 : found->value;  // 0: the device hasn't got it
  return CUDA_SUCCESS;
}

CUDAFRAME_SIM_EXPORT CUresult cuDevicePrimaryCtxRetain(CUcontext* context, CUdevice handle) {
  CUDAFRAME_SIM_CALL(init);
  if (!context) return CUDA_ERROR_INVALID_VALUE;
  if (handle != 0) return CUDA_ERROR_INVALID_DEVICE;
  ++device.context_users;
  *context = device.primary();
  return CUDA_SUCCESS;
}

CUDAFRAME_SIM_EXPORT CUresult cuDevicePrimaryCtxRelease(CUdevice handle) {
  CUDAFRAME_SIM_CALL(init);
  if (handle != 0) return CUDA_ERROR_INVALID_DEVICE;
  if (device.context_users == 0) return CUDA_ERROR_INVALID_CONTEXT;
  if (--device.context_users == 0) device.destroy_context(call.lock());
  return CUDA_SUCCESS;
}

CUDAFRAME_SIM_EXPORT CUresult cuDevicePrimaryCtxGetState(CUdevice handle, unsigned* flags,
                                                         int* active) {
  CUDAFRAME_SIM_CALL(init);
  if (!flags || !active) return CUDA_ERROR_INVALID_VALUE;
  if (handle != 0) return CUDA_ERROR_INVALID_DEVICE;
  *flags = 0;
  *active = device.context_users > 0;
  return CUDA_SUCCESS;
}

CUDAFRAME_SIM_EXPORT CUresult cuCtxPushCurrent(CUcontext context) {
  CUDAFRAME_SIM_CALL(init);
  if (!context) return CUDA_ERROR_INVALID_VALUE;
  if (!device.is_context(context)) return CUDA_ERROR_INVALID_CONTEXT;
  context_stack().push_back(context);
  return CUDA_SUCCESS;
}

CUDAFRAME_SIM_EXPORT CUresult cuCtxPopCurrent(CUcontext* context) {
  CUDAFRAME_SIM_CALL(init);
  auto& stack = context_stack();
  if (stack.empty()) return CUDA_ERROR_INVALID_CONTEXT;
  if (context) *context = stack.back();
  stack.pop_back();
  return CUDA_SUCCESS;
}

CUDAFRAME_SIM_EXPORT CUresult cuCtxGetCurrent(CUcontext* context) {
  CUDAFRAME_SIM_CALL(init);
  if (!context) return CUDA_ERROR_INVALID_VALUE;
  *context = context_stack().empty() ? nullptr : context_stack().back();
  return CUDA_SUCCESS;
}

CUDAFRAME_SIM_EXPORT CUresult cuCtxSetCurrent(CUcontext context) {
  CUDAFRAME_SIM_CALL(init);
  if (context && !device.is_context(context)) return CUDA_ERROR_INVALID_CONTEXT;
  auto& stack = context_stack();
  if (!stack.empty()) stack.pop_back();
  if (context) stack.push_back(context);
  return CUDA_SUCCESS;
}

CUDAFRAME_SIM_EXPORT CUresult cuCtxGetDevice(CUdevice* handle) {
  CUDAFRAME_SIM_CALL(init);
  if (!handle) return CUDA_ERROR_INVALID_VALUE;
  if (context_stack().empty()) return CUDA_ERROR_INVALID_CONTEXT;
  *handle = 0;
  return CUDA_SUCCESS;
}

CUDAFRAME_SIM_EXPORT CUresult cuCtxSynchronize() {
  CUDAFRAME_SIM_CALL(context);
  return device.synchronize(call.lock());
}
