// The options of live outputs, and whether their file can be written.
#include "ddprun/live/live_config.h"

#include "ddprun/base/error.h"
#include "ddprun/base/options.h"
#include "ddprun/live/live_file.h"

namespace ddprun {

void declare_options(Options& o, LiveConfig& c) {
  o.option("jsonl", &c.jsonl, "a line of JSON a step: live/NN/steps.jsonl in the result folder");
  o.option("tensorboard", &c.tensorboard,
           "an event file of TensorBoard: live/NN in the result folder");
  o.option("mllog", &c.mllog,
           "lines as mlperf-logging has them, which are no MLPerf result: live/NN/mllog.txt in the "
           "result folder");
  o.option("prometheus", &c.prometheus,
           "a file that node_exporter's textfile collector reads, NAME.prom, relative to the "
           "current directory; written at most once a second; empty: none");
}

void check_prometheus_file(const LiveConfig& config, const std::string& where) {
  if (config.prometheus.empty()) return;
  try {
    try_to_replace(config.prometheus);
  } catch (const std::exception& error) {
    throw ConfigError({.what = "output.prometheus cannot be written",
                       .where = where,
                       .got = error.what(),
                       .expected = "a file in a folder that is there and can be written",
                       .hint = "node_exporter reads the files *.prom of the folder that its option "
                               "--collector.textfile.directory names"});
  }
}

}  // namespace ddprun
