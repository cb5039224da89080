// SPDX-License-Identifier: LGPL-2.1-or-later
#include "demux/byte_source.h"

#include <cstdio>

extern "C" {
#include <libavformat/avio.h>
#include <libavutil/error.h>
#include <libavutil/mem.h>
}

namespace cudaframe::demux {
namespace {

// Large enough that a read from a file costs little, small enough that a seek throws little away.
constexpr int kBufferBytes = 128 * 1024;

}  // namespace

AvioReader::AvioReader(ByteSource& source) : source_(source) {
  auto* buffer = static_cast<unsigned char*>(av_malloc(kBufferBytes));
  if (!buffer) return;
  context_ = avio_alloc_context(buffer, kBufferBytes, 0, this, &AvioReader::read_callback, nullptr,
                                source.is_seekable() ? &AvioReader::seek_callback : nullptr);
  if (!context_) av_free(buffer);
}

AvioReader::~AvioReader() {
  if (!context_) return;
  av_freep(&context_->buffer);  // libavformat may have put another one in place of ours
  avio_context_free(&context_);
}

void AvioReader::reset() {
  failure_ = Status();
  met_end_ = false;
  context_->eof_reached = 0;
  context_->error = 0;
}

void AvioReader::drop_buffered() {
  context_->buf_ptr = context_->buf_end;
}

int AvioReader::read_callback(void* self, std::uint8_t* into, int size) {
  auto* reader = static_cast<AvioReader*>(self);
  if (reader->source_.interrupted()) return AVERROR_EXIT;
  const Result<std::size_t> got =
      reader->source_.read(std::span(into, static_cast<std::size_t>(size)));
  if (got.ok() && got.value() > 0) {
    reader->bytes_read_ += got.value();
    return static_cast<int>(got.value());
  }
  if (got.ok() || got.status().code() == StatusCode::end_of_stream) {
    reader->met_end_ = true;
    return AVERROR_EOF;
  }
  if (got.status().code() == StatusCode::flushing) return AVERROR_EXIT;
  reader->failure_ = got.status();
  return AVERROR(EIO);
}

std::int64_t AvioReader::seek_callback(void* self, std::int64_t offset, int whence) {
  auto* reader = static_cast<AvioReader*>(self);
  ByteSource& source = reader->source_;
  const std::optional<std::uint64_t> size = source.size();
  whence &= ~AVSEEK_FORCE;
  if (whence == AVSEEK_SIZE) return size ? static_cast<std::int64_t>(*size) : AVERROR(ENOSYS);
  if (whence == SEEK_END) {
    if (!size) return AVERROR(ENOSYS);
    offset += static_cast<std::int64_t>(*size);
  } else if (whence == SEEK_CUR) {
    offset += static_cast<std::int64_t>(source.position());
  } else if (whence != SEEK_SET) {
    return AVERROR(EINVAL);
  }
  if (offset < 0) return AVERROR(EINVAL);
  if (const Status status = source.seek(static_cast<std::uint64_t>(offset)); !status.ok()) {
    return status.code() == StatusCode::flushing ? AVERROR_EXIT : AVERROR(EIO);
  }
  return offset;
}

}  // namespace cudaframe::demux
