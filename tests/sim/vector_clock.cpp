// SPDX-License-Identifier: LGPL-2.1-or-later
#include "vector_clock.h"

#include <algorithm>

namespace cudaframe::sim {

uint64_t VectorClock::at(uint32_t stream) const {
  const auto found = std::lower_bound(entries_.begin(), entries_.end(), Entry{stream, 0});
  return found != entries_.end() && found->first == stream ? found->second : 0;
}

uint64_t VectorClock::tick(uint32_t stream) {
  auto found = std::lower_bound(entries_.begin(), entries_.end(), Entry{stream, 0});
  if (found == entries_.end() || found->first != stream) {
    found = entries_.insert(found, {stream, 0});
  }
  return ++found->second;
}

void VectorClock::join(const VectorClock& other) {
  std::vector<Entry> joined;
  joined.reserve(entries_.size() + other.entries_.size());
  auto a = entries_.begin();
  auto b = other.entries_.begin();
  while (a != entries_.end() && b != other.entries_.end()) {
    if (a->first == b->first) {
      joined.emplace_back(a->first, std::max(a->second, b->second));
      ++a;
      ++b;
    } else {
      joined.push_back(a->first < b->first ? *a++ : *b++);
    }
  }
  joined.insert(joined.end(), a, entries_.end());
  joined.insert(joined.end(), b, other.entries_.end());
  entries_ = std::move(joined);
}

}  // namespace cudaframe::sim
