// What a run tells while it trains: the keys of the YAML section `output:` besides `dir`.
#pragma once

#include <string>

namespace ddprun {

class Options;

struct LiveConfig {
  bool jsonl = false;
  bool tensorboard = false;
  bool mllog = false;
  std::string prometheus = {};  ///< the file; empty: none

  /// Whether files of the result folder are among them.
  bool in_result_folder() const { return jsonl || tensorboard || mllog; }
};

void declare_options(Options& options, LiveConfig& config);

/// Throws ConfigError, which names `where`, if the file of `prometheus` cannot be written.
void check_prometheus_file(const LiveConfig& config, const std::string& where);

}  // namespace ddprun
