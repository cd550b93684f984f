// What two experiments must have alike to be compared step by step. One leads, and writes down each
// step; the other follows, and reads what was before it.
#include "ddprun/experiments/training_comparison/lockstep_rank.h"

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "ddprun/base/text.h"
#include "ddprun/config/experiment_check.h"
#include "ddprun/experiments/training/run_plugins.h"
#include "ddprun/experiments/training/trainer.h"
#include "ddprun/experiments/training/training.h"
#include "ddprun/experiments/training/training_config.h"
#include "ddprun/experiments/training_comparison/lockstep_record.h"
#include "ddprun/measure/phase.h"
#include "ddprun/model/model_parameters.h"
#include "ddprun/parallel/first_of_all.h"
#include "ddprun/parallel/training_state.h"
#include "ddprun/rank/connected_rank.h"

namespace ddprun {

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(TensorDifference, phase, unit, tensor, difference, size, element,
                                   lead, other)

namespace {

using nlohmann::json;
using TensorDifferences = std::vector<TensorDifference>;
constexpr const char* kUpdate = "update";

/// A format that numbers are rounded to.
struct Format {
  std::string name;
  double spacing = 0;  ///< from 1 to the next number: an ulp of 1
};

Format format_of(at::ScalarType dtype) {
  if (dtype == at::kBFloat16) return {"bfloat16", 0x1p-7};
  if (dtype == at::kHalf) return {"float16", 0x1p-10};
  return {"float32", 0x1p-23};
}

Format format_of_products(const PrecisionDtypes& dtypes) {
  const std::string products = dtypes.product_format();
  if (products == "float8") return {products, 0x1p-3};
  return products == "tf32" ? Format{products, 0x1p-10} : format_of(dtypes.buffers.compute);
}

Format coarser(const Format& a, const Format& b) { return a.spacing >= b.spacing ? a : b; }

json to_json(const Format& format) { return {{"name", format.name}, {"spacing", format.spacing}}; }

/// The coarsest that numbers of each phase are rounded to.
json formats_of(const PrecisionDtypes& dtypes, const FlatBuffers& buffers) {
  const Format forward = coarser(format_of_products(dtypes), format_of(dtypes.buffers.model));
  return {{"forward", to_json(forward)},
          {"backward", to_json(coarser(forward, format_of(dtypes.buffers.reduce)))},
          {"update", to_json(coarser(format_of(buffers.dtypes().parameters),
                                     format_of(buffers.mean_dtype())))}};
}

/// The trainer of one of the experiments, step by step.
class Lockstep {
 public:
  Lockstep(const Experiment& experiment, const PluginRegistry& registry, ProcessGroup& group,
           const LockstepPart& part)
      : part_(part),
        count_(part.steps > 0 ? part.steps : training(experiment).train.all_steps()),
        group_(group),
        rank_{group.rank(), group.size()},
        trainer_(experiment, make_plugins(registry, experiment), group),
        outputs_(experiment, rank_) {
    trainer_.watch_units([this](int unit, std::int64_t micro_batch, const at::Tensor& values) {
      outputs_.enter(data_parallel().roles().unit_names[unit], micro_batch, values);
    });
  }

  json run() {
    json steps = json::array();
    if (part_.leads) {
      write_record(record_of(part_.folder, -1), recorded_parameters(data_parallel()), group_);
    }
    for (std::int64_t index = 0; index < count_; ++index) {
      outputs_.clear();
      if (part_.leads) {
        lead(index);
      } else {
        steps.push_back(follow(index));
      }
    }
    trainer_.data().check_unchanged();
    return {{"formats", formats_of(trainer_.plugins().precision->dtypes(), buffers())},
            {"count", count_},
            {"steps", steps}};
  }

 private:
  DataParallel& data_parallel() { return trainer_.data_parallel(); }
  FlatBuffers& buffers() { return data_parallel().buffers(); }
  const std::string& unit_of(int index) { return buffers().units()[buffers().unit_of(index)].name; }
  double mean_loss(const Sample& sample) {
    double sum = 0;
    for (const double loss : of_all_ranks(group_, sample[training().loss])) sum += loss;
    return sum / static_cast<double>(rank_.ranks);
  }

  void lead(std::int64_t index) {
    at::Tensor gradients;
    const Sample sample = trainer_.step(index, [&] { gradients = trainer_.gradients(); });
    SharedTensors record = outputs_.tensors();
    append(record, shared_gradients(buffers(), gradients, rank_));
    append(record, recorded_parameters(data_parallel()));
    const at::Tensor loss = at::full({1}, mean_loss(sample), at::kDouble);
    record.all.push_back({kLossName, at::kDouble, {1}});
    if (rank_.rank == 0) record.own.push_back({.name = kLossName, .values = loss});
    write_record(record_of(part_.folder, index), record, group_);
  }

  json follow(std::int64_t index) {
    const SafetensorsFile lead(record_of(part_.folder, index));
    const at::Tensor before =
        read_flat(SafetensorsFile(record_of(part_.folder, index - 1)), buffers(), parameter_name);
    buffers().set_parameters([&](const at::Tensor& values, Range range) {
      values.copy_(before.narrow(0, range.begin, range.size()));
    });
    TensorDifferences found;
    const Sample sample = trainer_.step(index, [&] {
      enter_outputs(lead, found);
      enter_gradients(lead, found);
    });
    enter_loss(lead, mean_loss(sample), found);
    enter_parameters(before, lead, found);
    return {{"step", index}, {"differences", in_order(gather(found))}};
  }

  static void enter(TensorDifference difference, const char* phase, const std::string& unit,
                    const std::string& tensor, TensorDifferences& found) {
    difference.phase = phase;
    difference.unit = unit;
    difference.tensor = tensor;
    found.push_back(std::move(difference));
  }

  void enter_outputs(const SafetensorsFile& lead, TensorDifferences& found) {
    for (const TensorPart& part : outputs_.tensors().own) {
      if (lead.find(part.name) == nullptr) continue;  // of a unit that the other does not have
      const TensorDifference difference = largest_difference(
          lead.read(part.name, part.begin, part.values.numel()), part.values, part.begin);
      enter(difference, to_string(Phase::forward), part.name.substr(output_name("").size()),
            "output", found);
    }
  }

  /// The step goes on with the gradients of the one that leads, so that moments stay alike.
  void enter_gradients(const SafetensorsFile& lead, TensorDifferences& found) {
    const at::Tensor theirs = read_flat(lead, buffers(), gradient_name);
    const at::Tensor own = trainer_.gradients();               // all ranks call it
    for (int index = 0; index < buffers().count(); ++index) {  // each rank its own: one may differ
      const Range range = buffers().range(index);
      const TensorDifference difference =
          largest_difference(theirs.narrow(0, range.begin, range.size()),
                             own.narrow(0, range.begin, range.size()).cpu());
      enter(difference, to_string(Phase::backward), unit_of(index), buffers().name(index), found);
    }
    trainer_.set_gradients(theirs.to(own.device()));
  }

  void enter_loss(const SafetensorsFile& lead, double loss, TensorDifferences& found) {
    if (rank_.rank != 0) return;
    const at::Tensor own = at::full({1}, loss, at::kDouble);
    enter(largest_difference(lead.read(kLossName, 0, 1), own), to_string(Phase::forward),
          data_parallel().roles().unit_names.back(), kLossName, found);
  }

  /// `before`: all parameters, as read_flat() lays them out.
  void enter_parameters(const at::Tensor& before, const SafetensorsFile& lead,
                        TensorDifferences& found) {
    std::map<std::string, int> index_of;
    for (int index = 0; index < buffers().count(); ++index) index_of[buffers().name(index)] = index;
    for (const TensorPart& part : shared_parameters(data_parallel()).own) {
      const auto trained = index_of.find(part.name);
      if (trained == index_of.end()) continue;  // frozen
      const std::int64_t count = part.values.numel();
      const std::int64_t begin = buffers().range(trained->second).begin + part.begin;
      const TensorDifference difference = largest_of_update(
          before.narrow(0, begin, count), lead.read(parameter_name(part.name), part.begin, count),
          part.values.cpu(), part.begin);
      enter(difference, kUpdate, unit_of(trained->second), part.name, found);
    }
  }

  /// Of all ranks, on rank 0; each tensor once.
  TensorDifferences gather(const TensorDifferences& own) {
    const std::vector<std::uint8_t> bytes = json::to_cbor(own);  // JSON's text has no NaN
    TensorDifferences all;
    for (const std::string& of_rank : group_.all_gather_object({bytes.begin(), bytes.end()})) {
      if (rank_.rank == 0) merge(json::from_cbor(of_rank).get<TensorDifferences>(), all);
    }
    return all;
  }

  static void merge(const TensorDifferences& of_rank, TensorDifferences& all) {
    for (const TensorDifference& difference : of_rank) {
      const auto same = std::ranges::find_if(all, [&](const TensorDifference& other) {
        return other.phase == difference.phase && other.unit == difference.unit &&
               other.tensor == difference.tensor;
      });
      if (same == all.end()) {
        all.push_back(difference);
      } else {
        *same = further(*same, difference);
      }
    }
  }

  /// As computed: outputs by unit, the loss, gradients from the last unit on, parameters.
  static json in_order(TensorDifferences all) {
    const auto place = [](const TensorDifference& each) {
      if (each.phase == kUpdate) return 3;
      if (each.phase == to_string(Phase::backward)) return 2;
      return each.tensor == kLossName ? 1 : 0;
    };
    std::ranges::stable_sort(all, {}, place);
    return all;
  }

  const LockstepPart& part_;
  std::int64_t count_;
  ProcessGroup& group_;
  RankOf rank_;
  Trainer trainer_;
  UnitOutputs outputs_;
};

/// |lead - other|, 0 where they are equal or both no number.
at::Tensor apart(const at::Tensor& lead, const at::Tensor& other) {
  const at::Tensor off = (lead - other).abs();
  return at::where(lead.eq(other).logical_or(lead.isnan().logical_and(other.isnan())),
                   at::zeros({}, off.options()), off);
}

TensorDifference at_element(std::int64_t element, const at::Tensor& off, const at::Tensor& lead,
                            const at::Tensor& other) {
  return {.difference = off[element].item<double>(),
          .element = element,
          .lead = lead[element].item<double>(),
          .other = other[element].item<double>()};
}

void refuse_other(const Experiment& follows, const char* key, const std::string& other,
                  const std::string& leads, const char* hint) {
  if (other == leads) return;
  refuse(follows, key,
         {.what = "the two have no steps that could be compared",
          .got = said(key, other),
          .expected = said(key, leads) + ", as the one that leads",
          .hint = hint});
}

/// The names and shapes of a model's parameters.
std::string shapes_of(const ModelConfig& model) {
  std::string out;
  for (const ModelParameter& each : model_parameters(model)) {
    out += fmt::format("{} {}, ", each.name, shape_text(each.sizes));
  }
  return out;
}

/// The section without its paths, whose contents are compared.
std::string data_of(const Experiment& experiment) {
  ConfigNode data = *resolve(experiment).find("data");
  std::erase_if(data.map, [](const auto& entry) { return entry.first == "path"; });
  return compact(data);
}

void check_steps(const Experiment& experiment) {
  const TrainingConfig& config = training(experiment);
  const char* const who = "ddprun diff, which looks at each step from step 0 on";
  refuse_unused(experiment, !config.train.resume_from.empty(), "train.resume_from", who);
  refuse_unused(experiment, config.train.measure != StepExtent::step, "train.measure", who);
  refuse_unused(experiment, config.execution.mode != ExecutionMode::eager, "execution.mode", who);
  refuse_unused(experiment, config.optimizer.overlap, "optimizer.overlap",
                "ddprun diff, which updates both with the same gradients");
}

/// One tensor would be compared with as many as there are ranks.
void check_one_gradient(const Experiment& experiment, const PluginRegistry& registry) {
  check_agreement(experiment, registry, {Agreement::exact, Agreement::lossy},
                  {.what = "diff compares gradients and weights that all ranks have alike",
                   .got = "whose ranks go their own ways between meetings",
                   .expected = "a strategy whose ranks agree in each step"});
}

}  // namespace

TensorDifference largest_difference(const at::Tensor& lead, const at::Tensor& other,
                                    std::int64_t begin) {
  const at::Tensor a = lead.to(at::kDouble), b = other.to(at::kDouble);
  const at::Tensor off = apart(a, b);
  TensorDifference out = at_element(off.argmax().item<std::int64_t>(), off, a, b);
  out.size = a.abs().max().item<double>();
  out.element += begin;
  return out;
}

TensorDifference largest_of_update(const at::Tensor& before, const at::Tensor& lead,
                                   const at::Tensor& other, std::int64_t begin) {
  const at::Tensor a = lead.to(at::kDouble), b = other.to(at::kDouble);
  const at::Tensor off = apart(a, b);
  const at::Tensor then = before.to(at::kDouble);
  const at::Tensor size = at::maximum(a.abs(), then.abs()) + (a - then).abs().max();
  const at::Tensor relative = at::where(off.eq(0), off, off / size);
  const auto element = relative.argmax().item<std::int64_t>();
  TensorDifference out = at_element(element, off, a, b);
  out.size = size[element].item<double>();
  out.element += begin;
  return out;
}

TensorDifference further(const TensorDifference& a, const TensorDifference& b) {
  if (a.phase != kUpdate) {  // measured by the largest of the whole tensor
    TensorDifference out = std::isnan(a.difference) || a.difference >= b.difference ? a : b;
    out.size = std::max(a.size, b.size);
    return out;
  }
  const auto measured = [](const TensorDifference& each) {
    return each.difference == 0 ? 0 : each.difference / each.size;
  };
  return std::isnan(a.difference) || measured(a) >= measured(b) ? a : b;
}

json Training::lockstep_rank(const Experiment& experiment, const PluginRegistry& registry,
                             const RunContext& context, const LockstepPart& part) const {
  ConnectedRank rank(experiment, context);
  rank.connect();
  json found = Lockstep(experiment, registry, rank.group(), part).run();
  rank.group().shutdown();
  return context.info.rank == 0 ? found : json{};
}

void Training::check_lockstep(const Experiment& leads, const Experiment& follows,
                              const PluginRegistry& registry) const {
  check_one_gradient(follows, registry);
  for (const Experiment* each : {&leads, &follows}) check_steps(*each);
  const auto number = [](std::int64_t value) { return std::to_string(value); };
  const TrainingConfig& first = ddprun::training(leads);
  const TrainingConfig& other = ddprun::training(follows);
  if (shapes_of(first.model) != shapes_of(other.model)) {
    refuse(follows, "model",
           {.what = "the two have no tensors that could be compared",
            .got = "another model",
            .expected = "parameters of the same names and shapes",
            .hint = "`model:` may differ in kernels, attention, recompute and unit"});
  }
  refuse_other(follows, "model.context_length", number(other.model.context_length),
               number(first.model.context_length), "both read the same tokens");
  refuse_other(follows, "train.global_batch", number(global_batch(follows)),
               number(global_batch(leads)), "set train.global_batch in both");
  refuse_other(follows, "train.seed", number(other.train.seed), number(first.train.seed),
               "both read the same tokens");
  refuse_other(follows, "data", data_of(follows), data_of(leads), "both read the same tokens");
  if (planned_hash(leads, kDataPath) == planned_hash(follows, kDataPath)) return;
  refuse_other(follows, "data.path", "with other contents", "with these contents",
               "both read the same tokens");
}

}  // namespace ddprun
