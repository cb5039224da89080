// SPDX-License-Identifier: LGPL-2.1-or-later
#include "base/result.h"

#include <cstring>

namespace cudaframe {

const char* to_string(StatusCode code) noexcept {
  switch (code) {
    case StatusCode::ok:
      return "ok";
    case StatusCode::flushing:
      return "flushing";
    case StatusCode::end_of_stream:
      return "end-of-stream";
    case StatusCode::not_supported:
      return "not-supported";
    case StatusCode::bad_data:
      return "bad-data";
    case StatusCode::out_of_memory:
      return "out-of-memory";
    case StatusCode::device_lost:
      return "device-lost";
    case StatusCode::invalid_argument:
      return "invalid-argument";
    case StatusCode::internal:
      return "internal";
  }
  return "unknown";
}

Status::Status(StatusCode code, std::string message, int native_error, const char* file, int line) {
  if (code == StatusCode::ok) return;
  detail_ =
      std::make_shared<const Detail>(Detail{code, std::move(message), native_error, file, line});
}

const std::string& Status::message() const noexcept {
  static const std::string* const empty = new std::string;  // never destroyed: see architecture.md
  return detail_ ? detail_->message : *empty;
}

std::string Status::dump() const {
  if (ok()) return "ok";
  const char* slash = std::strrchr(detail_->file, '/');
  std::string text = std::string(to_string(detail_->code)) + ": " + detail_->message;
  if (detail_->native_error != 0) {
    text += " (native error " + std::to_string(detail_->native_error) + ")";
  }
  return text + " [" + (slash ? slash + 1 : detail_->file) + ":" + std::to_string(detail_->line) +
         "]";
}

Status Status::with_context(const std::string& context) const {
  if (ok()) return *this;
  return Status(detail_->code, context + ": " + detail_->message, detail_->native_error,
                detail_->file, detail_->line);
}

}  // namespace cudaframe
