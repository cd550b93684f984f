// What a run looks at between steps: the loss on held-out data (the YAML section `train.eval:`),
// and text that the model writes (`train.sample:`).
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "ddprun/config/experiment.h"
#include "ddprun/data/data.h"
#include "ddprun/data/text_codec.h"
#include "ddprun/experiments/training/trainer.h"

namespace ddprun {

/// Evaluates on the same samples each time, whatever the seed and the number of ranks. All ranks
/// call it alike, between steps. Training thread.
class Evaluation {
 public:
  /// All outlive this object. Throws Error if the data cannot be opened, or is not what was
  /// planned.
  Evaluation(const Experiment& experiment, Trainer& trainer, const ProcessGroup& group);

  /// The mean loss over this rank's share of the samples, if `train.eval` follows step `index`.
  std::optional<double> after_step(std::int64_t index);
  /// The loss in bits of a byte of the samples' text; nothing: nobody says what tokens are.
  std::optional<double> bits_per_byte(double loss) const;
  /// What the model writes, bytes, if `train.sample` follows step `index`.
  std::optional<std::string> text_after_step(std::int64_t index);
  /// Throws Error if a file from which samples are read changed.
  void check_unchanged() const;

 private:
  bool follows(std::int64_t index, std::int64_t every) const;

  const Experiment& experiment_;
  Trainer& trainer_;
  const ProcessGroup& group_;
  /// Of all ranks' samples; 0: it is not known.
  double find_bytes_per_token() const;

  TextCodec codec_;
  double bytes_per_token_ = 0;
  std::unique_ptr<DataSource> data_;  ///< none: there is no evaluation
};

}  // namespace ddprun
