// SPDX-License-Identifier: LGPL-2.1-or-later
// Where a demuxer gets its bytes from, and the AVIOContext that libavformat reads them through.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "base/result.h"

struct AVIOContext;

namespace cudaframe::demux {

/// A position in some bytes. Called from the demuxer's thread only, but for interrupted().
class ByteSource {
 public:
  virtual ~ByteSource() = default;

  /// Reads at most `into.size()` bytes at the position and moves it past them; waits for one at
  /// least. end_of_stream at the end, flushing when interrupted; any other failure is final and
  /// comes out of the demuxer as it is.
  virtual Result<std::size_t> read(std::span<std::uint8_t> into) = 0;
  /// Only where is_seekable(). Reads nothing; a position past the end makes the next read fail.
  virtual Status seek(std::uint64_t position) = 0;
  virtual std::uint64_t position() const = 0;
  /// Nothing where it isn't known (yet).
  virtual std::optional<std::uint64_t> size() = 0;
  /// Constant.
  virtual bool is_seekable() const = 0;
  /// Thread-safe. While true, read() fails with `flushing` and libavformat gives up its work.
  virtual bool interrupted() const = 0;
};

/// The AVIOContext over a source. Thread-bound.
class AvioReader {
 public:
  /// `source` must outlive the reader. context() is null when memory has run out.
  explicit AvioReader(ByteSource& source);
  ~AvioReader();
  AvioReader(const AvioReader&) = delete;
  AvioReader& operator=(const AvioReader&) = delete;

  AVIOContext* context() const { return context_; }
  ByteSource& source() const { return source_; }
  /// libavformat turns read failures into whatever suits it; this is the source's own, if any.
  const Status& failure() const { return failure_; }
  /// Whether a read since the last reset() met the end of the source.
  bool met_end() const { return met_end_; }
  std::uint64_t bytes_read() const { return bytes_read_; }
  /// Forgets end and failures, which libavformat would report for ever. Call before a seek.
  void reset();
  /// Drops what was read from the source and not yet used.
  void drop_buffered();

 private:
  static int read_callback(void* self, std::uint8_t* into, int size);
  static std::int64_t seek_callback(void* self, std::int64_t offset, int whence);

  ByteSource& source_;
  AVIOContext* context_ = nullptr;
  Status failure_;
  bool met_end_ = false;
  std::uint64_t bytes_read_ = 0;
};

}  // namespace cudaframe::demux
