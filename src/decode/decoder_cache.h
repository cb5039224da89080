// SPDX-License-Identifier: LGPL-2.1-or-later
// Idle decoders, kept for the next stream of the same kind: making one takes 40 ms and destroying
// one up to 250 ms, one after the other across the process.
#pragma once

#include <cstdint>
#include <list>
#include <memory>

#include "base/mutex.h"
#include "cuda/event.h"
#include "decode/nvdec_decoder.h"

namespace cudaframe::decode {

/// Thread-safe. One for the process, for its life; the mutex is held for list operations only.
class DecoderCache {
 public:
  static constexpr std::size_t kCapacity = 4;

  static DecoderCache& instance();

  /// An idle decoder with exactly this spec, or a new one. Stream: `stream`, which will map its
  /// pictures, waits for the reads of the surfaces that its last user queued.
  Result<std::unique_ptr<NvdecDecoder>> acquire(const cuda::StreamPtr& stream,
                                                const DecoderSpec& spec);

  /// Keeps a decoder of which no picture is mapped. Stream: reads of its surfaces are queued on
  /// `stream`. Destroys the one that has been idle longest when there are too many, and blocks
  /// then.
  void release(std::unique_ptr<NvdecDecoder> decoder, const cuda::StreamPtr& stream);

  /// Destroys all idle decoders. Blocks.
  void clear();

  std::size_t size() const;

 private:
  struct Idle {
    std::unique_ptr<NvdecDecoder> decoder;
    cuda::EventPtr last_read;
  };

  DecoderCache() = default;
  ~DecoderCache() = delete;  // process lifetime: no driver call after main()
  static void destroy(Idle idle);

  mutable Mutex mutex_;
  std::list<Idle> idle_ GUARDED_BY(mutex_);  ///< Longest idle first.
};

}  // namespace cudaframe::decode
