#!/usr/bin/env bash
# Two hosts on one machine: two network namespaces joined by a veth pair. Runs a command once for each rank, with torchrun's
# variables; the output is rank 0's, the others' goes to stderr. Needs no root where users may make namespaces.
#
#     two_hosts.sh [--local-size 2] [--rate 1gbit [--burst 256kb]] [--cut-at FILE] COMMAND...
#
# --cut-at: the cable is cut, unsaid, as soon as there is such a file.
# Exit status: 0 if all ranks ended so, 77 if this system does not allow it (the reason on stderr), else 1.
set -euo pipefail

PATH=$PATH:/usr/sbin:/sbin # where Debian keeps tc
readonly kSkip=77 kAddress=10.77.0 # both hosts' network; in namespaces of its own it meets no other

skip() {
  printf 'two_hosts: not possible here: %s\n' "$*" >&2
  exit $kSkip
}

local_size=2 rate='' cut_at=''
burst=256kb # so much passes at once when the link has rested
while [[ ${1:-} == --* ]]; do
  case $1 in
    --local-size) local_size=$2 ;;
    --rate) rate=$2 ;;
    --burst) burst=$2 ;;
    --cut-at) cut_at=$2 ;;
    *) sed -n '2,8s/^# \{0,1\}//p' "$0" >&2 && exit 2 ;;
  esac
  shift 2
done

if [[ -z ${TWO_HOSTS_INSIDE:-} ]]; then
  for tool in unshare nsenter ip ${rate:+tc}; do
    command -v "$tool" >/dev/null || skip "there is no $tool (Debian packages util-linux, iproute2)"
  done
  reason=$(unshare -Urn true 2>&1) || skip "${reason:-unshare failed}"
  again=("$0" --local-size "$local_size")
  if [[ -n $rate ]]; then again+=(--rate "$rate" --burst "$burst"); fi
  if [[ -n $cut_at ]]; then again+=(--cut-at "$cut_at"); fi
  TWO_HOSTS_INSIDE=1 exec unshare -Urn "${again[@]}" "$@"
fi

# The namespace that this runs in is the first host; the second lives as long as its sleeper.
unshare -n sleep infinity &
second=$!
pids=()
trap 'kill "$second" "${pids[@]}" 2>/dev/null || true' EXIT
until [[ $(readlink "/proc/$second/ns/net") != "$(readlink /proc/self/ns/net)" ]]; do sleep 0.01; done
on_second() { nsenter --net="/proc/$second/ns/net" "$@"; }

ip link set lo up
on_second ip link set lo up
ip link add veth0 type veth peer name veth1 netns "$second" || skip "no veth pair"
ip address add $kAddress.1/24 dev veth0
on_second ip address add $kAddress.2/24 dev veth1
ip link set veth0 up
on_second ip link set veth1 up
if [[ -n $rate ]]; then
  tc qdisc add dev veth0 root tbf rate "$rate" burst "$burst" limit 4mb || skip "no tbf to limit the rate with"
  on_second tc qdisc add dev veth1 root tbf rate "$rate" burst "$burst" limit 4mb
fi

export MASTER_ADDR=$kAddress.1 MASTER_PORT=29500 WORLD_SIZE=$((2 * local_size)) LOCAL_WORLD_SIZE=$local_size
for ((rank = WORLD_SIZE - 1; rank >= 0; --rank)); do
  host=$((rank / local_size))
  variables=("RANK=$rank" "LOCAL_RANK=$((rank % local_size))" "GROUP_RANK=$host")
  run=(env "${variables[@]}" "$@")
  if ((host == 1)); then run=(nsenter "--net=/proc/$second/ns/net" "${run[@]}"); fi
  if ((rank > 0)); then "${run[@]}" >&2 & else "${run[@]}" & fi
  pids+=($!)
done
if [[ -n $cut_at ]]; then
  until [[ -e $cut_at ]] || ! kill -0 "${pids[@]}" 2>/dev/null; do sleep 0.05; done
  ip link set veth0 down
fi
status=0
for pid in "${pids[@]}"; do wait "$pid" || status=1; done
exit $status
