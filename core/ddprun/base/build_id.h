// What a library was built with, as one text: the handshakes of plugins and devices compare it.
#pragma once

#include <torch/headeronly/version.h>

#define DDPRUN_STRINGIFY_(x) #x
#define DDPRUN_STRINGIFY(x) DDPRUN_STRINGIFY_(x)
#if defined(__clang__)
#define DDPRUN_COMPILER "clang " DDPRUN_STRINGIFY(__clang_major__)
#else
#define DDPRUN_COMPILER "gcc " DDPRUN_STRINGIFY(__GNUC__)
#endif
#if defined(__SANITIZE_ADDRESS__)
#define DDPRUN_BUILD_TYPE "asan"
#elif defined(__SANITIZE_THREAD__)
#define DDPRUN_BUILD_TYPE "tsan"
#elif defined(NDEBUG)
#define DDPRUN_BUILD_TYPE "release"
#else
#define DDPRUN_BUILD_TYPE "debug"
#endif
#define DDPRUN_BUILD_ID                                                        \
  "torch " TORCH_VERSION                                                       \
  ", cxx11 abi " DDPRUN_STRINGIFY(_GLIBCXX_USE_CXX11_ABI) ", " DDPRUN_COMPILER \
                                                          ", " DDPRUN_BUILD_TYPE
