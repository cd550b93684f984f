#!/bin/sh
# side_by_side.sh PARTS PROGRAM ARGUMENT...: runs GoogleTest's cases in so many processes, four at a time. For cases that mostly wait: one
# job of ctest is enough for them. Exit status: 1 if a part failed; 77, "skipped", if all parts were.
PARTS=$1
FOLDER=$(mktemp -d) || exit 1
export PARTS FOLDER
shift
trap 'rm -rf "$FOLDER"' EXIT
# shellcheck disable=SC2016  # the inner shell's variables
seq 0 $((PARTS - 1)) | xargs -P 4 -I {} sh -c '
  GTEST_TOTAL_SHARDS=$PARTS GTEST_SHARD_INDEX={} "$@" >"$FOLDER/{}" 2>&1
  echo $? >>"$FOLDER/statuses"' sh "$@"
cat "$FOLDER"/[0-9]*
if grep -qvxE '0|77' "$FOLDER/statuses"; then exit 1; fi
grep -qx 0 "$FOLDER/statuses" || exit 77
