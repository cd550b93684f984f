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

nlohmann::json parse_json(std::string_view text) {
  // To the parser a zero byte is the end, whatever follows.
  if (const std::size_t zero = text.find('\0'); zero != text.npos) {
    throw nlohmann::json::parse_error::create(101, zero + 1, "a zero byte", nullptr);
  }
  return nlohmann::json::parse(text);
}

std::string json_text(const nlohmann::json& value, int indent) {
  return value.dump(indent, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace ddprun
