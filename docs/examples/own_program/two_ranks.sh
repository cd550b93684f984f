#!/bin/sh
# Starts a command as two ranks on this machine, as torchrun or Slurm would: two_ranks.sh COMMAND...
export WORLD_SIZE=2 LOCAL_WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT="${MASTER_PORT:-29500}"
RANK=1 LOCAL_RANK=1 "$@" &
RANK=0 LOCAL_RANK=0 "$@"
status=$?
wait $! && exit $status
