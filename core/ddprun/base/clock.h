// The one clock of all timings: monotonic nanoseconds.
#pragma once

#include <chrono>
#include <cstdint>

namespace ddprun {

/// Nanoseconds on the steady clock; comparable between threads and processes of one host.
inline std::int64_t now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

inline double to_ms(std::int64_t nanoseconds) { return static_cast<double>(nanoseconds) * 1e-6; }
inline double to_s(std::int64_t nanoseconds) { return static_cast<double>(nanoseconds) * 1e-9; }

/// `begin_ns`: of now_ns().
inline double seconds_since(std::int64_t begin_ns) { return to_s(now_ns() - begin_ns); }

}  // namespace ddprun
