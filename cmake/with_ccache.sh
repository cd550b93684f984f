#!/bin/sh
# with_ccache.sh CCACHE COMPILER ARGUMENT...: compiles by ccache, precompiled headers included. ccache would read all of such a
# header (500 MB) for each file that uses it; what it reads instead is a sum of it, which is made here.
export CCACHE_SLOPPINESS=pch_defines,time_macros CCACHE_PCH_EXTSUM=1
"$@" || exit
for argument; do
  case $argument in
    *.gch)
      sha1sum "$argument" >"$argument.sum"
      break
      ;;
  esac
done
