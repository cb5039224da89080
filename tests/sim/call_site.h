// SPDX-License-Identifier: LGPL-2.1-or-later
// Where in the program a driver call was made.
#pragma once

#include <array>
#include <cstddef>
#include <string>

namespace cudaframe::sim {

/// A few return addresses. Empty until captured.
class CallSite {
 public:
  /// Of the calling thread, from outside of this library on.
  static CallSite capture();
  /// "module+0xoffset (symbol) < …", innermost first; for addr2line.
  std::string text() const;

 private:
  static constexpr size_t kDepth = 6;
  std::array<void*, kDepth> frames_{};
  size_t count_ = 0;
};

}  // namespace cudaframe::sim
