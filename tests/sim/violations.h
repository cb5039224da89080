// SPDX-License-Identifier: LGPL-2.1-or-later
// What the simulated device has to say about the program.
#pragma once

#include <cstddef>
#include <string>

namespace cudaframe::sim {

/// One line on stderr, prefixed.
void report(const char* format, ...) __attribute__((format(printf, 1, 2)));

/// The program has broken a rule. Printed; counted as well, and turned into the exit status at the
/// end, once count_violations() was called.
void violation(const char* format, ...) __attribute__((format(printf, 1, 2)));

/// From now on: in the modes that check.
void count_violations();

size_t violation_count();
/// Forgets them; their texts, one after the other.
std::string take_violations(size_t* count);

}  // namespace cudaframe::sim
