// One kind of node after the other.
#include "ddprun/config/config_node.h"

#include <cmath>
#include <nlohmann/json.hpp>

#include "ddprun/base/ranges.h"
#include "ddprun/config/plain_scalar.h"

namespace ddprun {

namespace {

using nlohmann::json;

json scalar_json(const ConfigNode& node) {
  if (node.quoted) return node.scalar;
  switch (plain_type(node.scalar)) {
    case PlainType::null:
      return nullptr;
    case PlainType::boolean:
      return *parse_bool(node.scalar);
    case PlainType::number:
      if (const auto integer = parse_integer(node.scalar)) return *integer;
      if (const auto number = parse_number(node.scalar); number && std::isfinite(*number)) {
        return *number;
      }
      break;
    case PlainType::text:
      break;
  }
  return node.scalar;
}

}  // namespace

json to_json(const ConfigNode& node) {
  switch (node.kind) {
    case ConfigNode::Kind::null:
      return nullptr;
    case ConfigNode::Kind::scalar:
      return scalar_json(node);
    case ConfigNode::Kind::list:
      return mapped(node.list, [](const ConfigNode& element) { return to_json(element); });
    case ConfigNode::Kind::map: {
      json out = json::object();
      for (const auto& [key, value] : node.map) out[key] = to_json(value);
      return out;
    }
  }
  return nullptr;
}

}  // namespace ddprun
