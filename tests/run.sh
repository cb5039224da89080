#!/bin/sh
# SPDX-License-Identifier: LGPL-2.1-or-later
# Installs what is missing, builds, and runs all tests. Last line: N passed, M failed, K skipped.
#
#   sh tests/run.sh          the tests
#   sh tests/run.sh full     and what continuous integration checks: format, layers, headers alone,
#                            applications against an installed copy, a clang build with lock
#                            analysis, ASan+UBSan, mutants without an ordering step, TSan on the core
set -eu
here=$(cd "$(dirname "$0")/.." && pwd)
cd "$here"
# shellcheck source=docs/setup.sh
. docs/setup.sh
mode=${1:-tests}
build_root=${BUILD_ROOT:-$here/build}
results=$(mktemp)
trap 'rm -f "$results"' EXIT
failed_steps=""

# tests NAME BUILD_DIR ARGUMENTS…: runs them, prints what failed, adds the counts up.
run_tests() {
  name=$1
  dir=$2
  shift 2
  # Reports of an earlier run, each program's own among them, would speak for one that dies.
  rm -f "$dir"/*.xml "$dir"/meson-logs/*.junit.xml
  say "== tests: $name"
  well=true
  meson test -C "$dir" --no-rebuild --print-errorlogs "$@" > "$dir/test-output.log" 2>&1 || well=false
  counts=$(python3 tests/count_results.py "$dir"/meson-logs/*.junit.xml) || well=false
  # A program may die, or leak, whose cases were all reported well; or take its report along.
  programs=$(awk '/^(Fail|Timeout|Unexpected Pass): / {n += $NF} END {print n + 0}' "$dir/test-output.log")
  counts=$(echo "${counts:-0 0 0} $programs $well" | awk '{
    failed = $2 > $4 ? $2 : $4
    print $1, failed == 0 && $5 == "false" ? 1 : failed, $3
  }')
  echo "$counts" >> "$results"
  say "$name: $counts (passed, failed, skipped)"
  if [ $well = false ]; then
    tail -n 150 "$dir/test-output.log"
    failed_steps="$failed_steps $name"
  fi
}

# step NAME COMMAND…: a check that is no test of its own.
step() {
  step_name=$1
  shift
  say "== $step_name"
  if "$@"; then
    echo "1 0 0" >> "$results"
  else
    echo "0 1 0" >> "$results"
    failed_steps="$failed_steps $step_name"
  fi
}

check_format() {
  # Not by git: where it has no list to give, nothing would be checked and all be well.
  find src gst tests docs -name '*.cpp' -o -name '*.h' -o -name '*.cu' -o -name '*.cuh' |
    tr '\n' '\0' | xargs -0 clang-format --dry-run -Werror
}

if [ "$mode" = full ]; then
  # shellcheck disable=SC2086 # lists of words
  prepare "$here" $BUILD_PACKAGES $CHECK_PACKAGES
else
  # shellcheck disable=SC2086
  prepare "$here" $BUILD_PACKAGES python3
fi

say "== build"
build "$here" "$build_root" -Dwerror=true
run_tests default "$build_root"

if [ "$mode" = full ]; then
  step format check_format
  step layers python3 tests/check_layers.py
  step headers sh tests/check_headers.sh "$build_root"
  step install sh tests/check_install.sh "$build_root"
  step clang env CC=clang CXX=clang++ sh -c '. docs/setup.sh; build "$@"' build "$here" \
    "$build_root-clang" -Dwerror=true -Dthread-safety-analysis=true -Dkernels=disabled
  if build "$here" "$build_root-asan" -Db_sanitize=address,undefined -Db_lundef=false \
    -Dkernels=disabled; then
    run_tests asan "$build_root-asan" --setup=asan
  else
    failed_steps="$failed_steps asan-build"
    echo "0 1 0" >> "$results"
  fi
  step mutants python3 tests/order/mutants.py "$here" "$build_root-mutants"
  if build "$here" "$build_root-tsan" -Db_sanitize=thread -Db_lundef=false -Dkernels=disabled; then
    run_tests tsan "$build_root-tsan" --setup=tsan --suite unit --suite sim
  else
    failed_steps="$failed_steps tsan-build"
    echo "0 1 0" >> "$results"
  fi
fi

[ -z "$failed_steps" ] || say "failed:$failed_steps"
awk '{passed += $1; failed += $2; skipped += $3}
  END {
    printf "%d passed, %d failed, %d skipped\n", passed, failed, skipped
    exit failed > 0 || passed == 0
  }' "$results"
