// A text as a field of comma-separated values.
#pragma once

#include <string>

namespace ddprun {

/// In quotes where it must be (RFC 4180).
std::string csv_field(const std::string& text);

}  // namespace ddprun
