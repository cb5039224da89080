// SPDX-License-Identifier: LGPL-2.1-or-later
// Frames with known contents, for tests that look at what streams did to memory.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>

#include "cuda/context.h"
#include "cuda/stream.h"
#include "memory/frame.h"
#include "memory/frame_copy.h"
#include "memory/memory_policy.h"

namespace cudaframe::test {

template <typename T>
T must(Result<T> result) {
  EXPECT_TRUE(result.ok()) << result.status().dump();
  if (!result.ok()) std::abort();
  return std::move(*result);
}

#define EXPECT_OK(expr)                                        \
  do {                                                         \
    const ::cudaframe::Status expect_status_ = (expr);         \
    EXPECT_TRUE(expect_status_.ok()) << expect_status_.dump(); \
  } while (false)

/// Host memory that streams copy from and to.
class HostBuffer {
 public:
  HostBuffer(cuda::Context& context, const memory::FrameLayout& layout, int value) {
    policy_ = memory::MemoryPolicy::create(memory::ReusePolicy::record_stream, context,
                                           memory::MemoryKind::pinned_host, {});
    frame_ = must(policy_->allocate(layout, must(cuda::Stream::create(context))));
    std::fill_n(bytes(), layout.bytes, static_cast<std::byte>(value));
  }
  std::byte* bytes() { return frame_->host_address() - frame_->layout().planes[0].offset; }
  memory::FrameView view() { return memory::FrameView::of(*frame_); }
  /// Whether every sample (padding apart) has this value. The copy into it must be done.
  bool is_all(int value) {
    const memory::FrameLayout& layout = frame_->layout();
    for (int i = 0; i < layout.plane_count; ++i) {
      const memory::PlaneLayout& plane = layout.planes[static_cast<std::size_t>(i)];
      for (std::size_t row = 0; row < plane.rows; ++row) {
        const std::byte* begin = bytes() + plane.offset + row * plane.pitch;
        if (!std::all_of(begin, begin + plane.row_bytes,
                         [&](std::byte b) { return b == static_cast<std::byte>(value); })) {
          return false;
        }
      }
    }
    return true;
  }

 private:
  std::shared_ptr<memory::MemoryPolicy> policy_;
  memory::FramePtr frame_;
};

/// Stream: `stream`; records the write.
inline void queue_write(const memory::Frame& frame, HostBuffer& from,
                        const cuda::StreamPtr& stream) {
  EXPECT_OK(memory::copy_async(frame.context(), memory::FrameView::of(frame), from.view(),
                               stream->handle()));
  EXPECT_OK(frame.fence().record_write(stream));
}

/// Stream: `stream`; orders nothing.
inline void queue_read(const memory::Frame& frame, HostBuffer& to, const cuda::StreamPtr& stream) {
  EXPECT_OK(memory::copy_async(frame.context(), to.view(), memory::FrameView::of(frame),
                               stream->handle()));
}

inline void synchronize(const cuda::StreamPtr& stream) {
  const cuda::EventPtr event = must(stream->context().events().record(stream->handle()));
  EXPECT_OK(event->synchronize());
}

}  // namespace cudaframe::test
