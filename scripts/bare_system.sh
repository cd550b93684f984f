# shellcheck shell=bash
# Bare systems of Debian and Ubuntu, made by debootstrap, each in a folder of its own: build/distributions/NAME. Sourced in the
# repository's root by the scripts that try ddprun from nothing. kSay is what their lines begin with, kKnown the names they take.
# shellcheck disable=SC2154

folder=$PWD/build/distributions

say() { printf '%s: %s\n' "$kSay" "$*"; }
fail() { say "$*" >&2 && exit 2; }

# check_bare_systems NAME...: whether they are known, and can be made here.
check_bare_systems() {
  local name
  for name in "$@"; do
    [[ " ${kKnown[*]} " == *" $name "* ]] || fail "$name: no such distribution; there are ${kKnown[*]}"
  done
  ((EUID == 0)) || fail "debootstrap and chroot need root"
  command -v debootstrap >/dev/null || fail "debootstrap is missing (Debian: apt-get install debootstrap)"
  mkdir -p "$folder"
}

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

# bootstrap NAME PACKAGE...: a bare system, with these packages alone.
bootstrap() {
  local name=$1 root=$folder/$1 site components=main keyring=/usr/share/keyrings/debian-archive-keyring.gpg packages=ca-certificates
  shift
  site=$(site_of "$name") || { say "$name: no archive here has it" && return 1; }
  case $name in
    jammy | noble) components=main,universe keyring=/usr/share/keyrings/ubuntu-archive-keyring.gpg ;;
  esac
  [[ -f $keyring ]] || { say "$name: there is no $keyring; install the package that brings it" && return 1; }
  rm -rf --one-file-system "$root"
  if (($#)); then packages+=$(printf ',%s' "$@"); fi
  debootstrap --variant=minbase --keyring="$keyring" --components="$components" --include="$packages" "$name" "$root" "$site"
  cp /etc/resolv.conf "$root/etc/" 2>/dev/null || true
  # How this machine reaches its registries: certificates of its own, and pip's settings.
  cp /etc/pip.conf "$root/etc/" 2>/dev/null || true
  cp -rT /usr/local/share/ca-certificates "$root/usr/local/share/ca-certificates"
  chroot "$root" update-ca-certificates
}

# in_it NAME COMMAND: in /root of that system, in namespaces of its own, so that nothing stays mounted and no process is left.
in_it() {
  # shellcheck disable=SC2016 # the inner shell expands
  unshare --mount --pid --fork bash -c '
    set -e
    mount -t proc proc "$0/proc"
    mount --rbind /sys "$0/sys"
    mount --rbind /dev "$0/dev"
    mount -t tmpfs -o mode=1777 tmpfs "$0/dev/shm"
    exec env -i HOME=/root PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin TERM=dumb LANG=C.UTF-8 \
      chroot "$0" bash -c "cd /root && $1"' "$folder/$1" "$2"
}

remove() { rm -rf --one-file-system "${folder:?}/$1"; }
