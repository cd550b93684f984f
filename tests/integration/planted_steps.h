// How the runs with planted faults are written down, how many steps they make, and which of them
// they do not look at.
#pragma once

#include <algorithm>
#include <cstdlib>
#include <ostream>
#include <string>
#include <vector>

#include "ddprun/experiments/training/run_proof.h"
#include "ddprun/experiments/training/training_config.h"
#include "support/ddprun_command.h"

namespace ddprun::test {

inline constexpr int kSteps = 8;  // warm-up included
inline constexpr int kWarmup = 2;
/// With 12 no run looks at itself just before the last step. DDPRUN_PROOF_SEED: another one, with
/// which faults of a single step may be seen or not.
inline int proof_seed() {
  const char* const other = std::getenv("DDPRUN_PROOF_SEED");
  return other == nullptr ? 12 : std::atoi(other);
}

/// A step (not the first, not the last) at which, and before which, no run of these tests looks at
/// itself.
inline int unseen_step() {
  TrainConfig train;
  train.warmup_steps = kWarmup;
  train.steps = kSteps - kWarmup;
  const auto drawn = drawn_steps(proof_seed(), steps_from(0, train));
  const auto looks = [&](int step) { return std::ranges::binary_search(drawn, step); };
  for (int step = 2; step + 1 < kSteps; ++step) {
    if (!looks(step) && !looks(step - 1)) return step;
  }
  return 0;
}

/// by_sentence: the run is proved, and a line below its table says what is odd.
enum class Caught { by_run, by_sentence, by_verify };

struct Planted {
  std::string name;
  Words set = {};
  /// Words of the sentence.
  std::vector<std::string> says = {};
  Caught caught = Caught::by_run;
  Words launcher = {};
  Words saved_by = {};  ///< of a run that this one goes on from; empty: none
};

inline void PrintTo(const Planted& planted, std::ostream* out) { *out << planted.name; }

inline std::string fault(const std::string& name) { return "strategy.fault=" + name; }

inline const std::string kLater = "strategy.first=1";  // from the second step on
inline const std::string kOnRank1 = "strategy.rank=1";
inline const std::string kAccumulate = "train.accumulate=2";
inline const std::string kOverlap = "optimizer.overlap=true";
inline const std::string kClip = "optimizer.clip_norm=0.5";
inline const std::string kBf16 = "precision=bf16_mixed";
inline const std::string kSaves = "train.checkpoint={every: 4, path: saved}";
inline const std::string kReference = "model.kernels=reference";

/// The fault in the step `unseen_step()` alone.
inline Words once(const std::string& name, Words more = {}) {
  const std::string step = std::to_string(unseen_step());
  more.insert(more.end(), {fault(name), "strategy.first=" + step, "strategy.last=" + step});
  return more;
}

/// The strategy is right.
inline Words attention(const std::string& fault, Words more = {}) {
  more.push_back("attention={name: planted, fault: " + fault + "}");
  return more;
}

/// With PyTorch's operators, whose linear layers a precision can compute.
inline Words precision(const std::string& options, Words more = {}) {
  more.insert(more.end(), {"precision={name: planted, " + options + "}", kReference});
  return more;
}

inline Words lossy(const std::string& fault, Words more = {}) {
  more.push_back("strategy={name: planted_lossy, fault: " + fault + "}");
  return more;
}
inline Words periodic(const std::string& fault, Words more = {}) {
  more.push_back("strategy={name: planted_periodic, fault: " + fault + "}");
  return more;
}

inline std::string at_step() { return "step " + std::to_string(unseen_step()) + ": "; }

}  // namespace ddprun::test
