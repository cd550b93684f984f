// The one list of all kinds of experiment.
#include "runner/report/kinds.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>
#include <vector>

#include "ddprun/base/error.h"
#include "ddprun/train/training.h"

namespace ddprun {

const ExperimentKind& kind_named(const std::string& name) {
  const std::array<const ExperimentKind*, 1> kinds = {&training()};
  std::vector<std::string> known;
  for (const ExperimentKind* kind : kinds) {
    if (kind->name() == name) return *kind;
    known.push_back(kind->name());
  }
  throw Error({.what = "unknown kind of experiment",
               .where = "kind of a row",
               .got = name,
               .expected = fmt::format("{}", fmt::join(known, ", ")),
               .hint = "the result was written by another version of ddprun"});
}

}  // namespace ddprun
