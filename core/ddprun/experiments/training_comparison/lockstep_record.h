// What the experiment that leads leaves of each step for those that follow: a safetensors file a
// step, of which each rank writes its own parts.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "ddprun/checkpoint/safetensors.h"
#include "ddprun/checkpoint/shared_tensors.h"
#include "ddprun/experiments/training/trainer.h"

namespace ddprun {

/// What the units of a step's forwards gave, which Trainer::watch_units() tells: the samples of
/// this rank, float32, on the CPU. Of a unit that runs again in backward, what it gave first.
class UnitOutputs {
 public:
  /// Of a rank's share of the experiment's samples. `experiment` outlives this object.
  UnitOutputs(const Experiment& experiment, RankOf rank) : experiment_(experiment), rank_(rank) {}

  void enter(const std::string& unit, std::int64_t micro_batch, const at::Tensor& values);
  /// As "output.UNIT", (samples of the step, elements of one), in the order of forward. The last
  /// unit gives the loss, which is no output of single samples.
  SharedTensors tensors() const;
  void clear() { outputs_.clear(); }

 private:
  struct Output {
    std::string unit;
    std::int64_t micro_batch = 0;
    at::Tensor values;  // (sequences of the micro-batch, elements)
  };
  const Experiment& experiment_;
  RankOf rank_;
  std::vector<Output> outputs_;
};

/// The parameters before step 0 of a comparison (`step` -1), or a step's outputs, gradients, loss
/// and the parameters after it.
std::filesystem::path record_of(const std::filesystem::path& folder, std::int64_t step);

/// The names of tensors in a record.
std::string output_name(const std::string& unit);
std::string gradient_name(const std::string& parameter);
std::string parameter_name(const std::string& parameter);
inline constexpr const char* kLossName = "loss";  ///< (1,) float64, the mean over the ranks

/// The gradients as "gradient.NAME", of Trainer::gradients() on each rank.
SharedTensors shared_gradients(const FlatBuffers& buffers, const at::Tensor& gradients,
                               RankOf rank);
/// shared_parameters() as "parameter.NAME".
SharedTensors recorded_parameters(DataParallel& data_parallel);
void append(SharedTensors& all, SharedTensors more);

/// Writes a record; all ranks call it, and it is whole when they return. Throws Error.
void write_record(const std::filesystem::path& path, const SharedTensors& tensors,
                  ProcessGroup& group);

/// Read by the layout of this rank's buffers: float32, (all().size(),), zero in the padding.
at::Tensor read_flat(const SafetensorsFile& record, const FlatBuffers& buffers,
                     std::string (*name)(const std::string& parameter));

}  // namespace ddprun
