// Lays tensors out by name, and lets all ranks write.
#include "ddprun/experiments/training_comparison/lockstep_record.h"

#include <ATen/ops/zeros.h>
#include <fmt/format.h>

#include <algorithm>

#include "ddprun/checkpoint/tensor_file.h"
#include "ddprun/parallel/training_state.h"

namespace ddprun {

void UnitOutputs::enter(const std::string& unit, std::int64_t micro_batch,
                        const at::Tensor& values) {
  const bool there = std::ranges::any_of(outputs_, [&](const Output& each) {
    return each.unit == unit && each.micro_batch == micro_batch;
  });
  if (there || values.dim() == 0) return;
  const at::Tensor kept = values.detach().to(at::kCPU, at::kFloat, /*non_blocking=*/false,
                                             /*copy=*/true);
  outputs_.push_back({unit, micro_batch, kept.reshape({ddprun::micro_batch(experiment_), -1})});
}

SharedTensors UnitOutputs::tensors() const {
  SharedTensors out;
  for (const Output& each : outputs_) {
    const std::int64_t elements = each.values.size(1);
    const std::string name = output_name(each.unit);
    if (each.micro_batch == 0) {
      out.all.push_back({name, at::kFloat, {global_batch(experiment_), elements}});
    }
    out.own.push_back({.name = name,
                       .begin = first_sample(experiment_, rank_, each.micro_batch) * elements,
                       .values = each.values.reshape({-1})});
  }
  return out;
}

std::filesystem::path record_of(const std::filesystem::path& folder, std::int64_t step) {
  return folder / (step < 0 ? "start.safetensors" : fmt::format("step_{}.safetensors", step));
}

std::string output_name(const std::string& unit) { return "output." + unit; }
std::string gradient_name(const std::string& parameter) { return "gradient." + parameter; }
std::string parameter_name(const std::string& parameter) { return "parameter." + parameter; }

SharedTensors shared_gradients(const FlatBuffers& buffers, const at::Tensor& gradients,
                               RankOf rank) {
  SharedTensors out;
  const at::Tensor flat = gradients.cpu();
  for (int index = 0; index < buffers.count(); ++index) {
    const std::string name = gradient_name(buffers.name(index));
    out.all.push_back({name, at::kFloat, buffers.sizes(index)});
    if (index % rank.ranks != rank.rank) continue;
    const Range range = buffers.range(index);
    out.own.push_back({.name = name, .values = flat.narrow(0, range.begin, range.size())});
  }
  return out;
}

SharedTensors recorded_parameters(DataParallel& data_parallel) {
  SharedTensors out = shared_parameters(data_parallel);
  for (TensorSpec& each : out.all) each.name = parameter_name(each.name);
  for (TensorPart& each : out.own) each.name = parameter_name(each.name);
  return out;
}

void append(SharedTensors& all, SharedTensors more) {
  std::ranges::move(more.all, std::back_inserter(all.all));
  std::ranges::move(more.own, std::back_inserter(all.own));
}

void write_record(const std::filesystem::path& path, const SharedTensors& tensors,
                  ProcessGroup& group) {
  const TensorFileLayout layout(tensors.all);
  if (group.rank() == 0) create_tensor_file(path, layout);
  group.all_gather_object("made");
  write_parts(path, layout, tensors.own);
  group.all_gather_object("written");
}

at::Tensor read_flat(const SafetensorsFile& record, const FlatBuffers& buffers,
                     std::string (*name)(const std::string& parameter)) {
  const at::Tensor flat = at::zeros({buffers.all().size()}, at::kFloat);
  for (int index = 0; index < buffers.count(); ++index) {
    const Range range = buffers.range(index);
    record.read_to(name(buffers.name(index)), 0, flat.narrow(0, range.begin, range.size()));
  }
  return flat;
}

}  // namespace ddprun
