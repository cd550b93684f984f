// TFLOP/s of a row's matrix products, and their share of what the GPU's maker promises (MFU).
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "runner/report/report_statistics.h"
#include "runner/report/row.h"

namespace ddprun {

/// docs/measurement.md defines both figures.
struct Utilization {
  double tflops = 0;               ///< 10^12 FLOP/s of one rank, at the median step
  std::optional<double> mfu = {};  ///< tflops / the device's dense peak
  std::string refusal = {};        ///< why there is no mfu
};

/// Of a measured row.
Utilization utilization(const Row& row, const RunStatistics& statistics);

/// Why rows on GPUs have no MFU, a sentence each. None is expected on a CPU, nor of emulated rows.
std::vector<std::string> utilization_notes(const std::vector<Row>& rows);

}  // namespace ddprun
