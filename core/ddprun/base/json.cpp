// JSON and its text; and what cmake/compiled_once.h leaves out of all other files.
#include "ddprun/base/json.h"

#include <cmath>

template class nlohmann::basic_json<>;

namespace ddprun {

nlohmann::json json_number(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  return value;
}

nlohmann::json parse_json(std::string_view text) { return nlohmann::json::parse(text); }

std::string json_text(const nlohmann::json& value, int indent) {
  return value.dump(indent, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace ddprun
