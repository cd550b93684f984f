// Finds a run's base.
#include "ddprun/result/speed_up.h"

#include <algorithm>

namespace ddprun {

namespace {

double median_time(const RunStatistics& run) {
  return run[run.run().kind->quantities().front()].steps.median;
}

}  // namespace

Figure speed_up(const RunStatistics& run, const std::vector<const RunStatistics*>& runs) {
  const std::string& wanted = run.run().baseline;
  if (wanted.empty()) return {};
  const auto base = std::find_if(runs.begin(), runs.end(), [&wanted](const RunStatistics* each) {
    return each->timed() && each->run().fingerprint == wanted;
  });
  const double own = median_time(run);
  return base == runs.end() || own <= 0 ? Figure{} : Figure{median_time(**base) / own};
}

}  // namespace ddprun
