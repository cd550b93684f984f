// Thousands separators.
#include "ddprun/base/text.h"

namespace ddprun {

std::string with_thousands(std::int64_t value) {
  std::string digits = std::to_string(value);
  const std::size_t first = value < 0 ? 1 : 0;  // the first digit
  for (std::size_t at = digits.size(); at > first + 3;) digits.insert(at -= 3, 1, ',');
  return digits;
}

}  // namespace ddprun
