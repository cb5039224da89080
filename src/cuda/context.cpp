// SPDX-License-Identifier: LGPL-2.1-or-later
#include "cuda/context.h"

#include <map>

#include "base/log.h"
#include "base/mutex.h"
#include "cuda/event.h"

namespace cudaframe::cuda {

Context::Context(const Driver& driver, CUcontext handle, int ordinal, std::string device_name)
    : driver_(driver),
      handle_(handle),
      ordinal_(ordinal),
      device_name_(std::move(device_name)),
      events_(new EventPool(*this)) {}

Result<Context*> Context::create(int ordinal) {
  Result<const Driver*> loaded = Driver::load();
  if (!loaded) return loaded.status();
  const Driver& driver = **loaded;
  int count = 0;
  CUDAFRAME_TRY(CUDAFRAME_CUDA(driver, cuDeviceGetCount(&count)));
  if (ordinal >= count) {
    return Status(StatusCode::not_supported, "there is no CUDA device " + std::to_string(ordinal) +
                                                 ": the driver sees " + std::to_string(count));
  }
  CUdevice device = 0;
  CUDAFRAME_TRY(CUDAFRAME_CUDA(driver, cuDeviceGet(&device, ordinal)));
  char name[128] = "";
  CUDAFRAME_TRY(CUDAFRAME_CUDA(driver, cuDeviceGetName(name, sizeof name, device)));
  CUcontext handle = nullptr;
  CUDAFRAME_TRY(CUDAFRAME_CUDA(driver, cuDevicePrimaryCtxRetain(&handle, device)));
  return new Context(driver, handle, ordinal, name);
}

Result<Context*> Context::for_device(int ordinal) {
  struct Registry {
    Mutex mutex;
    std::map<int, Context*> contexts GUARDED_BY(mutex);
  };
  static auto* const registry = new Registry;  // never destroyed: see Context
  if (ordinal < 0) ordinal = 0;
  MutexLock lock(registry->mutex);
  auto& entry = registry->contexts[ordinal];
  if (entry) return entry;
  Result<Context*> made = create(ordinal);
  if (made) entry = *made;
  return made;
}

ContextScope::ContextScope(const Context& context)
    : context_(context),
      status_(CUDAFRAME_CUDA(context.driver(), cuCtxPushCurrent(context.handle()))) {}

ContextScope::~ContextScope() {
  if (!status_.ok()) return;
  CUcontext popped = nullptr;
  const Status status = CUDAFRAME_CUDA(context_.driver(), cuCtxPopCurrent(&popped));
  if (!status.ok()) log(LogLevel::warning, "cuda", "%s", status.dump().c_str());
}

}  // namespace cudaframe::cuda
