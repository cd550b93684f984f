// The checks of attention and precision, as the run uses them.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "ddprun/experiments/training/trainer.h"
#include "ddprun/result/check.h"

namespace ddprun {

/// Calls the run's attention on random inputs of the run's own batch, heads, length, head_dim,
/// dtype and mask, under its precision, and compares drawn rows of the output and, if steps have a
/// backward, of the gradients with float64 ("attention_computed"). What all rows have in common
/// is held tighter than each of them. All ranks call it, between steps.
Check check_attention(const Experiment& experiment, Trainer& trainer, ProcessGroup& group,
                      std::uint64_t seed);

/// Finds the format in which linear layers multiply, by factors that only this format keeps apart,
/// and compares it with what the precision declares; compares layers of random numbers, of the
/// model's sizes, with float64, and their gradients if steps have a backward ("products_format").
/// For the reference kernels; the fused ones read a copy in the format itself, which compute_copy
/// checks. All ranks call it, between steps.
Check check_products(const Experiment& experiment, Trainer& trainer, ProcessGroup& group,
                     std::uint64_t seed);

/// What check_gradients_computed() takes of a batch: an eighth of its samples or, if they are fewer
/// than eight, of the first one's tokens, 64 at least where it has as many; the divisor stays.
Batch eighth_of(const Batch& batch);

/// The factor that undid the scale of a step's loss, without that of clipping.
double scaled_back(const Experiment& experiment, const StepScalars& scalars);

/// Compares that factor with the scale, `scaled_by` of each micro-batch ("loss_scaled_back"). For
/// precisions that scale the loss, after a step that was not skipped. All ranks call it.
Check check_scaled_back(const Experiment& experiment, const StepScalars& scalars,
                        ProcessGroup& group, const std::vector<double>& scaled_by);

/// Whether gradients overflowed on some rank, as the precision said that skipped the step
/// ("loss_scaled_back"). All ranks call it, right after that step.
Check check_skipped(const FlatBuffers& buffers, ProcessGroup& group);

/// Which option of a plugin has another value now than the experiment says, or whether the
/// precision declares other products now than at first, in words; empty: neither.
std::string find_other_options(const Experiment& experiment, const Trainer& trainer,
                               const std::string& products);

/// How what the last step updated with, `scalars`, differs from what the YAML says, on this rank,
/// if it made the last of so many `updates`; empty: it does not. The factor of a loss that is
/// scaled is check_scaled_back()'s.
std::string find_other_scalars(const Experiment& experiment, Trainer& trainer,
                               const StepScalars& scalars, std::int64_t updates);

/// Compares what steps updated with over all ranks, bit by bit ("step_scalars_equal"). Beside a
/// failure, the first step that differs, counted from the first of `own`. All ranks call it.
std::pair<Check, std::int64_t> check_scalars(ProcessGroup& group,
                                             const std::vector<StepScalars>& own);

}  // namespace ddprun
