// SPDX-License-Identifier: LGPL-2.1-or-later
#include "download/transfer.h"

#include "memory/frame_copy.h"

namespace cudaframe::download {

using memory::Frame;
using memory::FramePtr;
using memory::FrameView;

Result<std::unique_ptr<Transfer>> Transfer::create(cuda::Context& context) {
  Result<cuda::StreamPtr> stream = cuda::Stream::create(context);
  if (!stream) return stream.status();
  return std::unique_ptr<Transfer>(new Transfer(context, std::move(*stream)));
}

Transfer::Transfer(cuda::Context& context, cuda::StreamPtr stream)
    : context_(context),
      stream_(std::move(stream)),
      // Record-stream without a bound: whoever maps a frame needs the memory now.
      pinned_(memory::MemoryPolicy::create(memory::ReusePolicy::record_stream, context,
                                           memory::MemoryKind::pinned_host, {})) {}

Transfer::~Transfer() {
  pinned_->shut_down();
}

Status Transfer::copy_and_mark(const Frame& to, const Frame& from) {
  CUDAFRAME_TRY(
      memory::copy_async(context_, FrameView::of(to), FrameView::of(from), stream_->handle()));
  CUDAFRAME_TRY(to.fence().record_write(stream_));
  Result<cuda::EventPtr> done = context_.events().record(stream_->handle());
  if (!done) return done.status();
  return from.fence().add_reader({std::move(*done), stream_});
}

Result<FramePtr> Transfer::download(const Frame& frame) {
  Result<FramePtr> host = pinned_->allocate(frame.layout(), stream_);
  if (!host) return host;
  CUDAFRAME_TRY(frame.fence().wait(stream_));
  CUDAFRAME_TRY(copy_and_mark(**host, frame));
  return host;
}

Status Transfer::upload(const Frame& host, const Frame& frame) {
  CUDAFRAME_TRY(frame.fence().wait_to_write(stream_->handle()));
  return copy_and_mark(frame, host);
}

Result<FramePtr> Transfer::duplicate(const Frame& frame, memory::MemoryPolicy& policy) {
  Result<FramePtr> copy = policy.allocate(frame.layout(), stream_, /*bounded=*/false);
  if (!copy) return copy;
  CUDAFRAME_TRY(frame.fence().wait(stream_));
  CUDAFRAME_TRY(copy_and_mark(**copy, frame));
  return copy;
}

}  // namespace cudaframe::download
