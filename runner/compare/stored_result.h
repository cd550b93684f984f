// Results that are on the disk.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "runner/report/row.h"

namespace ddprun {

struct StoredResult {
  std::string name;  ///< as the user named it
  std::filesystem::path file;
  std::size_t among = 0;  ///< results in the folder that the user named; 0: it is one itself
  std::vector<Row> rows;
  nlohmann::json json = {};  ///< the whole file
};

/// Reads a result.json, that of a result folder, or the latest of a folder of results. Throws
/// ConfigError if there is none, it has no row, is of another schema, or this ddprun could not have
/// written it.
StoredResult stored_result(const std::string& path);

}  // namespace ddprun
