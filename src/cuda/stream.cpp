// SPDX-License-Identifier: LGPL-2.1-or-later
#include "cuda/stream.h"

#include "base/log.h"

namespace cudaframe::cuda {

Result<StreamPtr> Stream::create(Context& context) {
  ContextScope scope(context);
  CUDAFRAME_TRY(scope.status());
  CUstream handle = nullptr;
  CUDAFRAME_TRY(CUDAFRAME_CUDA(context.driver(), cuStreamCreate(&handle, CU_STREAM_NON_BLOCKING)));
  return StreamPtr(new Stream(context, handle, true));
}

Result<StreamPtr> Stream::wrap(Context& context, CUstream handle) {
  if (handle == CU_STREAM_PER_THREAD) {
    return Status(StatusCode::invalid_argument,
                  "the per-thread default stream can't be used: elements run on several threads");
  }
  return StreamPtr(new Stream(context, handle, false));
}

Stream::~Stream() {
  if (!owned_) return;
  ContextScope scope(context_);
  const Status status = CUDAFRAME_CUDA(context_.driver(), cuStreamDestroy(handle_));
  if (!status.ok()) log(LogLevel::warning, "cuda", "%s", status.dump().c_str());
}

}  // namespace cudaframe::cuda
