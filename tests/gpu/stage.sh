#!/bin/sh
# SPDX-License-Identifier: LGPL-2.1-or-later
# Copies what tests/gpu/run.sh runs out of a configured build, stripped, for a GPU host that has no
# compiler or no GStreamer development files:
#
#   sh tests/gpu/stage.sh BUILD STAGE [CLIP_FRAMES]
#
# CLIP_FRAMES: also make the 1080p comparison clip of that many frames (600 take about a minute).
# On the GPU host, next to the sources:  sh tests/gpu/run.sh STAGE
set -eu
build=$1
stage=$2
frames=${3:-0}
rm -rf "$stage.new"
for file in gst/elements/libgstcudaframe.so gst/cudaframe/libgstcudaframe-1.0.so.0 \
  docs/examples/two_streams docs/examples/own_consumer tests/support/device_line \
  tests/bench/bare_nvcuvid_loop tests/unit/convert_test \
  tests/pipeline/frame_equality_test $(cd "$build" && find tests/gpu -maxdepth 1 -type f -name "*_test"); do
  mkdir -p "$stage.new/$(dirname "$file")"
  cp -L "$build/$file" "$stage.new/$file"
  strip --strip-unneeded "$stage.new/$file"
done
mkdir -p "$stage.new/tests/support"
cp "$build/tests/support/clip.mp4" "$stage.new/tests/support/clip.mp4"
if [ "$frames" -gt 0 ]; then
  if [ -f "$stage/bench.mp4" ]; then
    cp "$stage/bench.mp4" "$stage.new/bench.mp4"
  else
    ffmpeg -y -hide_banner -loglevel error -nostdin -f lavfi -i testsrc2=size=1920x1080:rate=30 \
      -frames:v "$frames" -c:v libx264 -pix_fmt yuv420p -b:v 6M "$stage.new/bench.mp4"
  fi
fi
rm -rf "$stage"
mv "$stage.new" "$stage"
du -sh "$stage"
