#!/bin/sh
# SPDX-License-Identifier: LGPL-2.1-or-later
# The main job in one command: sh docs/quickstart.sh [VIDEO]
#
# Installs what is missing, builds, decodes VIDEO (or a test clip that it makes) into
# quickstart-out/frame-%04d.png with a plain gst-launch-1.0 pipeline, and runs the two example
# programs. Works with and without an NVIDIA GPU; the first line says which. Progress goes to stderr.
set -eu
start=$PWD
here=$(cd "$(dirname "$0")/.." && pwd)
video=${1:-}
case $video in "" | /*) ;; *) video=$start/$video ;; esac
if [ -n "$video" ] && [ ! -r "$video" ]; then
  echo "can't read $video" >&2
  exit 1
fi
cd "$here"
# shellcheck source=docs/setup.sh
. docs/setup.sh
build_dir=${BUILD_ROOT:-$here/build}
out=$here/quickstart-out

# shellcheck disable=SC2086 # a list of words
prepare "$here" $BUILD_PACKAGES
build "$here" "$build_dir"

export GST_PLUGIN_PATH_1_0="$build_dir/gst/elements"
export GST_REGISTRY_1_0="$build_dir/quickstart-registry.bin"
if "$build_dir/tests/support/device_line" 2> /dev/null; then
  :
else
  # The simulated driver; a registry of its own, because other plugins probe the driver too.
  export LD_LIBRARY_PATH="$build_dir/tests/sim${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
  export GST_REGISTRY_1_0="$build_dir/quickstart-registry-simulated.bin"
fi

rm -rf "$out"
mkdir -p "$out"
if [ -z "$video" ]; then
  video=$out/clip.mp4
  ffmpeg -y -hide_banner -loglevel error -nostdin -f lavfi \
    -i testsrc2=size=1280x720:rate=30:duration=2 -c:v libx264 -pix_fmt yuv420p -g 30 "$video"
fi
expected=$(ffprobe -v error -select_streams V:0 -count_frames \
  -show_entries stream=nb_read_frames -of default=nokey=1:noprint_wrappers=1 "$video" | head -n 1)

set -- filesrc location="$video" ! cudademux ! cudapacketdec ! cudacolorconvert \
  ! video/x-raw,format=RGB ! pngenc ! multifilesink location="$out/frame-%04d.png"
echo "gst-launch-1.0 $*"
gst-launch-1.0 -q "$@"
arrived=$(find "$out" -name 'frame-*.png' -size +0 | wc -l)
echo "pipeline: $arrived of $expected frames in $out"

status=0
[ "$arrived" -eq "$expected" ] || status=1
for example in two_streams own_consumer; do
  lines=$("$build_dir/docs/examples/$example" "$video") || status=1
  echo "$lines"
  echo "$lines" | grep -q ": $expected frames" || status=1
done
[ $status -eq 0 ] || echo "Not every frame arrived." >&2
exit $status
