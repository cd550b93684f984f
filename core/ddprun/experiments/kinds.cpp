// A new kind is one folder, and one line here.
#include "ddprun/experiments/kinds.h"

#include "ddprun/base/error.h"
#include "ddprun/base/ranges.h"
#include "ddprun/experiments/arithmetic/arithmetic_kind.h"
#include "ddprun/experiments/attention/attention_kind.h"
#include "ddprun/experiments/collectives/collectives.h"
#include "ddprun/experiments/precision/precision_study.h"
#include "ddprun/experiments/training/training.h"

namespace ddprun {

const Kinds& experiment_kinds() {
  static const Kinds kinds = {&training(), &collectives(), &attention_kind(), &precision_study(),
                              &arithmetic()};
  return kinds;
}

const RunnableKind& kind_named(const std::string& name) {
  std::vector<std::string> known;
  for (const RunnableKind* kind : experiment_kinds()) {
    if (kind->name() == name) return *kind;
    known.push_back(kind->name());
  }
  throw Error({.what = "unknown kind of experiment",
               .where = "kind of a row",
               .got = name,
               .expected = list_text(known),
               .hint = "the result was written by another version of ddprun"});
}

}  // namespace ddprun
