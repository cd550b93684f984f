// How numbers are written for people.
#pragma once

#include <cstdint>
#include <string>

namespace ddprun {

/// 1234567 -> "1,234,567".
std::string with_thousands(std::int64_t value);

}  // namespace ddprun
