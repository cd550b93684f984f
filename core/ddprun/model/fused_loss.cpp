// The fused LM head and cross-entropy, in chunks of rows.
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <optional>

#include "ddprun/memory/memory_label.h"
#include "ddprun/model/fused_layers.h"
#include "ddprun/model/fused_node.h"
#include "ddprun/model/fused_ops.h"

namespace ddprun::fused {

namespace {

using torch::autograd::variable_list;

/// How many rows of logits exist at a time. The parts are alike.
std::int64_t chunk_rows(std::int64_t rows, std::int64_t row_bytes, const LogitsAtATime& logits) {
  constexpr std::int64_t kFew = 256;
  const std::int64_t most = std::clamp(logits.bytes / row_bytes, kFew, logits.rows);
  rows = std::max<std::int64_t>(1, rows);
  const std::int64_t parts = (rows + most - 1) / most;
  return (rows + parts - 1) / parts;
}

/// Whether the gradient of a loss is 1, where that is known without waiting for a device.
bool is_one(const at::Tensor& gradient) {
  return gradient.is_meta() || (gradient.is_cpu() && gradient.item<float>() == 1.0F);
}

struct HeadLossNode final : FusedNode {
  ParameterSlot norm, head;
  // (vocab, d_model) float32: the gradient of the head's weight for a loss whose own gradient is 1;
  // undefined if the head is frozen. It is not saved as other tensors are, because it may be the
  // parameter's gradient itself.
  at::Tensor dhead;
  std::shared_ptr<HeadGradientMemory> memory;

  ~HeadLossNode() override { leave_memory(); }
  HeadLossNode() = default;
  HeadLossNode(const HeadLossNode&) = delete;
  HeadLossNode& operator=(const HeadLossNode&) = delete;

  std::string name() const override { return "FusedHeadLossBackward"; }

  /// For the head's gradient: its own place, or memory of this node.
  void take_memory() {
    if (head.gradient.defined() && gradient_is_free(head)) {
      memory->vacate();
      memory->tenant = &dhead;
      dhead = memory_for_gradient(head);
    } else {
      dhead = at::empty_like(head.parameter);
    }
  }

  void leave_memory() {
    if (memory && memory->tenant == &dhead) memory->tenant = nullptr;
  }

  void forget() override {
    leave_memory();
    dhead.reset();
  }

  /// The head's weight gets its gradient.
  void give_gradient(const at::Tensor& factor) {
    if (memory->tenant == &dhead && gradient_is_free(head)) {
      head.parameter.mutable_grad() = dhead;
      if (!is_one(factor)) dhead.mul_(factor);
      return;
    }
    memory->vacate();
    gradient_to_add_to(head).addcmul_(dhead, factor);
  }

  variable_list backward(variable_list&& gradients) override {
    // dy (rows, d_model) T: like dhead, of the normed rows
    auto [x, y, inverse_rms, saved_dy] = saved<4>();
    const Normed normed = {x, y, inverse_rms};
    const at::Tensor& factor = gradients[0];
    if (head.trained()) give_gradient(factor);
    const at::Tensor dy =
        is_one(factor) ? std::move(saved_dy) : to_overwrite(std::move(saved_dy)).mul_(factor);
    const MemoryLabel label("norm");
    return {rms_norm_backward(dy, normed, {}, norm), {}, {}};
  }
};

/// The gradients of the rows' losses over their divisor, as HeadLossNode keeps them. What is
/// undefined is not wanted.
struct LossGradients {
  at::Tensor dy, dhead;
};

/// Returns the sum of the rows' losses, double (). It also computes `gradients`. `memory`, (chunk,
/// vocab) T, is for the logits of as many rows at a time.
at::Tensor sum_of_losses(const at::Tensor& y, const at::Tensor& head, const LossTargets& targets,
                         const LossGradients& gradients, const at::Tensor& memory) {
  const bool with_gradients = gradients.dy.defined();
  const std::int64_t rows = y.size(0);
  const std::int64_t chunk = memory.size(0);
  const at::Tensor losses = at::zeros({chunk}, memory.options().dtype(at::kDouble));
  for (std::int64_t begin = 0; begin < rows; begin += chunk) {
    const std::int64_t count = std::min(chunk, rows - begin);
    const at::Tensor y_rows = y.narrow(0, begin, count);
    at::Tensor logits = memory.narrow(0, 0, count);
    linear_product_out(y_rows, head, logits);
    cross_entropy(logits, targets.ids.narrow(0, begin, count),
                  static_cast<float>(1 / targets.divisor), with_gradients, losses);
    if (!with_gradients) continue;
    at::Tensor dhead = gradients.dhead;
    if (dhead.defined()) weight_gradient(logits, y_rows, /*add=*/begin > 0, dhead);
    at::Tensor dy_rows = gradients.dy.narrow(0, begin, count);
    input_gradient_out(logits, head, dy_rows);
  }
  return losses.sum();
}

}  // namespace

at::Tensor head_loss(const at::Tensor& stream, const ParameterSlot& norm, const ParameterSlot& head,
                     const LossTargets& targets, float norm_eps,
                     const std::shared_ptr<HeadGradientMemory>& memory,
                     const LogitsAtATime& at_a_time) {
  const auto node = make_node<HeadLossNode>(stream, norm.parameter, head.parameter);
  at::Tensor loss;
  {
    const KernelGuard guard;
    const c10::ScalarType dtype = head.weight().scalar_type();
    const auto empty = [&](at::IntArrayRef sizes) { return empty_rows(node, norm, sizes, dtype); };
    std::optional<MemoryLabel> label("norm");
    const Normed normed = rms_norm(stream, norm.parameter, norm_eps, empty(stream.sizes()));
    label.emplace("loss");
    LossGradients gradients;
    if (node) {
      node->norm = norm;
      node->head = head;
      node->memory = memory;
      if (head.trained()) node->take_memory();
      gradients = {empty(stream.sizes()), node->dhead};
    }
    const std::int64_t vocab = head.parameter.size(0);
    const std::int64_t chunk =
        chunk_rows(stream.size(0), vocab * normed.y.element_size(), at_a_time);
    const at::Tensor sum =
        sum_of_losses(normed.y, head.weight(), targets, gradients, empty({chunk, vocab}));
    loss = (sum / targets.divisor).to(at::kFloat);
    if (node) node->save({normed.x, normed.y, normed.inverse_rms, gradients.dy});
  }
  if (node) torch::autograd::set_history(loss, node);
  return loss;
}

}  // namespace ddprun::fused
