// SPDX-License-Identifier: LGPL-2.1-or-later
// Prints the device that pipelines will use as quickstart.sh's first line. Exit status: 0 for a
// real one, 3 for none (the simulated one is to be used).

#include <cstdio>

#include "cuda/context.h"

int main() {
  using cudaframe::Result;
  const Result<cudaframe::cuda::Context*> context = cudaframe::cuda::Context::for_device(0);
  if (!context.ok()) {
    std::fprintf(stderr, "%s\n", context.status().message().c_str());
    std::puts("device: simulated (no NVIDIA GPU found; frames are real, timing is not)");
    return 3;
  }
  std::printf("device: %s, driver %s\n", (*context)->device_name().c_str(),
              cudaframe::cuda::driver_version((*context)->driver()).c_str());
  return 0;
}
