// Whether a test program runs under a sanitizer, for cases that its allocator makes impossible.
#pragma once

namespace ddprun::test {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool kSanitized = true;
#else
inline constexpr bool kSanitized = false;
#endif

}  // namespace ddprun::test
