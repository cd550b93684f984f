// What a file says of checkpoints, held against the rest of it.
#include <string>

#include "ddprun/base/choice.h"
#include "ddprun/config/experiment_check.h"
#include "ddprun/config/report_config.h"
#include "ddprun/experiments/training/training_config.h"

namespace ddprun {

void check_checkpoints(const Experiment& e, const TrainingConfig& c) {
  const CheckpointConfig& checkpoint = c.train.checkpoint;
  const bool saves = checkpoint.saves(), resumes = !c.train.resume_from.empty();
  const std::string never = said("train.checkpoint.every", "0");
  refuse_unused(e, !saves && checkpoint.keep != CheckpointConfig().keep, "train.checkpoint.keep",
                never);
  refuse_unused(e, !saves && checkpoint.async, "train.checkpoint.async", never);
  refuse_unused(e, checkpoint.keep_every > 0 && (!saves || checkpoint.keep == 0),
                "train.checkpoint.keep_every", saves ? said("train.checkpoint.keep", "0") : never);
  const std::string measure = said("train.measure", name_of(c.train.measure));
  const bool trains = c.train.measure == StepExtent::step;
  refuse_unused(e, saves && !trains, "train.checkpoint.every", measure);
  refuse_unused(e, resumes && !trains, "train.resume_from", measure);
  if (checkpoint.path.empty() && (saves || c.train.resume_from == kLatest)) {
    refuse(e, saves ? "train.checkpoint.every" : "train.resume_from",
           {.what = "checkpoints need a folder",
            .got = "no train.checkpoint.path",
            .expected = "train.checkpoint.path, which outlives the run",
            .hint = "train: {checkpoint: {every: 100, path: checkpoints/NAME}}"});
  }
  if (saves && read_report(e.document).repeats > 1) {
    refuse(e, "report.repeats",
           {.what = "several runs of a row would save into one folder",
            .got = "report.repeats with train.checkpoint",
            .expected = "one run of each row that saves",
            .hint = "measure without checkpoints, or save without repeats"});
  }
  if (c.execution.mode != ExecutionMode::cuda_graph || (!saves && !resumes)) return;
  refuse(e, "execution.mode",
         {.what = "checkpoints of captured steps are not there yet",
          .got = said("execution.mode", name_of(c.execution.mode)),
          .expected = "execution.mode eager",
          .hint = "nobody has resumed a captured step: remove one of them"});
}

}  // namespace ddprun
