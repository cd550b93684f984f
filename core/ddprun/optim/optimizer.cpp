// AdamW and SGD over ranges of the flat buffers, the norm of the gradients, learning rates.
#include "ddprun/optim/optimizer.h"

#include <ATen/Functions.h>
#include <ATen/Parallel.h>
#include <ATen/record_function.h>
#include <fmt/format.h>

#include <cmath>
#include <numbers>
#include <numeric>
#include <utility>

#include "ddprun/base/error.h"
#include "ddprun/base/text.h"
#include "ddprun/kernels/rows/optimizer.h"
#include "ddprun/memory/memory_label.h"
#include "ddprun/optim/flat_parts.h"

namespace ddprun {

namespace {

constexpr std::int64_t kGrain = 32768;  // elements worth a thread's start

/// The element types of one parameter's gradient, value and moments.
template <typename G, typename P, typename M>
struct Elements {
  using Gradient = G;
  using Parameter = P;
  using Moment = M;
};

/// Calls f with the Elements of the buffers: those that the kernels have.
template <typename F>
void with_elements(const FlatBuffers& buffers, const F& f) {
  using half = at::BFloat16;
  const BufferDtypes& dtypes = buffers.dtypes();
  if (dtypes.moments == at::kBFloat16) {
    f(Elements<half, half, half>());
  } else if (dtypes.parameters == at::kBFloat16) {
    f(Elements<half, half, float>());
  } else if (buffers.mean_dtype() == at::kBFloat16) {
    f(Elements<half, float, float>());
  } else {
    f(Elements<float, float, float>());
  }
}

template <typename T>
T* at_offset(T* pointer, std::int64_t offset) {
  return pointer == nullptr ? nullptr : pointer + offset;
}

/// Calls update(count, gradient, parameter, copy, moments) for pieces that make up `range`, on
/// torch's threads. copy: the parameters' bf16 copy, or null; moments: null where there are none.
template <typename Types, typename Update>
void for_each_piece_of(FlatBuffers& buffers, Moments& moments, Range range, const Update& update) {
  using Moment = typename Types::Moment;
  moments.for_each_part(range, [&](Range part, const Moments::Arrays& arrays, std::int64_t from) {
    std::array<Moment*, 2> states{};
    const at::Tensor gradients = buffers.mean(part), parameters = buffers.parameters(part);
    const at::Tensor copies = buffers.compute_copy(part);
    RECORD_FUNCTION("ddprun::update", std::vector<c10::IValue>(
                                          {gradients, parameters, copies, arrays[0], arrays[1]}));
    if (gradients.is_meta()) return;  // the moments are there, which is all that is asked
    for (int k = 0; k < moments.count(); ++k) states[k] = arrays[k].data_ptr<Moment>() + from;
    const auto* const gradient = gradients.const_data_ptr<typename Types::Gradient>();
    auto* const parameter = parameters.data_ptr<typename Types::Parameter>();
    auto* const copy = copies.defined() ? copies.data_ptr<at::BFloat16>() : nullptr;
    at::parallel_for(0, part.size(), kGrain, [&](std::int64_t begin, std::int64_t end) {
      update(end - begin, gradient + begin, parameter + begin, at_offset(copy, begin),
             std::array{at_offset(states[0], begin), at_offset(states[1], begin)});
    });
  });
}

template <typename Update>
void for_each_piece(FlatBuffers& buffers, Moments& moments, Range range, const Update& update) {
  with_elements(buffers, [&]<typename Types>(Types) {
    for_each_piece_of<Types>(buffers, moments, range, update);
  });
}

/// By kernels of our own, on the CPU, where values are known as soon as they are computed.
class KernelOptimizer : public Optimizer {
 public:
  using Optimizer::Optimizer;

  std::int64_t updates() const override { return steps_; }
  void set_updates(std::int64_t updates) override { steps_ = updates; }

 protected:
  std::int64_t steps_ = 0;  // that were not skipped
  float gradient_scale_ = 1.0F;

 private:
  void start(double /*lr*/) override {
    ++steps_;
    gradient_scale_ = 1.0F;
    skipped_ = false;
  }

  void scale(const GradientScale& scale) override {
    if (buffers_.parameter(0).is_meta()) return;
    gradient_scale_ = scale.factor.defined() ? scale.factor.item<float>() : 1.0F;
    skipped_ = scale.overflow.defined() && scale.overflow.item<float>() > 0.0F;
    if (skipped_) --steps_;
  }

  void update_range(Range range, const GroupSettings& settings) final {
    if (!skipped_) update_elements(range, settings);
  }

  virtual void update_elements(Range range, const GroupSettings& settings) = 0;

  bool skipped_ = false;
};

class Adamw final : public KernelOptimizer {
 public:
  using KernelOptimizer::KernelOptimizer;

 private:
  void update_elements(Range range, const GroupSettings& settings) override {
    const kernels::AdamwFactors factors = kernels::adamw_factors(
        {.beta1 = config_.betas[0],
         .beta2 = config_.betas[1],
         .weight_decay = settings.weight_decay,
         .eps = config_.eps},
        lr() * settings.lr_scale, static_cast<double>(steps_), gradient_scale_);
    for_each_piece(buffers_, moments_, range,
                   [&](std::int64_t count, const auto* gradient, auto* parameter,
                       at::BFloat16* copy, const auto& moments) {
                     kernels::adamw_loop(factors, count, gradient, parameter, moments[0],
                                         moments[1], copy);
                   });
  }
};

class Sgd final : public KernelOptimizer {
 public:
  using KernelOptimizer::KernelOptimizer;

 private:
  void update_elements(Range range, const GroupSettings& settings) override {
    const kernels::SgdFactors factors{.gradient_scale = gradient_scale_,
                                      .weight_decay = static_cast<float>(settings.weight_decay),
                                      .momentum = static_cast<float>(config_.momentum),
                                      .lr = static_cast<float>(lr() * settings.lr_scale)};
    for_each_piece(buffers_, moments_, range,
                   [&](std::int64_t count, const auto* gradient, auto* parameter,
                       at::BFloat16* copy, const auto& moments) {
                     if (moments[0] == nullptr) {
                       kernels::sgd_loop(factors, count, gradient, parameter, copy);
                     } else {
                       kernels::sgd_momentum_loop(factors, count, gradient, parameter, moments[0],
                                                  copy);
                     }
                   });
  }
};

/// The parts of `own` that are in none of `done`, which are in order and apart.
std::vector<Range> rest_of(Range own, const std::vector<Range>& done) {
  std::vector<Range> rest;
  std::int64_t begin = own.begin;
  for (const Range& each : done) {
    const Range part = shared(own, each);
    if (part.size() <= 0) continue;
    if (begin < part.begin) rest.push_back({begin, part.begin});
    begin = part.end;
  }
  if (begin < own.end) rest.push_back({begin, own.end});
  return rest;
}

/// Of values on the CPU, in double. Blocks of a fixed size, added in order: the same bits at any
/// number of threads.
double square_sum(const at::Tensor& flat) {
  RECORD_FUNCTION("ddprun::square_sum", std::vector<c10::IValue>({flat}));
  if (flat.is_meta()) return 0;
  const std::int64_t count = flat.numel();
  std::vector<double> sums((count + kGrain - 1) / kGrain);
  const auto add = [&](const auto* values) {
    at::parallel_for(0, std::ssize(sums), 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t block = begin; block < end; ++block) {
        const std::int64_t first = block * kGrain;
        sums[block] = kernels::square_sum(values + first, std::min(kGrain, count - first));
      }
    });
  };
  if (flat.scalar_type() == at::kBFloat16) {
    add(flat.const_data_ptr<at::BFloat16>());
  } else {
    add(flat.const_data_ptr<float>());
  }
  return std::accumulate(sums.begin(), sums.end(), 0.0);
}

}  // namespace

Optimizer::Optimizer(const OptimizerConfig& config, FlatBuffers& buffers)
    : buffers_(buffers),
      config_(config),
      moments_(config.name == OptimizerKind::adamw ? 2
               : config.momentum == 0.0            ? 0
                                                   : 1,
               buffers),
      groups_(grouped_ranges(buffers, config)) {}

Optimizer::~Optimizer() = default;

void Optimizer::begin_step(double lr) {
  begun_ = true;
  lr_ = lr;
  updated_.clear();
  start(lr);
}

void Optimizer::scale_gradients(const GradientScale& scale) {
  TORCH_CHECK(begun_ && updated_.empty(), "Optimizer::scale_gradients outside of its step's begin");
  scaled_by_ = scale;
  this->scale(scale);
}

void Optimizer::update(Range range) {
  TORCH_CHECK(begun_, "Optimizer::update before the first begin_step");
  if (range.size() == 0) return;
  const auto after = std::partition_point(
      updated_.begin(), updated_.end(), [&](const Range& done) { return done.end <= range.begin; });
  if (after != updated_.end() && after->begin < range.end) {
    throw Error({.what = "parameters would be updated twice in one step",
                 .where = "the optimizer",
                 .got = fmt::format("elements {} to {}, after {} to {}", range.begin, range.end,
                                    after->begin, after->end),
                 .expected = "each element once",
                 .hint = "a strategy must report a range once a step, and not update it again in "
                         "update()"});
  }
  const auto& owned = buffers_.owned();
  if (std::ranges::none_of(owned, [&](const Range& own) { return own.contains(range); })) {
    throw Error({.what = "parameters would be updated that this rank does not own",
                 .where = "the optimizer",
                 .got = fmt::format("elements {} to {}", range.begin, range.end),
                 .expected = "a part of what the strategy's plan says that this rank owns",
                 .hint = "range_ready() and update() take ranges that are owned"});
  }
  updated_.insert(after, range);
  update_by_groups(range);
}

void Optimizer::update_by_groups(Range range) {
  const MemoryLabel label("optimizer");
  for (const GroupedRange& group : groups_) {
    const Range part = shared(group.range, range);
    if (part.size() > 0) update_range(part, group.settings);
  }
}

void Optimizer::update_all() {
  TORCH_CHECK(begun_, "Optimizer::update_all before the first begin_step");
  const std::vector<Range> updated = std::exchange(updated_, buffers_.owned());
  for (const Range& own : buffers_.owned()) {
    for (const Range& rest : rest_of(own, updated)) update_by_groups(rest);
  }
}

std::string Optimizer::left_out() const {
  for (int index = 0; index < buffers_.count(); ++index) {
    for (const Range& own : buffers_.owned(buffers_.range(index))) {
      if (!rest_of(own, updated_).empty()) return buffers_.name(index);
    }
  }
  return {};
}

std::vector<at::Tensor> Optimizer::written_by_update(Range range) {
  std::vector<at::Tensor> views = {buffers_.parameters(range)};
  if (const at::Tensor copy = buffers_.compute_copy(range); copy.defined()) views.push_back(copy);
  if (moments_.bytes() == 0) return views;
  moments_.for_each_part(range, [&](Range part, const Moments::Arrays& arrays, std::int64_t from) {
    for (int k = 0; k < moments_.count(); ++k) {
      views.push_back(arrays[k].narrow(0, from, part.size()));
    }
  });
  return views;
}

Moments& Optimizer::moments() {
  for (const Range& own : buffers_.owned()) {
    moments_.for_each_part(own, [](Range, const Moments::Arrays&, std::int64_t) {});
  }
  return moments_;
}

std::vector<std::string> Optimizer::moment_names() const {
  if (config_.name == OptimizerKind::adamw) return {"exp_avg", "exp_avg_sq"};
  return std::vector<std::string>(moments_.count(), "momentum_buffer");
}

void Optimizer::update_again(Range range) {
  TORCH_CHECK(begun_, "Optimizer::update_again before the first step");
  count_no_step();
  update_by_groups(range);
}

std::unique_ptr<Optimizer> make_optimizer(const OptimizerConfig& config, FlatBuffers& buffers) {
  if (config.name == OptimizerKind::adamw && config.betas.size() != 2) {
    throw ConfigError({.what = "adamw needs two betas",
                       .where = "optimizer.betas",
                       .got = counted(std::ssize(config.betas), "value"),
                       .expected = "[beta1, beta2]",
                       .hint = "write both, as in [0.9, 0.95]"});
  }
  if (buffers.parameter(0).is_cuda()) return make_device_optimizer(config, buffers);
  if (config.name == OptimizerKind::sgd) return std::make_unique<Sgd>(config, buffers);
  return std::make_unique<Adamw>(config, buffers);
}

at::Tensor gradient_norm(const FlatBuffers& buffers) {
  if (buffers.owns_all()) {
    const at::Tensor gradients = buffers.mean(buffers.all());
    if (gradients.is_cuda()) return aten_norm(gradients);
    return at::full({}, std::sqrt(square_sum(gradients)), gradients.options().dtype(at::kDouble));
  }
  at::Tensor sum = at::zeros({}, buffers.parameter(0).options().dtype(at::kDouble));
  for (const Range& own : buffers.owned()) {
    const at::Tensor gradients = buffers.mean(own);
    sum += gradients.is_cuda() ? aten_norm(gradients).square()
                               : at::full({}, square_sum(gradients), sum.options());
  }
  return sum.sqrt();
}

double learning_rate(const OptimizerConfig& config, std::int64_t step, std::int64_t total_steps) {
  const ScheduleConfig& schedule = config.schedule;
  if (step < schedule.warmup_steps) {
    return config.lr * static_cast<double>(step + 1) / static_cast<double>(schedule.warmup_steps);
  }
  if (schedule.name == Schedule::constant) return config.lr;
  if (step >= total_steps) return schedule.min_lr;
  const double progress = static_cast<double>(step - schedule.warmup_steps) /
                          static_cast<double>(total_steps - schedule.warmup_steps);
  const double cosine = 0.5 * (1.0 + std::cos(progress * std::numbers::pi));
  return schedule.min_lr + cosine * (config.lr - schedule.min_lr);
}

}  // namespace ddprun
