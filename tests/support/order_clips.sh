#!/bin/sh
# SPDX-License-Identifier: LGPL-2.1-or-later
# Makes the clips of the tests in tests/order: order_clips.sh FOLDER STAMP
set -eu
mkdir -p "$1"
# encode SIZE FRAMES FILE
encode() {
  ffmpeg -hide_banner -loglevel error -nostdin -y -f lavfi -i "testsrc2=size=$1:rate=25" \
    -frames:v "$2" -c:v libx264 -pix_fmt yuv420p -bf 2 -g 10 -threads 1 \
    -fflags +bitexact -flags:v +bitexact "$3"
}
encode 64x64 30 "$1/plain.mp4"
encode 64x64 30 "$1/plain.h264"
# A byte stream that changes its size twice.
encode 64x64 10 "$1/a.h264"
encode 96x48 10 "$1/b.h264"
cat "$1/a.h264" "$1/b.h264" "$1/a.h264" > "$1/change.h264"
: > "$2"
