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
if [ -n "$video" ] && { [ ! -f "$video" ] || [ ! -r "$video" ]; }; then
  echo "There is no file $video that can be read." >&2
  exit 1
fi
cd "$here"
# shellcheck source=docs/setup.sh
. docs/setup.sh
build_dir=${BUILD_ROOT:-$here/build}
out=$here/quickstart-out
errors=$(mktemp)
trap 'rm -f "$errors"' EXIT

# probe ENTRY [OPTION…]: what FFmpeg says of the first video stream.
probe() {
  entry=$1
  shift
  ffprobe -v error -select_streams V:0 -show_entries "stream=$entry" "$@" \
    -of default=nokey=1:noprint_wrappers=1 "$video" 2> "$errors" | head -n 1
}

# in_shell WORDS…: as one would type them.
in_shell() {
  for word in "$@"; do
    case $word in
      *[!A-Za-z0-9_./=%,:+!-]*) printf " '%s'" "$(printf '%s' "$word" | sed "s/'/'\\\\''/g")" ;;
      *) printf ' %s' "$word" ;;
    esac
  done
}

# launch WORDS…: gst-launch-1.0, ended when it stays after an error: on one that comes early, version
# 1.22 sometimes waits for ever, whatever the elements.
launch() {
  LC_ALL=C gst-launch-1.0 -q "$@" 2> "$errors" &
  while kill -0 $! 2> /dev/null; do
    if grep -q '^ERROR' "$errors"; then
      sleep 1
      kill $! 2> /dev/null || true
      break
    fi
    sleep 0.1
  done
  launched=0
  wait $! || launched=$?
  cat "$errors" >&2
  return $launched
}

# shellcheck disable=SC2086 # a list of words
prepare "$here" $BUILD_PACKAGES
if [ -n "$video" ]; then
  codec=$(probe codec_name)
  if [ "$codec" != h264 ]; then
    echo "H.264 video is needed, and $video has ${codec:-no video that FFmpeg can read}." >&2
    exit 1
  fi
fi
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

mkdir -p "$out"
rm -f "$out"/frame-*.png
if [ -z "$video" ]; then
  video=$out/clip.mp4
  ffmpeg -y -hide_banner -loglevel error -nostdin -f lavfi \
    -i testsrc2=size=1280x720:rate=30:duration=2 -c:v libx264 -pix_fmt yuv420p -g 30 "$video"
fi
status=0
expected=$(probe nb_read_frames -count_frames)
case $expected in "" | *[!0-9]*) expected=0 ;; esac
if [ -s "$errors" ]; then
  # Frames are missing that nobody can count.
  echo "$video is damaged or cut off; FFmpeg says: $(head -n 1 "$errors")" >&2
  status=1
fi

set -- filesrc location="$video" ! cudademux ! cudapacketdec ! cudacolorconvert \
  ! video/x-raw,format=RGB ! pngenc ! multifilesink location="$out/frame-%04d.png"
echo "gst-launch-1.0$(in_shell "$@")"
if ! launch "$@"; then
  echo "The pipeline failed." >&2
  exit 1
fi
arrived=$(find "$out" -name 'frame-*.png' -size +0 | wc -l)
echo "pipeline: $arrived of $expected frames in $out"

[ "$arrived" -gt 0 ] && [ "$arrived" -eq "$expected" ] || status=1
for example in two_streams own_consumer; do
  lines=$("$build_dir/docs/examples/$example" "$video") || status=1
  echo "$lines"
  [ "$(echo "$lines" | grep -c ": $expected frames")" -eq 2 ] || status=1
done
[ $status -eq 0 ] || echo "Not every frame arrived." >&2
exit $status
