// Reads texts that others left in the store: they may be anybody's.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "ddprun/base/error.h"
#include "ddprun/base/json.h"

namespace ddprun {

/// `where`: what was read, and by whom.
inline CommError foreign_text_error(const std::string& text, const std::string& where) {
  return CommError({.what = "a text in the store of this run is not ddprun's",
                    .where = where,
                    .got = text.substr(0, 60),
                    .expected = "what the ranks of this launch say",
                    .hint = "another program writes to the store, or ranks of another launch: take "
                            "another MASTER_PORT, or give the launch a secret (DDPRUN_SECRET)"});
}

/// What `read` makes of the JSON. Throws foreign_text_error() if it is not what `read` expects.
template <typename Read>
auto read_foreign(const std::string& text, const std::string& where, const Read& read) {
  try {
    return read(parse_json(text));
  } catch (const nlohmann::json::exception&) {
    throw foreign_text_error(text, where);
  }
}

}  // namespace ddprun
