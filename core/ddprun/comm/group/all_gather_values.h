// Values that ranks exchange, through the store or by an all-reduce.
//
// Family: least_of_ranks.cpp
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "ddprun/base/json.h"
#include "ddprun/comm/group/process_group.h"
#include "ddprun/comm/store/foreign_text.h"

namespace ddprun {

/// Every rank's value, in rank order: all_gather_object() for anything that JSON holds. A list has
/// the same length on all ranks. Throws CommError.
template <typename Value>
std::vector<Value> all_gather_values(ProcessGroup& group, const Value& own) {
  std::vector<Value> all;
  for (const std::string& text : group.all_gather_object(json_text(own))) {
    const std::string where = "values of rank " + std::to_string(all.size());
    all.push_back(
        read_foreign(text, where, [](const nlohmann::json& value) { return value.get<Value>(); }));
    if constexpr (requires { own.size(); }) {
      if (all.back().size() != own.size()) throw foreign_text_error(text, where);
    }
  }
  return all;
}

/// All ranks call it, for as many values; it blocks. The all-reduce is recorded. Throws CommError.
std::vector<float> least_of_ranks(std::vector<float> values, ProcessGroup& group);

}  // namespace ddprun
