// tiled: attention on the CPU by tiles of queries; the probabilities are computed again in backward
// (FlashAttention-2: Dao 2023, section 3.1, tiled over queries alone).
#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <type_traits>
#include <vector>

#include "ddprun/kernels/convert.h"
#include "ddprun/kernels/product.h"
#include "ddprun/kernels/softmax.h"
#include "ddprun/plugin/attention.h"
#include "ddprun/plugin/kernel_node.h"

namespace {

using namespace ddprun::kernels;
using torch::autograd::variable_list;

/// Queries of a tile. The scores of a tile, (kTile, time) float32, stay in the second-level cache
/// up to a few thousand keys. A causal tile skips the keys after its last query.
constexpr std::int64_t kTile = 128;

/// The sizes of one call, and how its softmax scales and masks.
struct Problem {
  std::int64_t batch, heads, queries, keys, width;
  bool causal;
  float scale;

  Tile tile(std::int64_t first) const {
    const std::int64_t rows = std::min(kTile, queries - first);
    return {rows, causal ? std::min(first + rows, keys) : keys, first, causal, scale};
  }
};

/// One head of a (batch, heads, time, width) tensor: rows of time.
template <typename T>
Matrix<T> head_of(const at::Tensor& tensor, std::int64_t index) {
  const std::int64_t heads = tensor.size(1);
  auto* const data = static_cast<std::remove_const_t<T>*>(tensor.data_ptr());
  return {data + index / heads * tensor.stride(0) + index % heads * tensor.stride(1),
          tensor.stride(2)};
}

/// Converts `rows` rows of float32 sums to the output's dtype.
template <typename T>
void write(std::int64_t rows, std::int64_t width, const std::vector<float>& sums, Matrix<T> out) {
  for (std::int64_t row = 0; row < rows; ++row) {
    const float* const from = sums.data() + row * width;
    T* const to = out.data + row * out.stride;
    if constexpr (std::is_same_v<T, float>) {
      std::memcpy(to, from, static_cast<std::size_t>(width) * sizeof(float));
    } else {
      to_bf16(width, from, to);
    }
  }
}

/// Memory for probabilities in the dtype of the products. If that is float32, it is the scores' own
/// memory.
template <typename T>
T* in_place_or(std::vector<float>& scores, std::vector<T>& memory) {
  if constexpr (std::is_same_v<T, float>) {
    return scores.data();
  } else {
    memory.resize(scores.size());
    return memory.data();
  }
}

template <typename T>
void forward_head(const Problem& p, Matrix<const T> q, Matrix<const T> k, Matrix<const T> v,
                  Matrix<T> out, float* log_sum_exp) {
  std::vector<float> scores(kTile * p.keys), sums(kTile * p.width);
  std::vector<T> memory;
  T* const probabilities = in_place_or(scores, memory);
  for (std::int64_t first = 0; first < p.queries; first += kTile) {
    const Tile tile = p.tile(first);
    product(Op::plain, Op::transposed, tile.rows, tile.columns, p.width, q.from(first), k, false,
            {scores.data(), tile.columns});
    softmax(tile, scores.data(), probabilities, log_sum_exp + first);
    product(Op::plain, Op::plain, tile.rows, p.width, tile.columns,
            Matrix<const T>{probabilities, tile.columns}, v, false, {sums.data(), p.width});
    write(tile.rows, p.width, sums, out.from(first));
  }
}

/// What backward reads and writes of one head.
template <typename T>
struct Gradients {
  Matrix<const T> out, dout;
  Matrix<T> dq, dk, dv;
};

template <typename T>
void backward_head(const Problem& p, Matrix<const T> q, Matrix<const T> k, Matrix<const T> v,
                   const float* log_sum_exp, const Gradients<T>& g) {
  std::vector<float> scores(kTile * p.keys), dscores(kTile * p.keys), delta(kTile);
  std::vector<float> dq(kTile * p.width), dk(p.keys * p.width), dv(p.keys * p.width);
  std::vector<T> memory, dmemory;
  T* const probabilities = in_place_or(scores, memory);
  T* const dscores_out = in_place_or(dscores, dmemory);
  for (std::int64_t first = 0; first < p.queries; first += kTile) {
    const Tile tile = p.tile(first);
    const auto dout = g.dout.from(first);
    const auto out = g.out.from(first);
    const Matrix<const T> probability_tile{probabilities, tile.columns};
    const Matrix<const T> dscore_tile{dscores_out, tile.columns};
    product(Op::plain, Op::transposed, tile.rows, tile.columns, p.width, q.from(first), k, false,
            {scores.data(), tile.columns});
    product(Op::plain, Op::transposed, tile.rows, tile.columns, p.width, dout, v, false,
            {dscores.data(), tile.columns});
    row_dots(tile.rows, p.width, dout.data, dout.stride, out.data, out.stride, delta.data());
    softmax_backward(tile, scores.data(), dscores.data(), log_sum_exp + first, delta.data(),
                     probabilities, dscores_out);
    product(Op::transposed, Op::plain, tile.columns, p.width, tile.rows, probability_tile, dout,
            true, {dv.data(), p.width});
    product(Op::transposed, Op::plain, tile.columns, p.width, tile.rows, dscore_tile, q.from(first),
            true, {dk.data(), p.width});
    product(Op::plain, Op::plain, tile.rows, p.width, tile.columns, dscore_tile, k, false,
            {dq.data(), p.width});
    write(tile.rows, p.width, dq, g.dq.from(first));
  }
  write(p.keys, p.width, dk, g.dk);
  write(p.keys, p.width, dv, g.dv);
}

/// Calls f(index) for every head of every sequence, spread over torch's threads, with a value of
/// the dtype's C++ type.
template <typename F>
void for_each_head(const Problem& p, at::ScalarType dtype, const F& f) {
  at::parallel_for(0, p.batch * p.heads, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t index = begin; index < end; ++index) {
      if (dtype == at::kFloat) {
        f(float{}, index);
      } else {
        f(bf16{}, index);
      }
    }
  });
}

/// (batch, heads, time, width) laid out as (batch, time, heads, width), as projections want it.
at::Tensor empty_heads(const Problem& p, std::int64_t time, const at::TensorOptions& options) {
  return at::empty({p.batch, time, p.heads, p.width}, options).transpose(1, 2);
}

at::Tensor with_rows(const at::Tensor& tensor) {
  return tensor.stride(3) == 1 ? tensor : tensor.contiguous();
}

struct TiledBackward final : ddprun::KernelNode {
  Problem problem;
  at::Tensor q, k, v, out, log_sum_exp;

  std::string name() const override { return "TiledAttentionBackward"; }

  void forget() override {
    for (at::Tensor* saved : {&q, &k, &v, &out, &log_sum_exp}) saved->reset();
  }
  bool backward_overwrites() const override { return false; }
  std::string alternative() const override { return "take attention eager"; }

  variable_list backward(variable_list&& gradients) override {
    const at::Tensor dout = with_rows(gradients[0]);
    const at::Tensor dq = empty_heads(problem, problem.queries, q.options());
    const at::Tensor dk = empty_heads(problem, problem.keys, q.options());
    const at::Tensor dv = empty_heads(problem, problem.keys, q.options());
    for_each_head(problem, q.scalar_type(), [&](auto zero, std::int64_t index) {
      using T = decltype(zero);
      backward_head<T>(problem, head_of<const T>(q, index), head_of<const T>(k, index),
                       head_of<const T>(v, index),
                       log_sum_exp.const_data_ptr<float>() + index * problem.queries,
                       {head_of<const T>(out, index), head_of<const T>(dout, index),
                        head_of<T>(dq, index), head_of<T>(dk, index), head_of<T>(dv, index)});
    });
    return {dq, dk, dv};
  }
};

class Tiled final : public ddprun::Attention {
 public:
  std::optional<ddprun::Refusal> unsupported(const ddprun::RunDescription& run) const override {
    if (run.device != ddprun::DeviceKind::cpu) {
      return ddprun::Refusal{.reason = "it runs on the CPU alone", .expected = "world.device cpu"};
    }
    const at::ScalarType dtype = run.compute_dtype;
    if (dtype == at::kFloat || dtype == at::kBFloat16) return {};
    return ddprun::Refusal{
        .reason = std::string("it does not compute in ") + c10::getDtypeNames(dtype).first,
        .expected = "a precision that computes in float32 or bfloat16"};
  }

  at::Tensor forward(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                     const ddprun::AttentionOptions& options) override {
    TORCH_CHECK(q.scalar_type() == at::kFloat || q.scalar_type() == at::kBFloat16,
                "attention \"tiled\" computes in float32 or bfloat16, not in ", q.scalar_type());
    TORCH_CHECK(options.scale >= 0.0, "attention \"tiled\" needs a scale that is not negative");
    const Problem problem{q.size(0), q.size(1),      q.size(2),           k.size(2),
                          q.size(3), options.causal, scale_of(q, options)};
    const auto node = ddprun::make_node<TiledBackward>(q, k, v);
    at::Tensor out = compute(problem, q, k, v, node.get());
    if (node) torch::autograd::set_history(out, node);
    return out;
  }

 private:
  static float scale_of(const at::Tensor& q, const ddprun::AttentionOptions& options) {
    if (options.scale != 0.0) return static_cast<float>(options.scale);
    return static_cast<float>(1.0 / std::sqrt(static_cast<double>(q.size(3))));
  }

  static at::Tensor compute(const Problem& problem, const at::Tensor& q_in, const at::Tensor& k_in,
                            const at::Tensor& v_in, TiledBackward* node) {
    const ddprun::KernelGuard guard;
    const at::Tensor q = with_rows(q_in).detach();
    const at::Tensor k = with_rows(k_in).detach();
    const at::Tensor v = with_rows(v_in).detach();
    const at::Tensor out = empty_heads(problem, problem.queries, q.options());
    const at::Tensor log_sum_exp =
        at::empty({problem.batch, problem.heads, problem.queries}, q.options().dtype(at::kFloat));
    for_each_head(problem, q.scalar_type(), [&](auto zero, std::int64_t index) {
      using T = decltype(zero);
      forward_head<T>(problem, head_of<const T>(q, index), head_of<const T>(k, index),
                      head_of<const T>(v, index), head_of<T>(out, index),
                      log_sum_exp.data_ptr<float>() + index * problem.queries);
    });
    if (node != nullptr) {
      node->problem = problem;
      node->q = q;
      node->k = k;
      node->v = v;
      node->out = out.detach();
      node->log_sum_exp = log_sum_exp;
    }
    return out;
  }
};

}  // namespace

DDPRUN_ATTENTION(Tiled, "tiled", "tiles of queries, probabilities computed again in backward (CPU)",
                 "1.0")
