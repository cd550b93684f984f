// The checks by which each run proves itself: exact gradients, equal parameters, the planned
// collectives.
//
// Family: proof.cpp integer_proof.cpp
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ddprun/parallel/data_parallel.h"
#include "ddprun/result/check.h"

namespace ddprun {

class InitialValues;

/// Failed on all ranks if `own`, what is wrong on this rank, is not empty on one: with the first
/// rank's words. All ranks call it.
Check check_of_all(ProcessGroup& group, const std::string& name, const std::string& own,
                   const std::string& passed);

/// XXH3 of the parameters in the order of their names, frozen ones too, each without padding: equal
/// parameters hash equal, however a strategy and the model's units hold them, on all machines of
/// one byte order. All ranks call it.
std::uint64_t hash_parameters(const DataParallel& data_parallel);

/// The same of what is frozen alone.
std::uint64_t hash_frozen_parameters(const DataParallel& data_parallel);

/// One of the times at which check_integer_gradients() is made.
struct IntegerRound {
  std::int64_t micro_batches = 1;  ///< more: all but the last accumulate, as in a step of as many
  std::uint64_t number = 0;        ///< other integers for each number
};

/// Fills every gradient with small integers that differ by rank (ProofIntegers), through a real
/// backward with the strategy's hooks, and compares what each rank owns of the result with the
/// exact mean; the padding between gradients must stay zero. It needs the memory of the largest
/// parameter, not of the model; with error feedback, three times that. It
/// leaves the gradients unset, and parameters, moments, the strategy's state, loss scale and random
/// numbers untouched. All ranks must call it, between steps. Where the strategy promises less than
/// the mean (Agreement), the check is of what it promises, and at best `declared`.
Check check_integer_gradients(DataParallel& data_parallel, ProcessGroup& group,
                              IntegerRound round = {});

/// Compares the hash of the updated parameters over all ranks or, where ranks own parts, of what
/// the model reads. A failure names the first parameter that differs, and the ranks. Throws Error
/// first if the ranks were told different steps (StepsAlike::compare()).
Check check_parameters_equal(DataParallel& data_parallel, ProcessGroup& group,
                             const std::string& name = "parameters_equal");

/// A hash for each gradient, in the order of the buffers. None where ranks own parts.
using GradientHashes = std::vector<std::uint64_t>;
GradientHashes hash_gradients(const FlatBuffers& buffers);
/// Compares them over all ranks ("gradients_equal"); a failure names the first parameter and the
/// ranks. Where ranks own parts there is nothing to compare.
Check check_gradients_equal(const FlatBuffers& buffers, ProcessGroup& group,
                            const GradientHashes& own);

/// The same after the strategy's setup ("initial_parameters_equal"). It fails also for a NaN, which
/// Trainer gives all ranks but 0, and for parameters that are not `values`, if these are given.
Check check_initial_parameters(DataParallel& data_parallel, ProcessGroup& group,
                               const InitialValues* values = nullptr);

/// Compares what the model reads with what the updated parameters of all ranks round to, on each
/// rank: the model's own tensors, and the copy in the dtype of the matrix products where there is
/// one. What is held by unit is gathered by the strategy for that.
Check check_compute_copy(DataParallel& data_parallel, ProcessGroup& group);

/// Collectives carry the padding behind a gradient, and nobody writes it. Names the first gradient
/// behind which this rank found another value than 0, or returns an empty text. Call it between the
/// update and the next forward.
std::string written_padding(const FlatBuffers& buffers);

/// Of an exact mean over several ranks: each sends all bits of its gradients. Returns in words that
/// one step's collectives are fewer, so that ranks exchange what no record has; or an empty text.
std::string too_few_bytes(const std::vector<CollectiveRecord>& records, const FlatBuffers& buffers);

/// Compares one step's collectives (kind and payload, in any order) with the strategy's plan.
/// Returns the difference in words, or an empty text.
std::string compare_with_plan(const std::vector<CollectiveRecord>& records,
                              const std::vector<PlannedCollective>& planned);

}  // namespace ddprun
