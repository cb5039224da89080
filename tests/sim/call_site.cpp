// SPDX-License-Identifier: LGPL-2.1-or-later
#include "call_site.h"

#include <dlfcn.h>
#include <execinfo.h>

#include <cstdio>
#include <cstring>

namespace cudaframe::sim {
namespace {

constexpr int kDeepest = 24;

/// Whether the code at this address belongs to the simulator itself.
bool is_own(void* address) {
  static const void* const own = [] {
    Dl_info info{};
    return dladdr(reinterpret_cast<void*>(&CallSite::capture), &info) ? info.dli_fbase : nullptr;
  }();
  Dl_info info{};
  if (!dladdr(address, &info)) return false;
  return info.dli_fbase == own || strstr(info.dli_fname, "libnvcuvid.so");
}

}  // namespace

CallSite CallSite::capture() {
  void* frames[kDeepest];
  const int depth = backtrace(frames, kDeepest);
  CallSite site;
  // A sanitizer's backtrace() stands in front of our own frames.
  int first = 0;
  while (first < depth && !is_own(frames[first])) ++first;
  while (first < depth && is_own(frames[first])) ++first;
  for (int i = first; i < depth && site.count_ < kDepth; ++i)
    site.frames_[site.count_++] = frames[i];
  return site;
}

std::string CallSite::text() const {
  std::string text;
  for (size_t i = 0; i < count_; ++i) {
    Dl_info info{};
    char line[256];
    if (dladdr(frames_[i], &info) && info.dli_fname) {
      const char* slash = strrchr(info.dli_fname, '/');
      // One byte back: inside the call, not behind it.
      const auto offset = static_cast<char*>(frames_[i]) - static_cast<char*>(info.dli_fbase) - 1;
      snprintf(line, sizeof line, "%s+0x%tx%s%s%s", slash ? slash + 1 : info.dli_fname, offset,
               info.dli_sname ? " (" : "", info.dli_sname ? info.dli_sname : "",
               info.dli_sname ? ")" : "");
    } else {
      snprintf(line, sizeof line, "%p", frames_[i]);
    }
    if (!text.empty()) text += " < ";
    text += line;
  }
  return text;
}

}  // namespace cudaframe::sim
