#!/usr/bin/env bash
# The README's two commands on bare distributions, each in a folder of its own: build/distributions/NAME, made by debootstrap.
set -euo pipefail
cd "$(dirname "$0")/.."

usage() {
  cat <<'END'
usage: scripts/test_distributions.sh [NAME...]

Tries `make quickstart` and `make test` from nothing but git and make in each of these (default: all):
  bookworm (Debian 12)  trixie (Debian 13)  jammy (Ubuntu 22.04)  noble (Ubuntu 24.04)
Packages come from where this machine's apt has its own. A distribution that is not there is said, and is a failure.
It needs root, debootstrap (for Ubuntu ubuntu-keyring too), 12 GB of disk and some half hour each. WHAT='quickstart' tries one
command only. What is committed is tried, not the working tree. Logs: build/distributions/NAME.log
END
}

readonly kKnown=(bookworm trixie jammy noble)
folder=$PWD/build/distributions

say() { printf 'distributions: %s\n' "$*"; }
fail() { say "$*" >&2 && exit 2; }

# site_of NAME: the archive that has it, as this machine's apt is set.
site_of() {
  local sites site ubuntu
  # shellcheck disable=SC2016 # apt expands it
  sites=$(apt-get indextargets --format '$(SITE)' | sort -u)
  ubuntu=${sites//\/debian-security/\/ubuntu}
  # shellcheck disable=SC2086 # one word each
  for site in $sites ${ubuntu//\/debian/\/ubuntu}; do
    if apt_helper "$site/dists/$1/Release"; then echo "$site" && return; fi
  done
  return 1
}

# Whether apt's own client can fetch it.
apt_helper() { /usr/lib/apt/apt-helper download-file "$1" "$folder/probe" >/dev/null 2>&1 && rm -f "$folder/probe"; }

# bootstrap NAME: a bare system, with git and make alone.
bootstrap() {
  local name=$1 root=$folder/$1 site components=main keyring=/usr/share/keyrings/debian-archive-keyring.gpg
  site=$(site_of "$name") || { say "$name: no archive here has it" && return 1; }
  case $name in
    jammy | noble) components=main,universe keyring=/usr/share/keyrings/ubuntu-archive-keyring.gpg ;;
  esac
  [[ -f $keyring ]] || { say "$name: there is no $keyring; install the package that brings it" && return 1; }
  rm -rf --one-file-system "$root"
  debootstrap --variant=minbase --keyring="$keyring" --components="$components" --include=git,make,ca-certificates "$name" "$root" "$site"
  cp /etc/resolv.conf "$root/etc/" 2>/dev/null || true
  # How this machine reaches its registries: certificates of its own, and pip's settings.
  cp /etc/pip.conf "$root/etc/" 2>/dev/null || true
  cp -rT /usr/local/share/ca-certificates "$root/usr/local/share/ca-certificates"
  chroot "$root" update-ca-certificates
  git clone --quiet . "$root/root/ddprun"
}

# Runs in namespaces of its own, so that nothing stays mounted and no process is left.
in_it() {
  local root=$1
  shift
  # shellcheck disable=SC2016 # the inner shell expands
  unshare --mount --pid --fork bash -c '
    set -e
    mount -t proc proc "$0/proc"
    mount --rbind /sys "$0/sys"
    mount --rbind /dev "$0/dev"
    mount -t tmpfs -o mode=1777 tmpfs "$0/dev/shm"
    exec env -i HOME=/root PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin TERM=dumb \
      chroot "$0" bash -c "cd /root/ddprun && $1"' "$root" "$*"
}

try() {
  local name=$1 log=$folder/$1.log target
  say "$name: a bare system (log: ${log#"$PWD"/})"
  bootstrap "$name" >"$log" 2>&1 || { say "$name: FAILED, no bare system: $(tail -n 1 "$log")" && return 1; }
  for target in ${WHAT:-quickstart test}; do
    say "$name: make $target"
    in_it "$folder/$name" make "$target" >>"$log" 2>&1 </dev/null || { say "$name: FAILED in make $target" && tail -n 15 "$log" && return 1; }
    tail -n 3 "$log"
  done
  rm -rf --one-file-system "${folder:?}/$name"
  say "$name: passed"
}

for argument in "$@"; do
  case $argument in
    -h | --help) usage && exit 0 ;;
    *) [[ " ${kKnown[*]} " == *" $argument "* ]] || fail "$argument: no such distribution; there are ${kKnown[*]}" ;;
  esac
done
((EUID == 0)) || fail "debootstrap and chroot need root"
command -v debootstrap >/dev/null || fail "debootstrap is missing (Debian: apt-get install debootstrap)"
mkdir -p "$folder"
status=0
for name in "${@:-${kKnown[@]}}"; do try "$name" || status=1; done
exit $status
