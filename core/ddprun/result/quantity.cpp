// Formats the cells of a table.
#include "ddprun/result/quantity.h"

#include <fmt/format.h>

namespace ddprun {

std::function<std::string(double value)> text_as(std::string format, double factor) {
  return [format = std::move(format), factor](double value) {
    return fmt::format(fmt::runtime(format), value * factor);
  };
}

}  // namespace ddprun
