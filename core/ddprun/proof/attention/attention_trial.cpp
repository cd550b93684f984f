// Gradients are asked for and not accumulated, so that none is copied into place.
#include "ddprun/proof/attention/attention_trial.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/empty.h>
#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/autograd.h>
#include <thread>

#include "ddprun/base/clock.h"
#include "ddprun/base/counter_hash.h"
#include "ddprun/kernels/rows/normal_values.h"
#include "ddprun/plugin/called.h"

namespace ddprun {

namespace {

TrialInputs make_inputs(const AttentionConfig& config, c10::Device device, std::uint64_t seed,
                        TrialLayout layout) {
  const AttentionSizes sizes = config.sizes();
  std::int64_t drawn = 0;
  const bool by_token = layout == TrialLayout::by_token;
  const auto draw = [&](std::int64_t time) {
    const at::Tensor values =
        by_token ? at::empty({sizes.batch, time, sizes.heads, sizes.head_dim}).transpose(1, 2)
                 : at::empty({sizes.batch, sizes.heads, time, sizes.head_dim});
    const std::int64_t begin = drawn;
    drawn += values.numel();
    kernels::write_normal_values(mix_bits(seed), begin, drawn, 1, values.data_ptr<float>());
    return values.to(device, scalar_type(config.dtype));
  };
  TrialInputs inputs;
  inputs.q = draw(sizes.queries);
  inputs.k = draw(sizes.keys);
  inputs.v = draw(sizes.keys);
  if (config.backward()) inputs.dout = draw(sizes.queries);
  return inputs;
}

/// Returns when nobody else holds the tensor, or soon: a device's autograd thread holds what it
/// handed out a little longer. If it let go last, no listener of the device's memory would hear.
void own_alone(const at::Tensor& tensor) {
  constexpr std::int64_t kLimitNs = 100'000'000;
  const std::int64_t begin_ns = now_ns();
  while (tensor.use_count() > 1 && now_ns() - begin_ns < kLimitNs) std::this_thread::yield();
}

}  // namespace

AttentionTrial::AttentionTrial(const AttentionConfig& config, Attention& attention, Device& device,
                               std::uint64_t seed, TrialLayout layout, const at::Tensor& first_keys)
    : config_(config),
      attention_(attention),
      device_(device),
      inputs_(make_inputs(config, device.torch_device(), seed, layout)) {
  inputs_.first_keys = first_keys;
}

AttentionOptions AttentionTrial::options() const {
  return {.causal = config_.causal, .first_keys = inputs_.first_keys};
}

void AttentionTrial::call_next_layer() {
  const c10::AutoGradMode gradients(config_.backward());
  const auto leaf = [this](const at::Tensor& input) {
    return input.detach().requires_grad_(config_.backward());
  };
  called_forward(attention_, leaf(-inputs_.q), leaf(inputs_.k), leaf(inputs_.v), options());
}

at::Tensor AttentionTrial::output_alone() {
  const c10::NoGradGuard no_grad;
  return called_forward(attention_, inputs_.q, inputs_.k, inputs_.v, options());
}

TrialResults AttentionTrial::run(TrialMarks& marks, const std::function<void()>& between) {
  const bool backward = config_.backward();
  const c10::AutoGradMode gradients(backward);
  // Hooks that a call leaves at its inputs go with them.
  const auto leaf = [backward](const at::Tensor& input) {
    return input.detach().requires_grad_(backward);
  };
  const at::Tensor q = leaf(inputs_.q);
  const at::Tensor k = leaf(inputs_.k);
  const at::Tensor v = leaf(inputs_.v);
  TrialResults results;
  marks.begin = device_.mark();
  results.out = called_forward(attention_, q, k, v, options());
  marks.forward_end = device_.mark();
  marks.end = marks.forward_end;
  if (between) between();
  if (!backward) return results;
  called_backward(attention_, [&] {
    const auto all = torch::autograd::grad({results.out}, {q, k, v}, {inputs_.dout});
    results.dq = all[0];
    results.dk = all[1];
    results.dv = all[2];
  });
  marks.end = device_.mark();
  if (!device_.works_behind()) return results;
  for (const at::Tensor* gradient : {&results.dq, &results.dk, &results.dv}) own_alone(*gradient);
  return results;
}

}  // namespace ddprun
