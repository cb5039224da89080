// SPDX-License-Identifier: LGPL-2.1-or-later
#include "cuda/driver.h"

#include <dlfcn.h>

#include <cctype>
#include <cstdio>
#include <fstream>

#include "base/log.h"

namespace cudaframe::cuda {
namespace {

#define CUDAFRAME_TEXT_(name) #name
#define CUDAFRAME_TEXT(name) CUDAFRAME_TEXT_(name)

Status missing_symbol(const char* library, const char* symbol) {
  return Status(StatusCode::not_supported,
                std::string(library) + " has no " + symbol + ": the NVIDIA driver is too old");
}

Result<void*> open_library(const char* name, const char* hint) {
  if (void* handle = dlopen(name, RTLD_NOW | RTLD_LOCAL)) return handle;
  const char* why = dlerror();
  return Status(StatusCode::not_supported, std::string("can't load ") + name + " (" + hint +
                                               "): " + (why ? why : "unknown reason"));
}

Result<const Driver*> load_driver() {
  static constexpr char kLibrary[] = "libcuda.so.1";
  Result<void*> library = open_library(kLibrary, "it comes with the NVIDIA driver");
  if (!library) return library.status();
  auto* driver = new Driver;  // kept until the process ends
#define CUDAFRAME_LOOK_UP(name)                                                                   \
  driver->name = reinterpret_cast<decltype(driver->name)>(dlsym(*library, CUDAFRAME_TEXT(name))); \
  if (!driver->name) return missing_symbol(kLibrary, CUDAFRAME_TEXT(name));
  CUDAFRAME_CUDA_SYMBOLS(CUDAFRAME_LOOK_UP)
#undef CUDAFRAME_LOOK_UP
  CUDAFRAME_TRY(CUDAFRAME_CUDA(*driver, cuInit(0)));
  return driver;
}

Result<const CuvidDriver*> load_cuvid() {
  static constexpr char kLibrary[] = "libnvcuvid.so.1";
  Result<void*> library = open_library(
      kLibrary, "it comes with the NVIDIA driver; containers need the \"video\" capability");
  if (!library) return library.status();
  auto* driver = new CuvidDriver;  // kept until the process ends
#define CUDAFRAME_LOOK_UP(name, type)                             \
  driver->name = reinterpret_cast<type*>(dlsym(*library, #name)); \
  if (!driver->name) return missing_symbol(kLibrary, #name);
  CUDAFRAME_CUVID_SYMBOLS(CUDAFRAME_LOOK_UP)
#undef CUDAFRAME_LOOK_UP
  return driver;
}

StatusCode code_for(CUresult result) {
  switch (result) {
    case CUDA_ERROR_OUT_OF_MEMORY:
      return StatusCode::out_of_memory;
    case CUDA_ERROR_NO_DEVICE:
    case CUDA_ERROR_INVALID_DEVICE:
    case CUDA_ERROR_NOT_SUPPORTED:
    case CUDA_ERROR_NO_BINARY_FOR_GPU:
    case CUDA_ERROR_UNSUPPORTED_PTX_VERSION:
    case CUDA_ERROR_STUB_LIBRARY:
    case CUDA_ERROR_SYSTEM_DRIVER_MISMATCH:
      return StatusCode::not_supported;
    case CUDA_ERROR_ILLEGAL_ADDRESS:
    case CUDA_ERROR_LAUNCH_FAILED:
    case CUDA_ERROR_LAUNCH_TIMEOUT:
    case CUDA_ERROR_ECC_UNCORRECTABLE:
    case CUDA_ERROR_HARDWARE_STACK_ERROR:
    case CUDA_ERROR_CONTEXT_IS_DESTROYED:
    case CUDA_ERROR_SYSTEM_NOT_READY:
      return StatusCode::device_lost;
    case CUDA_ERROR_INVALID_VALUE:
      return StatusCode::invalid_argument;
    default:
      return StatusCode::internal;
  }
}

}  // namespace

Result<const Driver*> Driver::load() {
  static const auto* const outcome = new Result<const Driver*>(load_driver());
  return *outcome;
}

Result<const CuvidDriver*> CuvidDriver::load() {
  static const auto* const outcome = new Result<const CuvidDriver*>(load_cuvid());
  return *outcome;
}

Status Driver::check(CUresult result, const char* call, const char* file, int line) const {
  if (result == CUDA_SUCCESS || result == CUDA_ERROR_DEINITIALIZED) return {};
  const char* name = nullptr;
  const char* text = nullptr;
  if (cuGetErrorName(result, &name) != CUDA_SUCCESS) name = nullptr;
  if (cuGetErrorString(result, &text) != CUDA_SUCCESS) text = nullptr;
  return Status(code_for(result),
                std::string(call) + " failed: " + (name ? name : "unknown CUDA error") + " (" +
                    (text ? text : "no description") + ")",
                result, file, line);
}

std::string driver_version(const Driver& driver) {
  // "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.159.04  Release Build …"
  std::ifstream file("/proc/driver/nvidia/version");
  std::string word;
  while (file >> word) {
    if (std::isdigit(static_cast<unsigned char>(word[0])) && word.find('.') != std::string::npos &&
        word.find_first_not_of("0123456789.") == std::string::npos) {
      return word;
    }
  }
  int version = 0;
  if (driver.cuDriverGetVersion(&version) != CUDA_SUCCESS) return "unknown";
  return "CUDA " + std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

}  // namespace cudaframe::cuda
