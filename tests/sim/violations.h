// SPDX-License-Identifier: LGPL-2.1-or-later
// What the simulated device has to say about the program.
#pragma once

#include <cstddef>
#include <string>

namespace cudaframe::sim {

/// One line on stderr, prefixed.
void report(const char* format, ...) __attribute__((format(printf, 1, 2)));

/// The program has broken a rule. Printed; while they count (in the modes that check), it is also
/// kept, and makes the process fail at its end.
void violation(const char* format, ...) __attribute__((format(printf, 1, 2)));

void count_violations(bool count);

/// Safe at any time, also while the library is being unloaded.
size_t violation_count();
/// Forgets them; their texts, one after the other.
std::string take_violations(size_t* count);

}  // namespace cudaframe::sim
