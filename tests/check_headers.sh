#!/bin/sh
# SPDX-License-Identifier: LGPL-2.1-or-later
# Compiles each header alone, with the flags of a configured build: sh tests/check_headers.sh BUILD
set -eu
build=$(cd "$1" && pwd)
cd "$(dirname "$0")/.."
cuda=$(sh src/convert/find_cuda.sh)/include
flags="-std=c++20 -fno-exceptions -fno-rtti -Wall -Wextra -Werror -Isrc -Igst -I. -fsyntax-only
  $(pkg-config --cflags gstreamer-video-1.0 gstreamer-base-1.0 gstreamer-app-1.0 libavformat libavcodec ffnvcodec)"
failed=0
headers=$(find src gst tests/support -name '*.h' -o -path 'src/*.cuh')
for header in $headers; do
  # shellcheck disable=SC2086 # a list of words
  printf '#include "%s"\n' "$header" | ${CXX:-c++} $flags -isystem "$cuda" -I"$build/src" -x c++ - || {
    echo "does not compile alone: $header"
    failed=1
  }
done
# Applications may be written in C.
header=gst/cudaframe/cudaframe.h
# shellcheck disable=SC2046
printf '#include "%s"\n' "$header" | ${CC:-cc} -std=c11 -Wall -Werror -I. -fsyntax-only \
  $(pkg-config --cflags gstreamer-video-1.0) -isystem "$cuda" -x c - || {
  echo "does not compile as C: $header"
  failed=1
}
exit $failed
