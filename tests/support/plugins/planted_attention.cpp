// An attention that is right but for one element, which its option `fault` plants: the proof's
// tests.
#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>

#include <array>
#include <cmath>
#include <limits>

#include "ddprun/plugin/attention.h"
#include "ddprun/plugin/export.h"
#include "ddprun/plugin/options.h"

namespace ddprun::planted {

/// Which result is wrong.
enum class Fault { nothing, output, dq, dk, dv };
constexpr auto choice_names(Fault) { return std::array{"nothing", "output", "dq", "dk", "dv"}; }

class PlantedAttention final : public Attention {
 public:
  void declare_options(Options& options) override {
    options.option("fault", &fault_, "what is wrong");
    options.option("row", &row_, "where, in the last head", {.min = 0});
    options.option("add", &add_, "to the first element of the row");
    options.option("not_a_number", &not_a_number_, "adds that instead");
  }

  at::Tensor forward(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                     const AttentionOptions& options) override {
    const at::Tensor out =
        at::scaled_dot_product_attention(watched(q, Fault::dq), watched(k, Fault::dk),
                                         watched(v, Fault::dv), {}, 0.0, options.causal);
    return fault_ == Fault::output ? out + error_of(out) : out;
  }

 private:
  /// Zeros, but for one element.
  at::Tensor error_of(const at::Tensor& right) const {
    at::Tensor error = at::zeros(right.sizes(), right.options());
    const at::Tensor head = error[right.size(0) - 1][right.size(1) - 1];
    head[row_][0].fill_(not_a_number_ ? std::numeric_limits<double>::quiet_NaN() : add_);
    return error;
  }

  at::Tensor watched(const at::Tensor& input, Fault fault) const {
    const at::Tensor out = input.view_as(input);
    if (fault_ == fault && out.requires_grad()) {
      out.register_hook([this](const at::Tensor& right) { return right + error_of(right); });
    }
    return out;
  }

  Fault fault_ = Fault::nothing;
  std::int64_t row_ = 0;
  double add_ = 0.01;
  bool not_a_number_ = false;
};

}  // namespace ddprun::planted

DDPRUN_ATTENTION(ddprun::planted::PlantedAttention, TEST_NAME, TEST_SUMMARY, "1.0")
