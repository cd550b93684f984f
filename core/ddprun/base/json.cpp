// JSON and its text; and what cmake/compiled_once.h leaves out of all other files.
#include "ddprun/base/json.h"

template class nlohmann::basic_json<>;

namespace ddprun {

nlohmann::json parse_json(std::string_view text) { return nlohmann::json::parse(text); }

std::string json_text(const nlohmann::json& value, int indent) {
  return value.dump(indent, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace ddprun
