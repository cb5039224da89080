// SPDX-License-Identifier: LGPL-2.1-or-later
// The CPU twins that the simulator brings along.
#pragma once

namespace cudaframe::sim {

/// Registers them through cudaframe_sim_register_kernel(). Called once, from the first cuInit,
/// without any lock held.
void register_builtin_kernels();

/// The kernels of src/convert.
void register_convert_kernels();

}  // namespace cudaframe::sim
