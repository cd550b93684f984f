#!/bin/sh
# side_by_side.sh PARTS PROGRAM ARGUMENT...: runs GoogleTest's cases in as many processes at once. For cases that mostly wait: one job of
# ctest is enough for them. Exit status: that of a part that failed; 77, "skipped", if all parts were.
parts=$1
shift
folder=$(mktemp -d) || exit 1
trap 'rm -rf "$folder"' EXIT
processes=
for part in $(seq 0 $((parts - 1))); do
  GTEST_TOTAL_SHARDS=$parts GTEST_SHARD_INDEX=$part "$@" >"$folder/$part" 2>&1 &
  processes="$processes $!"
done
skipped=77 failed=0
for process in $processes; do
  wait "$process"
  status=$?
  [ $status -eq 77 ] || skipped=0
  [ $status -eq 77 ] || [ $status -eq 0 ] || failed=$status
done
cat "$folder"/*
[ $failed -ne 0 ] || failed=$skipped
exit $failed
