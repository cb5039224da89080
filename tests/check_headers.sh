#!/bin/sh
# SPDX-License-Identifier: LGPL-2.1-or-later
# Compiles each header alone, with the flags of a configured build: sh tests/check_headers.sh BUILD
set -eu
build=$1
flags="-std=c++20 -fno-exceptions -fno-rtti -Wall -Wextra -Werror -Isrc -Igst -I. -fsyntax-only
  $(pkg-config --cflags gstreamer-video-1.0 gstreamer-base-1.0 gstreamer-app-1.0 libavformat libavcodec ffnvcodec)
  -isystem $(sh src/convert/find_cuda.sh)/include"
failed=0
for header in $(git ls-files 'src/*.h' 'gst/*.h' 'tests/support/*.h' 'src/*.cuh'); do
  # shellcheck disable=SC2086 # a list of words
  printf '#include "%s"\n' "$header" | ${CXX:-c++} $flags -I"$build/src" -x c++ - || {
    echo "does not compile alone: $header"
    failed=1
  }
done
# Applications may be written in C.
for header in gst/cudaframe/cudaframe.h; do
  # shellcheck disable=SC2086,SC2046
  printf '#include "%s"\n' "$header" | ${CC:-cc} -std=c11 -Wall -Werror -I. -fsyntax-only \
    $(pkg-config --cflags gstreamer-video-1.0) -isystem "$(sh src/convert/find_cuda.sh)/include" -x c - || {
    echo "does not compile as C: $header"
    failed=1
  }
done
exit $failed
