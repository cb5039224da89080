#!/bin/sh
# SPDX-License-Identifier: LGPL-2.1-or-later
# Installs a build into a folder of its own, then compiles and runs applications against nothing but
# what was installed, outside of the tree, on the simulated device: sh tests/check_install.sh BUILD
set -eu
here=$(cd "$(dirname "$0")/.." && pwd)
build=$(cd "$1" && pwd)
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT

fail() {
  echo "$*" >&2
  exit 1
}

DESTDIR="$root" meson install -C "$build" --no-rebuild > "$root/install.log" 2>&1 || {
  cat "$root/install.log" >&2
  exit 1
}
pc=$(find "$root" -name gstreamer-cudaframe-1.0.pc)
[ -n "$pc" ] || fail "no gstreamer-cudaframe-1.0.pc was installed"
libdir=$(dirname "$(dirname "$pc")")
[ -f "$libdir/gstreamer-1.0/libgstcudaframe.so" ] || fail "the plugin was not installed into $libdir"
stray=$(find "$root" -name 'libcuda.*' -o -name 'libnvcuvid.*' -o -name '*test*')
[ -z "$stray" ] || fail "parts of the tests were installed: $stray"
# As a relocated package does it; a sysroot would move GStreamer's own folders too.
sed -i "s|^prefix=|prefix=$root|" "$pc"

cd "$root"
cp "$here/docs/examples/two_streams.cpp" .
cat > application.c << 'END'
/* Takes NV12 frames in CUDA memory from an appsink and reads them through the public C API. */
#include <gst/app/gstappsink.h>
#include <gst/cudaframe/cudaframe.h>
#include <stdio.h>

int main(int argc, char **argv) {
  GstElement *pipeline, *source, *sink;
  GstSample *sample;
  int frames = 0;
  gst_init(&argc, &argv);
  pipeline = gst_parse_launch(
      "filesrc name=source ! cudademux ! cudapacketdec ! video/x-raw(memory:CUDAFrame),format=NV12 "
      "! appsink name=sink sync=false", NULL);
  if (argc != 2 || pipeline == NULL) return 2;
  source = gst_bin_get_by_name(GST_BIN(pipeline), "source");
  sink = gst_bin_get_by_name(GST_BIN(pipeline), "sink");
  g_object_set(source, "location", argv[1], NULL);
  gst_element_set_state(pipeline, GST_STATE_PLAYING);
  while ((sample = gst_app_sink_try_pull_sample(GST_APP_SINK(sink), 30 * GST_SECOND)) != NULL) {
    GstMemory *memory = gst_buffer_peek_memory(gst_sample_get_buffer(sample), 0);
    GstMapInfo map;
    if (!gst_is_cuda_frame_memory(memory) || !gst_memory_map(memory, &map, GST_MAP_READ)) return 1;
    if (map.size > 0) ++frames;
    gst_memory_unmap(memory, &map);
    gst_sample_unref(sample);
  }
  if (!gst_app_sink_is_eos(GST_APP_SINK(sink))) return 1;
  gst_element_set_state(pipeline, GST_STATE_NULL);
  gst_object_unref(source);
  gst_object_unref(sink);
  gst_object_unref(pipeline);
  printf("application: %d frames\n", frames);
  return 0;
}
END

export PKG_CONFIG_PATH="$libdir/pkgconfig"
cuda=$(sh "$here/src/convert/find_cuda.sh")
[ -n "$cuda" ] || fail "no <cuda.h>: set CUDA_HOME to the folder that the build was given"
for program in two_streams application; do
  # CUDA's types are an application's own business; so is finding <cuda.h>.
  case $program in
    two_streams) compiler="${CXX:-c++} -std=c++20" source=two_streams.cpp ;;
    *) compiler="${CC:-cc} -std=c11" source=application.c ;;
  esac
  # shellcheck disable=SC2046,SC2086 # lists of words
  $compiler -Wall -Wextra -Werror "$source" -o "$program" -isystem "$cuda/include" \
    $(pkg-config --cflags --libs gstreamer-cudaframe-1.0 gstreamer-app-1.0)
done

export GST_PLUGIN_PATH_1_0="$libdir/gstreamer-1.0" GST_REGISTRY_1_0="$root/registry.bin"
export LD_LIBRARY_PATH="$libdir:$build/tests/sim"
clip=$build/tests/support/clip.mp4
for program in two_streams application; do
  lines=$("./$program" "$clip") || fail "$program failed"
  echo "$lines"
  [ "$(echo "$lines" | grep -c ': 60 frames')" -gt 0 ] || fail "$program: not 60 frames"
done
gst-inspect-1.0 cudaframe | grep -q "Filename *$libdir/gstreamer-1.0" ||
  fail "another plugin than the installed one was found"
