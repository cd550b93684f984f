// An attention that is right but for what its option `fault` plants, one element or a part of the
// formula: the proof's tests.
#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <c10/core/GradMode.h>

#include <limits>
#include <string>
#include <string_view>

#include "ddprun/plugin/attention.h"
#include "ddprun/plugin/export.h"
#include "ddprun/plugin/options.h"

namespace ddprun::planted {

class PlantedAttention final : public Attention {
 public:
  void declare_options(Options& options) override {
    options.option(
        "fault", &fault_, "what is wrong",
        {.one_of = {"nothing", "drop_last_key", "window", "no_gradient_of_q", "no_gradient_of_k",
                    "no_gradient_of_v", "scale", "dq", "dk", "dv", "not_causal", "half_the_batch",
                    "reuse", "evaluate_other", "reuse_scratch", "ignore_strides", "output",
                    "across_documents", "clamp_scores"}});
    options.option("row", &row_, "where, in the last head", {.min = 0});
    options.option("first_head", &first_head_, "in the first head instead");
    options.option("scratches", &scratches_, "how many calls have memory of their own", {.min = 1});
    options.option("scaled_by", &scaled_by_, "factor of the right scale");
    options.option("add", &add_, "to the first element of the row");
    options.option("times", &times_, "factor of the whole result");
    options.option("not_a_number", &not_a_number_, "adds that instead");
  }

  at::Tensor forward(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                     const AttentionOptions& options) override {
    if (fault_ == "drop_last_key") return without_last_key(q, k, v);
    if (fault_ == "window") return of_the_last_keys(q, k, v);
    if (fault_ == "clamp_scores") return of_clamped_scores(q, k, v);
    const at::Tensor queries = without_gradient(q, "no_gradient_of_q");
    const at::Tensor keys = without_gradient(k, "no_gradient_of_k");
    const at::Tensor values = without_gradient(v, "no_gradient_of_v");
    const at::Tensor scaled = fault_ == "scale" ? queries * scaled_by_ : queries;
    const at::Tensor out = at::scaled_dot_product_attention(
        watched(scaled, "dq"), watched(keys, "dk"), watched(values, "dv"), {}, 0.0,
        options.causal && fault_ != "not_causal");
    if (fault_ == "half_the_batch") return with_half_again(out);
    if (fault_ == "reuse") return last_of(out);
    if (fault_ == "evaluate_other" && !c10::GradMode::is_enabled()) return 0.5 * out;
    if (fault_ == "reuse_scratch") return with_scratch_for_backward(out);
    if (fault_ == "ignore_strides") return out + error_if_contiguous(out, q, k, v);
    return fault_ == "output" ? out + error_of(out) : out;
  }

  bool takes_documents() const override { return fault_ == "across_documents"; }

 private:
  at::Tensor without_gradient(const at::Tensor& input, std::string_view fault) const {
    return fault_ == fault ? input.detach() + input * 0 : input;
  }

  /// The first half of the batch stands for the second, too.
  static at::Tensor with_half_again(const at::Tensor& out) {
    const at::Tensor half = out.narrow(0, 0, out.size(0) / 2);
    return at::cat({half, half});
  }

  /// What the last call of this size returned, with this one's gradients.
  at::Tensor last_of(const at::Tensor& out) {
    const at::Tensor last = last_.defined() && last_.sizes() == out.sizes() ? last_ : out;
    last_ = out.detach();
    return last.detach() + (out - out.detach());
  }

  /// As if backward read memory that a later call writes.
  at::Tensor with_scratch_for_backward(const at::Tensor& out) {
    if (!out.requires_grad()) return out;
    const at::Tensor returned = out.view_as(out);
    returned.register_hook([this, call = ++calls_](const at::Tensor& right) {
      return calls_ - call < scratches_ ? right : right.roll(1, 2);
    });
    return returned;
  }

  /// What is wrong if memory is read as if the inputs were contiguous.
  static at::Tensor error_if_contiguous(const at::Tensor& out, const at::Tensor& q,
                                        const at::Tensor& k, const at::Tensor& v) {
    const auto read = [](const at::Tensor& x) {
      const std::int64_t head = x.size(2) * x.size(3);
      return x.detach().as_strided(x.sizes(), {x.size(1) * head, head, x.size(3), 1});
    };
    const at::Tensor wrong =
        at::scaled_dot_product_attention(read(q), read(k), read(v), {}, 0.0, /*is_causal=*/true);
    return wrong - out.detach();
  }

  /// Right up to scores of 16.
  static at::Tensor of_clamped_scores(const at::Tensor& q, const at::Tensor& k,
                                      const at::Tensor& v) {
    const at::Tensor all = at::ones({q.size(2), k.size(2)}, q.options().dtype(at::kBool));
    const double scale = 1 / std::sqrt(static_cast<double>(q.size(3)));
    const at::Tensor scores = (at::matmul(q, k.transpose(2, 3)) * scale).clamp(-16, 16);
    const double hidden = -std::numeric_limits<double>::infinity();
    return at::matmul(at::softmax(scores.masked_fill(all.triu(1), hidden), -1), v);
  }

  /// Sees 8 keys at most.
  static at::Tensor of_the_last_keys(const at::Tensor& q, const at::Tensor& k,
                                     const at::Tensor& v) {
    const at::Tensor all = at::ones({q.size(2), k.size(2)}, q.options().dtype(at::kBool));
    return at::scaled_dot_product_attention(q, k, v, all.tril().logical_and(all.triu(-7)));
  }

  /// Causal, so only the last row differs.
  static at::Tensor without_last_key(const at::Tensor& q, const at::Tensor& k,
                                     const at::Tensor& v) {
    at::Tensor mask = at::ones({q.size(2), k.size(2)}, q.options().dtype(at::kBool)).tril();
    mask.select(1, k.size(2) - 1).fill_(false);
    return at::scaled_dot_product_attention(q, k, v, mask);
  }

  /// Zeros if the factor is 1, but for one element.
  at::Tensor error_of(const at::Tensor& right) const {
    const at::Tensor error = (times_ - 1) * right.detach();
    const at::Tensor head = first_head_ ? error[0][0] : error[right.size(0) - 1][right.size(1) - 1];
    head[row_][0].add_(not_a_number_ ? std::numeric_limits<double>::quiet_NaN() : add_);
    return error;
  }

  at::Tensor watched(const at::Tensor& input, std::string_view fault) const {
    const at::Tensor out = input.view_as(input);
    if (fault_ == fault && out.requires_grad()) {
      out.register_hook([this](const at::Tensor& right) { return right + error_of(right); });
    }
    return out;
  }

  std::string fault_ = "nothing";  ///< the result with a wrong element, or what is done to all
  std::int64_t row_ = 0;
  bool first_head_ = false;
  double scaled_by_ = 1.01;
  double add_ = 0.01;
  double times_ = 1;
  bool not_a_number_ = false;
  at::Tensor last_;
  std::int64_t scratches_ = 1;
  std::int64_t calls_ = 0;  ///< with gradients
};

}  // namespace ddprun::planted

DDPRUN_PLUGIN_AS(planted_attention, ddprun::planted::PlantedAttention, attention, "planted",
                 "planted", "1.0")
DDPRUN_PLUGIN_AS(planted_attention_a, ddprun::planted::PlantedAttention, attention, "planted",
                 "planted_attention", "1.0")
