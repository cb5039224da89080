// SPDX-License-Identifier: LGPL-2.1-or-later
#include "order_checker.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <string>

#include "violations.h"

namespace cudaframe::sim {
namespace {

std::string describe(const PastAccess& past) {
  char text[192];
  const Access& access = past.access;
  snprintf(text, sizeof text, "%s %s %zu x %zu bytes at 0x%zx (pitch %zu) on stream %p", past.call,
           access.is_write ? "writes" : "reads", access.width, access.height,
           static_cast<size_t>(access.address), access.pitch, past.stream);
  return std::string(text) + "\n    called from " + past.site.text();
}

}  // namespace

void OrderChecker::queued(StreamState& stream, Operation& operation, MemoryRegistry& memory) {
  if (!is_on_) return;
  stream.clock.join(host_);
  for (const CompletionPtr& before : operation.after) {
    if (before->clock) stream.clock.join(*before->clock);
  }
  PastAccess now;
  now.stream_id = stream.id;
  now.time = stream.clock.tick(stream.id);
  now.stream = stream.handle;
  now.call = operation.call;
  operation.completion->clock = std::make_shared<VectorClock>(stream.clock);
  if (operation.accesses.empty()) return;
  now.site = CallSite::capture();
  check(operation, now, memory);
}

void OrderChecker::check(const Operation& operation, const PastAccess& now,
                         MemoryRegistry& memory) {
  const VectorClock& clock = *operation.completion->clock;
  for (const Access& access : operation.accesses) {
    if (!access.is_registered || access.is_empty()) continue;
    PastAccess here = now;
    here.access = access;
    Allocation* allocation = memory.find_to_remember(access.address, access.span());
    if (!allocation) {
      violation("USE AFTER FREE, or outside of any allocation:\n  %s", describe(here).c_str());
      continue;
    }
    const bool is_decoders_own = strncmp(operation.call, "cuvid", 5) == 0;
    if (allocation->kind == MemoryKind::decoder && !allocation->is_mapped && !is_decoders_own) {
      violation("USE OF A SURFACE that is not mapped:\n  %s", describe(here).c_str());
    }
    for (const PastAccess& past : allocation->past) {
      const bool conflicts = past.access.is_write || access.is_write;
      if (!conflicts || past.time <= clock.at(past.stream_id)) continue;
      // Its own operation is in the past already when two of its accesses share an allocation.
      if (past.stream_id == here.stream_id && past.time == here.time) continue;
      if (!overlap(past.access, access)) continue;
      violation("RACE: nothing orders\n  %s\n  and then\n  %s", describe(past).c_str(),
                describe(here).c_str());
      break;  // one report for one access
    }
    remember(allocation->past, here, clock);
  }
}

// Note [What may be forgotten]: an access that comes before this one, to bytes that this one
// covers, if whatever conflicts with it conflicts with this one too. For a later access that the
// old one is not ordered with is not ordered with this one either.
void OrderChecker::remember(std::vector<PastAccess>& past, const PastAccess& now,
                            const VectorClock& clock) {
  past.erase(std::remove_if(past.begin(), past.end(),
                            [&](const PastAccess& old) {
                              if (old.time <= host_.at(old.stream_id)) return true;
                              const bool is_before = old.time <= clock.at(old.stream_id);
                              const bool replaces = now.access.is_write || !old.access.is_write;
                              return is_before && replaces && covers(now.access, old.access);
                            }),
             past.end());
  past.push_back(now);
}

void OrderChecker::host_knows(const Completion& completion) {
  if (is_on_ && completion.clock) host_.join(*completion.clock);
}

}  // namespace cudaframe::sim
