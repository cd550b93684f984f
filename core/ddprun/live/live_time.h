// The time of day, as live outputs write it.
#pragma once

#include <fmt/chrono.h>

#include <chrono>
#include <cstdint>
#include <string>

namespace ddprun {

/// Milliseconds since 1970, UTC.
inline std::int64_t unix_ms() {
  return std::chrono::duration_cast<std::chrono::milliseconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

/// "2026-01-31T12:00:00.123Z"
inline std::string iso_time(std::int64_t ms) {
  return fmt::format("{:%Y-%m-%dT%H:%M:%S}.{:03}Z",
                     fmt::gmtime(static_cast<std::time_t>(ms / 1000)), ms % 1000);
}

}  // namespace ddprun
