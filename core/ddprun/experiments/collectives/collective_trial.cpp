// The options of the section `collectives:`, and the sizes that follow from them. Patterns of
// integers that no collective rounds, what must come of them, and the samples: fill, barrier, call.
#include "ddprun/experiments/collectives/collective_trial.h"

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <limits>
#include <thread>
#include <utility>

#include "ddprun/base/choice.h"
#include "ddprun/base/clock.h"
#include "ddprun/base/options.h"
#include "ddprun/comm/backends/backend_support.h"
#include "ddprun/comm/group/all_gather_values.h"
#include "ddprun/comm/launch/host_layout.h"
#include "ddprun/device/device.h"
#include "ddprun/experiments/collectives/collectives.h"
#include "ddprun/rank/repetition.h"

namespace ddprun {

namespace {

constexpr double kManyBytes = 1e12;

/// The pattern's period: a prime, so that data that moved by any size of chunk is wrong.
constexpr std::int64_t kPeriod = 65521;
constexpr std::int64_t kMostLevels = 250;
constexpr int kRoot = 0;
constexpr const char* kLabel = "measured";

/// Calls `each(begin, length)` for the pieces of a tensor of `elements` that are a period long.
template <typename Each>
void for_each_period(std::int64_t elements, const Each& each) {
  for (std::int64_t begin = 0; begin < elements; begin += kPeriod) {
    each(begin, std::min(kPeriod, elements - begin));
  }
}

void write_periods(const at::Tensor& tensor, const at::Tensor& period) {
  for_each_period(tensor.numel(), [&](std::int64_t begin, std::int64_t length) {
    tensor.narrow(0, begin, length).copy_(period.narrow(0, 0, length));
  });
}

/// Elements of `tensor` that differ from the pattern, of which it begins at element `offset`.
std::int64_t count_wrong(const at::Tensor& tensor, const at::Tensor& period, std::int64_t offset) {
  const at::Tensor wanted = at::roll(period, -(offset % kPeriod));
  at::Tensor wrong = at::zeros({}, tensor.options().dtype(at::kLong));
  for_each_period(tensor.numel(), [&](std::int64_t begin, std::int64_t length) {
    wrong += tensor.narrow(0, begin, length).ne(wanted.narrow(0, 0, length)).sum();
  });
  return wrong.item<std::int64_t>();
}

class BufferTrial final : public CollectiveTrial {
 public:
  BufferTrial(const CollectivesConfig& config, ProcessGroup& group)
      : config_(config),
        group_(group),
        levels_(pattern_levels(config, group.size())),
        slice_(config.elements(group.size()) / (config.slices() ? group.size() : 1)) {
    const at::Tensor whole = allocate(config.elements(group.size()));
    const at::Tensor own = config.slices() ? whole.narrow(0, group.rank() * slice_, slice_) : whole;
    const at::Tensor other = config.in_place ? own : allocate(slice_);
    const bool gathers = config.collective == CollectiveKind::all_gather;
    input_ = gathers ? other : whole;
    output_ = gathers ? whole : other;
  }

  void fill(std::int64_t round) override {
    if (output_.data_ptr() != input_.data_ptr() || output_.numel() > input_.numel()) {
      output_.zero_();
    }
    write_periods(input_, of_rank(group_.rank(), round).to(input_.scalar_type()));
  }

  void call() override {
    const bool copies = !config_.in_place && !config_.slices();
    const int rank = group_.rank();
    switch (config_.collective) {
      case CollectiveKind::all_reduce:
        if (copies) output_.copy_(input_);
        return group_.all_reduce(output_, config_.op, kLabel, Await::next).wait();
      case CollectiveKind::broadcast:
        if (copies && rank == kRoot) output_.copy_(input_);
        return group_.broadcast(output_, kRoot, kLabel, Await::next).wait();
      case CollectiveKind::reduce_scatter:
        return group_.reduce_scatter(output_, input_, config_.op, kLabel, Await::next).wait();
      case CollectiveKind::all_gather:
        return group_.all_gather(output_, input_, kLabel, Await::next).wait();
      case CollectiveKind::barrier:
        return group_.barrier(kLabel);
    }
  }

  std::int64_t wrong(std::int64_t round) override {
    const at::ScalarType type = output_.scalar_type();
    if (config_.collective == CollectiveKind::broadcast) {
      return count_wrong(output_, of_rank(kRoot, round).to(type), 0);
    }
    if (config_.collective == CollectiveKind::all_gather) {
      std::int64_t wrong = 0;
      for (int rank = 0; rank < group_.size(); ++rank) {
        wrong +=
            count_wrong(output_.narrow(0, rank * slice_, slice_), of_rank(rank, round).to(type), 0);
      }
      return wrong;
    }
    const std::int64_t offset = config_.slices() ? group_.rank() * slice_ : 0;
    return count_wrong(output_, reduced(round).to(type), offset);
  }

  std::int64_t compared() const override { return output_.numel(); }

 private:
  at::Tensor allocate(std::int64_t elements) {
    const auto options =
        at::TensorOptions(group_.device().torch_device()).dtype(scalar_type(config_.dtype));
    return config_.memory == BufferMemory::group ? group_.allocate(elements, options)
                                                 : at::zeros({elements}, options);
  }

  /// What a rank puts in: (period,) int64; of avg multiples of the ranks, whose mean is whole.
  at::Tensor of_rank(int rank, std::int64_t round) const {
    const auto options = at::TensorOptions(group_.device().torch_device()).dtype(at::kLong);
    const std::int64_t scale = config_.reduces() && config_.op == ReduceOp::avg ? group_.size() : 1;
    const at::Tensor index = at::arange(kPeriod, options);
    return (index * 7919 + (rank * 131 + round * 31)).remainder(levels_ + 1) * scale;
  }

  /// What must come out of a reduction: (period,) int64.
  at::Tensor reduced(std::int64_t round) const {
    at::Tensor out = of_rank(0, round);
    for (int rank = 1; rank < group_.size(); ++rank) {
      const at::Tensor other = of_rank(rank, round);
      out = config_.op == ReduceOp::max ? at::maximum(out, other) : out + other;
    }
    return config_.op == ReduceOp::avg ? out.div(group_.size(), "floor") : out;
  }

  CollectivesConfig config_;
  ProcessGroup& group_;
  std::int64_t levels_;
  std::int64_t slice_;  ///< elements of what one rank sends or gets
  at::Tensor input_, output_;
};

class BarrierTrial final : public CollectiveTrial {
 public:
  explicit BarrierTrial(ProcessGroup& group) : group_(group) {}

  void fill(std::int64_t /*round*/) override {}
  void call() override { group_.barrier(kLabel); }

  /// One rank comes late. Clocks are compared within a host alone.
  std::int64_t wrong(std::int64_t round) override {
    constexpr std::chrono::milliseconds kLate(5);
    group_.barrier("together");
    if (group_.rank() == round % group_.size()) std::this_thread::sleep_for(kLate);
    const std::int64_t came = now_ns();
    group_.barrier("late");
    const std::int64_t left = now_ns();
    const std::pair own(host_identity(), came);
    const auto early = [&](const auto& other) {
      return other.first == own.first && other.second > left;
    };
    return std::ranges::any_of(all_gather_values(group_, own), early) ? 1 : 0;
  }

  std::int64_t compared() const override { return 1; }

 private:
  ProcessGroup& group_;
};

Sample take_sample(CollectiveTrial& trial, ProcessGroup& group, std::int64_t index,
                   RankResult& result) {
  Device& device = group.device();
  trial.fill(index);
  // Twice: a rank that slept until the last one came leaves the first too late.
  group.barrier("all came");
  group.barrier("start");
  group.take_records();  // whatever went before is not of this sample
  const Mark begin = device.mark();
  trial.call();
  const Mark end = device.mark();
  Sample sample(collectives());
  sample.step = index;
  const std::int64_t begin_ns = device.time_of(begin);
  sample[collectives().time_us] = static_cast<double>(device.time_of(end) - begin_ns) * 1e-3;
  result.timeline = {{.step = index, .begin_ns = begin_ns, .collectives = group.take_records()}};
  return sample;
}

Check data_check(const char* name, std::int64_t wrong, const CollectiveTrial& trial) {
  return make_check(name, wrong == 0,
                    wrong == 0
                        ? fmt::format("all {} elements are right", trial.compared())
                        : fmt::format("{} of {} elements are wrong", wrong, trial.compared()));
}

/// The largest integer up to which all integers are exact in sums and results of that type.
std::int64_t largest_exact(ElementType type) {
  constexpr std::int64_t kInt = std::numeric_limits<std::int32_t>::max();  // enough of wider types
  constexpr std::array<std::int64_t, kChoiceNames<ElementType>.size()> kLargest = {
      1 << 24, kInt, 1 << 11, 1 << 8, 127, 255, kInt, kInt};
  return kLargest.at(static_cast<std::size_t>(type));
}

}  // namespace

c10::ScalarType scalar_type(ElementType type) {
  constexpr std::array kTypes = {c10::kFloat, c10::kDouble, c10::kHalf, c10::kBFloat16,
                                 c10::kChar,  c10::kByte,   c10::kInt,  c10::kLong};
  return kTypes.at(static_cast<std::size_t>(type));
}

std::int64_t bytes_of(ElementType type) {
  return static_cast<std::int64_t>(c10::elementSize(scalar_type(type)));
}

bool CollectivesConfig::reduces() const { return ddprun::reduces(collective); }

std::int64_t CollectivesConfig::elements(std::int64_t ranks) const {
  if (collective == CollectiveKind::barrier) return 0;
  const std::int64_t parts = slices() ? ranks : 1;
  return bytes / (bytes_of(dtype) * parts) * parts;
}

std::int64_t CollectivesConfig::buffer_bytes(std::int64_t ranks) const {
  const std::int64_t whole = elements(ranks) * bytes_of(dtype);
  if (in_place) return whole;
  return whole + (slices() ? whole / ranks : whole);
}

void declare_options(Options& o, CollectivesConfig& c) {
  o.option("collective", &c.collective, "what is measured");
  o.option("bytes", &c.bytes,
           "of the whole tensor (of an all-gather the output, of a reduce-scatter the input), "
           "rounded down to whole elements and equal slices",
           {.min = 1, .max = kManyBytes});
  o.option("dtype", &c.dtype, "of the elements");
  o.option("op", &c.op, "of all_reduce and reduce_scatter");
  o.option("in_place", &c.in_place,
           "false: the input stays as it is; for all_reduce and broadcast, which c10d has in place "
           "alone, the copy is part of the time");
  o.option("memory", &c.memory,
           "where the buffers lie; group: in what the backend allocates, such as shared memory");
}

std::int64_t pattern_levels(const CollectivesConfig& config, std::int64_t ranks) {
  const bool adds = config.reduces() && config.op != ReduceOp::max;
  const bool divides = config.reduces() && config.op == ReduceOp::avg;
  const std::int64_t share = (adds ? ranks : 1) * (divides ? ranks : 1);
  return std::min(kMostLevels, largest_exact(config.dtype) / share);
}

std::unique_ptr<CollectiveTrial> make_collective_trial(const CollectivesConfig& config,
                                                       ProcessGroup& group) {
  if (config.collective == CollectiveKind::barrier) return std::make_unique<BarrierTrial>(group);
  return std::make_unique<BufferTrial>(config, group);
}

void measure_trial(CollectiveTrial& trial, ProcessGroup& group, const RepeatConfig& repeat,
                   const std::function<void(const Sample&)>& on_sample, RankResult& result) {
  Repetition repetition(repeat, group);
  const auto check = [&](const char* name) {
    Sample& sample = result.samples.back();
    const std::int64_t wrong = trial.wrong(sample.step);
    sample[collectives().wrong] = static_cast<double>(wrong);
    result.checks.push_back(data_check(name, wrong, trial));
  };
  for (std::int64_t index = 0; repetition.goes_on(index); ++index) {
    result.samples.push_back(take_sample(trial, group, index, result));
    result.samples.back().warmup = index < repeat.warmup;
    if (index == 0) check("data_before_timing");
    on_sample(result.samples.back());
  }
  check("data_after_timing");
}

}  // namespace ddprun
