// The options of the section `report:`.
#include "ddprun/config/report_config.h"

#include "ddprun/config/options_io.h"

namespace ddprun {

void declare_options(Options& o, ReportConfig& c) {
  o.option("repeats", &c.repeats,
           "runs of each row, which take turns with those of the others; from 3 on their "
           "differences are tested",
           {.min = 1, .max = 1000});
}

ReportConfig read_report(const ConfigNode& document) {
  ReportConfig config;
  const ConfigNode* report = document.find("report");
  if (report == nullptr || report->kind != ConfigNode::Kind::map) return config;
  read_options(*report, "report", [&config](Options& o) { declare_options(o, config); },
               {"baseline"});
  return config;
}

}  // namespace ddprun
