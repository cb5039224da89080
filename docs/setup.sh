# SPDX-License-Identifier: LGPL-2.1-or-later
# Sourced by docs/quickstart.sh and tests/run.sh: installs what is missing. Debian 12 or later, or
# Ubuntu 24.04 or later; elsewhere, install the packages' counterparts and the scripts find nothing
# missing.

# What building and running needs, and what only the full test run needs on top.
# (dpkg-dev: Meson asks it for the folder of libraries.)
BUILD_PACKAGES="g++ dpkg-dev meson ninja-build pkg-config ffmpeg
  libgstreamer1.0-dev libgstreamer-plugins-base1.0-dev libgstreamer-plugins-bad1.0-dev
  gstreamer1.0-tools gstreamer1.0-plugins-base gstreamer1.0-plugins-good gstreamer1.0-plugins-bad
  libavformat-dev libavcodec-dev libavutil-dev libffmpeg-nvenc-dev
  libgtest-dev libgmock-dev"
# (libc6-dbg: without names in ld.so's frames, tests/lsan.supp fits nothing.)
CHECK_PACKAGES="clang clang-format libc6-dbg python3"

say() { printf '%s\n' "$*" >&2; }

# install_packages NAMES…: those that are missing.
install_packages() {
  command -v dpkg-query > /dev/null 2>&1 || return 0
  missing=""
  for package in "$@"; do
    case $(dpkg-query -W -f '${Status}' "$package" 2> /dev/null) in
      *"install ok installed") ;;
      *) missing="$missing $package" ;;
    esac
  done
  [ -n "$missing" ] || return 0
  as_root=""
  if [ "$(id -u)" -ne 0 ]; then
    if ! command -v sudo > /dev/null 2>&1; then
      say "Please install these packages as root, then run this again:$missing"
      return 1
    fi
    as_root=sudo
  fi
  say "installing:$missing"
  # shellcheck disable=SC2086 # a list of words
  $as_root apt-get update -qq > /dev/null &&
    $as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends \
      $missing > /dev/null && return 0
  say "The packages could not be installed (see above). Please install them, then run this again:$missing"
  return 1
}

# fetch_cuda FOLDER: NVIDIA's compiler and headers (about 250 MB) from the Python package registry.
# The version is one that drivers of the 580 series and later accept.
fetch_cuda() {
  install_packages python3 python3-pip || return 1
  say "fetching NVIDIA's CUDA compiler (once, into $1)"
  wheels=$(mktemp -d) || return 1
  python3 -m pip download -qq --no-deps --only-binary=:all: -d "$wheels" 'nvidia-cuda-nvcc==13.0.*' \
    'nvidia-cuda-crt==13.0.*' 'nvidia-nvvm==13.0.*' 'nvidia-cuda-runtime==13.0.*' &&
    for wheel in "$wheels"/*.whl; do
      python3 -m zipfile -e "$wheel" "$wheels/unpacked" || return 1
    done &&
    chmod +x "$wheels"/unpacked/nvidia/cu13/bin/* "$wheels"/unpacked/nvidia/cu13/nvvm/bin/* &&
    rm -rf "$1" && mv "$wheels/unpacked/nvidia/cu13" "$1"
  fetched=$?
  rm -rf "$wheels"
  if [ $fetched -ne 0 ]; then
    say "Please install the CUDA toolkit 12 or 13 (or set CUDA_HOME to it), then run this again."
    return 1
  fi
}

# prepare SOURCE_DIR PACKAGES…: packages, and a CUDA toolkit.
prepare() {
  source_dir=$1
  shift
  install_packages "$@" || return 1
  cuda=$(sh "$source_dir/src/convert/find_cuda.sh")
  if [ -z "$cuda" ] || [ ! -x "$cuda/bin/nvcc" ]; then fetch_cuda "$source_dir/.cuda" || return 1; fi
}

# build SOURCE_DIR BUILD_DIR MESON_OPTIONS…: configures once, compiles what changed. Quiet when well.
build() {
  source_dir=$1
  build_dir=$2
  shift 2
  build_log=$build_dir.log
  if { [ -f "$build_dir/build.ninja" ] || meson setup "$build_dir" "$source_dir" "$@"; } \
    > "$build_log" 2>&1 && ninja -C "$build_dir" >> "$build_log" 2>&1; then
    return 0
  fi
  tail -n 40 "$build_log" >&2
  say "The build failed; the whole log is $build_log"
  return 1
}
