// SPDX-License-Identifier: LGPL-2.1-or-later
#include "builtin_kernels.h"

namespace cudaframe::sim {

void register_builtin_kernels() {
  register_convert_kernels();
}

}  // namespace cudaframe::sim
