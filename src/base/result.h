// SPDX-License-Identifier: LGPL-2.1-or-later
// How the core reports failure: Status (a code and a message) and Result<T> (a value or a Status).
#pragma once

#include <cassert>
#include <memory>
#include <optional>
#include <string>
#include <utility>

namespace cudaframe {

/// Chosen by what the *caller* does about it, not by what went wrong inside.
enum class StatusCode {
  ok,
  flushing,          ///< Interrupted by a flush or a stop; no message to the user.
  end_of_stream,     ///< Nothing more will come.
  not_supported,     ///< The device, the driver or this build can't do it. Retrying won't help.
  bad_data,          ///< The input is damaged; later input may be fine.
  out_of_memory,     ///< Device or host memory, or the configured bound, is used up.
  device_lost,       ///< The context is unusable (sticky error); nothing on it works any more.
  invalid_argument,  ///< The caller broke the contract.
  internal,          ///< A bug here or in the driver.
};

/// The code's name as it stands in messages, such as "not-supported".
const char* to_string(StatusCode code) noexcept;

/// Success costs a null pointer. Copies share the detail. Reentrant.
class [[nodiscard]] Status {
 public:
  Status() noexcept = default;
  Status(StatusCode code, std::string message, int native_error = 0,
         const char* file = __builtin_FILE(), int line = __builtin_LINE());

  bool ok() const noexcept { return !detail_; }
  explicit operator bool() const noexcept { return ok(); }
  StatusCode code() const noexcept { return detail_ ? detail_->code : StatusCode::ok; }
  /// A sentence for the user, without a final stop. Empty on success.
  const std::string& message() const noexcept;
  /// The CUresult or AVERROR behind it; 0 where there is none.
  int native_error() const noexcept { return detail_ ? detail_->native_error : 0; }
  /// Everything for the log: code, message, native error, and where it was made.
  std::string dump() const;
  /// The same failure with "context: " in front of the message; success stays success.
  Status with_context(const std::string& context) const;

 private:
  struct Detail {
    StatusCode code;
    std::string message;
    int native_error;
    const char* file;
    int line;
  };
  std::shared_ptr<const Detail> detail_;
};

/// A T or the Status that says why there is none. Never holds an ok Status.
template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : value_(std::move(value)) {}  // NOLINT: implicit on purpose
  Result(Status status) : status_(std::move(status)) { assert(!status_.ok()); }  // NOLINT

  bool ok() const noexcept { return value_.has_value(); }
  explicit operator bool() const noexcept { return ok(); }
  const Status& status() const noexcept { return status_; }

  T& value() & noexcept { return *value_; }
  const T& value() const& noexcept { return *value_; }
  T&& value() && noexcept { return std::move(*value_); }
  T& operator*() & noexcept { return *value_; }
  const T& operator*() const& noexcept { return *value_; }
  T&& operator*() && noexcept { return std::move(*value_); }
  T* operator->() noexcept { return &*value_; }
  const T* operator->() const noexcept { return &*value_; }

 private:
  std::optional<T> value_;
  Status status_;
};

}  // namespace cudaframe

/// Leaves the calling function with the Status of `expr` when it failed.
#define CUDAFRAME_TRY(expr)                                            \
  do {                                                                 \
    if (::cudaframe::Status try_status_ = (expr); !try_status_.ok()) { \
      return try_status_;                                              \
    }                                                                  \
  } while (false)
