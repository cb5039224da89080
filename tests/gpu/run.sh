#!/bin/sh
# SPDX-License-Identifier: LGPL-2.1-or-later
# What only hardware can show, on a machine with an NVIDIA GPU:
#
#   sh tests/gpu/run.sh [BUILD [REPEATS]]
#
# BUILD: a configured and compiled build, or what stage.sh made. REPEATS: of the comparison.
# Last line: N passed, M failed, K skipped. Figures for docs/performance.md stand above it.
set -u
here=$(cd "$(dirname "$0")/../.." && pwd)
build=$(cd "${1:-$here/build}" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export GST_PLUGIN_PATH_1_0="$build/gst/elements" GST_REGISTRY_1_0="$work/registry.bin"
export CUDAFRAME_TEST_CLIP="$build/tests/support/clip.mp4"
[ ! -f "$build/bench.mp4" ] || export CUDAFRAME_BUSY_CLIP="$build/bench.mp4"
passed=0 failed=0 skipped=0

# check NAME COMMAND…: exit status 77 means skipped.
check() {
  name=$1
  shift
  echo "== $name"
  "$@"
  case $? in
    0) passed=$((passed + 1)) ;;
    77) skipped=$((skipped + 1)) ;;
    *)
      failed=$((failed + 1))
      echo "FAILED: $name"
      ;;
  esac
}

pipeline_into_pngs() {
  mkdir -p "$work/png"
  gst-launch-1.0 -q filesrc location="$CUDAFRAME_TEST_CLIP" ! cudademux ! cudapacketdec \
    ! cudacolorconvert ! video/x-raw,format=RGB ! pngenc \
    ! multifilesink location="$work/png/frame-%04d.png" || return 1
  count=$(find "$work/png" -name '*.png' -size +0 | wc -l)
  echo "$count of 60 frames"
  [ "$count" -eq 60 ]
}

example() {
  lines=$("$build/docs/examples/$1" "$CUDAFRAME_TEST_CLIP") || return 1
  echo "$lines"
  [ "$(echo "$lines" | grep -c ': 60 frames')" -eq 2 ]
}

if ! "$build/tests/support/device_line"; then
  echo "0 passed, 0 failed, 1 skipped"
  exit 77
fi
check "quickstart's pipeline" pipeline_into_pngs
check "two_streams" example two_streams
check "own_consumer" example own_consumer
for program in "$build/tests/unit/convert_test" "$build/tests/pipeline/frame_equality_test" \
  "$build"/tests/gpu/*_test; do
  [ -x "$program" ] && check "$(basename "$program")" "$program" --gtest_brief=1
done
if [ -f "$build/bench.mp4" ]; then
  check "comparison" python3 "$here/tests/bench/compare_decoders.py" "$build" "$build/bench.mp4" "${2:-5}"
fi
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" -eq 0 ]
