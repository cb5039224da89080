#!/bin/sh
# SPDX-License-Identifier: LGPL-2.1-or-later
# check_lines.sh PROGRAM TEXT ARGUMENTS…: the program succeeds and prints two lines, one for each
# reuse policy, both with the text in them.
set -eu
program=$1
text=$2
shift 2
lines=$("$program" "$@")
echo "$lines"
[ "$(echo "$lines" | wc -l)" -eq 2 ]
echo "$lines" | grep -q "^bounded-pool: $text"
echo "$lines" | grep -q "^record-stream: $text"
