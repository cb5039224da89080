#!/bin/sh
# SPDX-License-Identifier: LGPL-2.1-or-later
# Prints the folder of the CUDA toolkit, or nothing: CUDA_HOME, then nvcc in PATH, then the usual
# folders, then the private folder that docs/quickstart.sh fills.
here=$(cd "$(dirname "$0")/../.." && pwd)
nvcc=$(command -v nvcc 2>/dev/null) && nvcc=$(dirname "$(dirname "$(readlink -f "$nvcc")")")
for dir in "${CUDA_HOME:-}" "$nvcc" /usr/local/cuda /opt/cuda "$here/.cuda"; do
  if [ -n "$dir" ] && [ -e "$dir/include/cuda.h" ]; then
    echo "$dir"
    exit 0
  fi
done
exit 0
