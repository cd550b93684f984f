// The autograd node of blocks that backward computes again.
#include "ddprun/model/recompute.h"

#include <ATen/Context.h>
#include <ATen/autocast_mode.h>
#include <ATen/ops/equal.h>
#include <c10/core/GradMode.h>
#include <c10/util/ScopeExit.h>
#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/functions/utils.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "ddprun/base/error.h"
#include "ddprun/base/torch_versions.h"
#include "ddprun/memory/memory_label.h"
#include "ddprun/plugin/parts/kernel_node.h"

namespace ddprun {

namespace {

using torch::autograd::Engine;
using torch::autograd::variable_list;

std::vector<at::Generator> generators_of(c10::Device device) {
  std::vector<at::Generator> generators = {at::globalContext().defaultGenerator(c10::kCPU)};
  if (device.is_cuda()) generators.push_back(at::globalContext().defaultGenerator(device));
  return generators;
}

/// The states of the default generators, the CPU's and that of `device`, as they are on
/// construction, to draw the same once more. They belong to the process, so threads that draw
/// meanwhile disturb each other.
class RandomState {
 public:
  explicit RandomState(c10::Device device) : device_(device) {
    for (at::Generator& generator : generators_of(device)) {
      const std::lock_guard lock(generator.mutex());
      states_.push_back(generator.get_state());
    }
  }

  /// Whether nothing was drawn since.
  bool is_current() const {
    return std::ranges::equal(states_, RandomState(device_).states_, at::equal);
  }

  /// Puts the generators into this state.
  void restore() const {
    auto state = states_.begin();
    for (at::Generator& generator : generators_of(device_)) {
      const std::lock_guard lock(generator.mutex());
      generator.set_state(*state++);
    }
  }

 private:
  c10::Device device_;
  std::vector<at::Tensor> states_;
};

at::Tensor without_autograd(const Blocks& blocks, const at::Tensor& stream, std::int64_t first,
                            std::int64_t last) {
  const c10::AutoGradMode no_grad(false);
  // The cast of a weight has no graph where autograd is off. It must not serve an operator that is
  // computed with autograd later in the same forward.
  const auto cache_again =
      c10::make_scope_exit([before = at::autocast::is_autocast_cache_enabled()] {
        at::autocast::set_autocast_cache_enabled(before);
      });
  at::autocast::set_autocast_cache_enabled(false);
  return blocks(stream, first, last);
}

struct RecomputeNode final : KernelNode {
  RecomputedBlocks group;
  Blocks blocks;
  AsInForward as_in_forward;
  std::optional<RandomState> random;  // before the forward, if that drew anything

  std::string name() const override { return "RecomputeBackward"; }
  std::string alternative() const override { return "set `recompute: none` under `model:`"; }
  bool backward_overwrites() const override { return false; }
  bool below_autograd() const override { return false; }

  variable_list backward(variable_list&& gradients) override {
    if (!Engine::get_default_engine().is_checkpoint_valid()) refuse_chosen_inputs();
    const auto [stream] = saved<1>();
    at::Tensor dstream = std::move(gradients[0]);
    const bool wanted = task_should_compute_output(0);
    if (!random) return {through(group, stream, std::move(dstream), {}, wanted)};
    const RandomState now(stream.device());
    dstream = through(group, stream, std::move(dstream), random, wanted);
    now.restore();
    return {dstream};
  }

  /// Backward through `part`, which `stream` enters. Returns the gradient of `stream`, if that is
  /// `wanted`.
  at::Tensor through(RecomputedBlocks part, const at::Tensor& stream, at::Tensor dout,
                     const std::optional<RandomState>& state, bool wanted) const {
    if (state) state->restore();
    if (!part.halve || part.size() == 1) return at_once(part, stream, std::move(dout), wanted);
    const std::int64_t middle = part.first + part.size() / 2;
    {
      const at::Tensor between =
          again([&] { return without_autograd(blocks, stream, part.first, middle); });
      std::optional<RandomState> state_between;
      if (state) state_between.emplace(stream.device());
      dout = through({middle, part.last, true}, between, std::move(dout), state_between, true);
    }
    return through({part.first, middle, true}, stream, std::move(dout), state, wanted);
  }

  at::Tensor again(const std::function<at::Tensor()>& part) const {
    const ForwardAgain recorded;
    return as_in_forward(part);
  }

  at::Tensor at_once(RecomputedBlocks part, const at::Tensor& stream, at::Tensor dout,
                     bool wanted) const {
    const at::Tensor input = stream.detach().requires_grad_(wanted);
    torch::autograd::Edge root;
    {
      const c10::AutoGradMode grad(true);
      const at::Tensor out = again([&] { return blocks(input, part.first, part.last); });
      if (!out.requires_grad()) return {};  // all frozen
      root = torch::autograd::impl::gradient_edge(out);
    }
    const variable_list douts = {std::move(dout)};
    Engine::get_default_engine().execute({root}, douts, /*keep_graph=*/false,
                                         /*create_graph=*/false, /*accumulate_grad=*/true);
    return input.grad();
  }

  [[noreturn]] void refuse_chosen_inputs() const {
    throw Error({.what = "backward for chosen inputs would accumulate the gradients of all",
                 .where = name(),
                 .got = "autograd::grad(), or backward() with inputs",
                 .expected = "backward() without inputs",
                 .hint = alternative()});
  }
};

}  // namespace

at::Tensor recomputed(const at::Tensor& stream, RecomputedBlocks group, const Blocks& blocks,
                      const AsInForward& as_in_forward) {
  if (!c10::GradMode::is_enabled()) return blocks(stream, group.first, group.last);
  const NodePointer<RecomputeNode> node = new_node<RecomputeNode>();
  // Without one where the stream requires no gradient: blocks before it may all be frozen.
  node->set_next_edges(torch::autograd::collect_next_edges(stream));
  RandomState random(stream.device());
  at::Tensor out = without_autograd(blocks, stream, group.first, group.last);
  if (!random.is_current()) node->random = std::move(random);
  node->group = group;
  node->blocks = blocks;
  node->as_in_forward = as_in_forward;
  node->save({stream});
  torch::autograd::set_history(out, node);
  return out;
}

}  // namespace ddprun
