#!/bin/sh
# SPDX-License-Identifier: LGPL-2.1-or-later
# check_status.sh STATUS WORDS COMMAND…: whether COMMAND ends with STATUS and says WORDS on stderr.
wanted=$1
words=$2
shift 2
said=$("$@" 2>&1 > /dev/null)
status=$?
echo "$said"
if [ "$status" -ne "$wanted" ]; then
  echo "status $status, not $wanted"
  exit 1
fi
case $said in
  *"$words"*) exit 0 ;;
esac
echo "it doesn't say: $words"
exit 1
