// SPDX-License-Identifier: LGPL-2.1-or-later
#include "decode/decoder_cache.h"

#include <algorithm>

#include "base/log.h"

namespace cudaframe::decode {

DecoderCache& DecoderCache::instance() {
  static auto* const cache = new DecoderCache;
  return *cache;
}

Result<std::unique_ptr<NvdecDecoder>> DecoderCache::acquire(const cuda::StreamPtr& stream,
                                                            const DecoderSpec& spec) {
  Idle found;
  {
    MutexLock lock(mutex_);
    const auto match = std::find_if(idle_.begin(), idle_.end(), [&](const Idle& idle) {
      return &idle.decoder->context() == &stream->context() && idle.decoder->spec() == spec;
    });
    if (match != idle_.end()) {
      found = std::move(*match);
      idle_.erase(match);
    }
  }
  if (!found.decoder) return NvdecDecoder::create(stream->context(), spec);
  const Status ordered = found.last_read->make_stream_wait(stream->handle());
  if (!ordered.ok()) return ordered;
  found.decoder->forget_pictures();
  return std::move(found.decoder);
}

void DecoderCache::release(std::unique_ptr<NvdecDecoder> decoder, const cuda::StreamPtr& stream) {
  Result<cuda::EventPtr> last_read = stream->context().events().record(stream->handle());
  if (!last_read) {  // a lost device: nothing on it is worth keeping
    log(LogLevel::warning, "decode", "%s", last_read.status().dump().c_str());
    return;
  }
  std::list<Idle> surplus;
  {
    MutexLock lock(mutex_);
    idle_.push_back({std::move(decoder), std::move(*last_read)});
    if (idle_.size() > kCapacity) surplus.splice(surplus.begin(), idle_, idle_.begin());
  }
  for (Idle& idle : surplus) destroy(std::move(idle));
}

void DecoderCache::destroy(Idle idle) {
  const Status done = idle.last_read->synchronize();
  if (!done.ok()) log(LogLevel::warning, "decode", "%s", done.dump().c_str());
  idle.decoder.reset();
}

void DecoderCache::clear() {
  std::list<Idle> all;
  {
    MutexLock lock(mutex_);
    all.swap(idle_);
  }
  for (Idle& idle : all) destroy(std::move(idle));
}

std::size_t DecoderCache::size() const {
  MutexLock lock(mutex_);
  return idle_.size();
}

}  // namespace cudaframe::decode
