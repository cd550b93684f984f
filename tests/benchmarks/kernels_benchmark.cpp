// Each CPU kernel beside the ATen operators that it replaces, one thread, with the bytes that it
// has to move.
//     build/release/bin/kernels_benchmark --benchmark_repetitions=9
//     --benchmark_enable_random_interleaving --benchmark_report_aggregates_only
#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>

#include <cstdint>
#include <string>
#include <utility>

#include "benchmarks/one_thread.h"
#include "ddprun/kernels/rows/convert.h"
#include "ddprun/kernels/rows/cross_entropy.h"
#include "ddprun/kernels/rows/embedding.h"
#include "ddprun/kernels/rows/rms_norm.h"
#include "ddprun/kernels/rows/rope.h"
#include "ddprun/kernels/rows/swiglu.h"

namespace ddprun {
namespace {

using kernels::bf16;

constexpr std::int64_t kTokens = 512;
constexpr std::int64_t kWidth = 768;
constexpr std::int64_t kHidden = 2048;
constexpr std::int64_t kHeads = 12;
constexpr std::int64_t kHeadDim = 64;
constexpr std::int64_t kVocab = 10000;

template <class T>
constexpr at::ScalarType kType = std::is_same_v<T, float> ? at::kFloat : at::kBFloat16;

template <class T>
at::Tensor random(at::IntArrayRef sizes) {
  return at::randn(sizes).to(kType<T>);
}

constexpr float kEps = 1e-5f;

enum class Side { ours, aten };

/// Times one side's work, which moves that many bytes if each operand is read or written once.
template <class Ours, class Aten>
void measure_side(benchmark::State& state, Side side, std::int64_t bytes, const Ours& ours,
                  const Aten& aten) {
  side == Side::ours ? measure(state, bytes, ours) : measure(state, bytes, aten);
}

template <class T>
void rms_norm(benchmark::State& state, Side side) {
  const at::Tensor x = random<float>({kTokens, kWidth});
  const at::Tensor weight = at::ones({kWidth});
  const at::Tensor y = random<T>({kTokens, kWidth});
  const at::Tensor inverse = at::empty({kTokens});
  const auto ours = [&] {
    kernels::rms_norm(kTokens, kWidth, kEps, data<float>(x), data<float>(weight), data<T>(y),
                      data<float>(inverse));
  };
  measure_side(state, side, x.numel() * (4 + sizeof(T)), ours, [&] {
    const at::Tensor scale = x.square().mean(-1, true).add(kEps).rsqrt();
    benchmark::DoNotOptimize((x * scale * weight).to(kType<T>));
  });
}

template <class T>
void rms_norm_backward(benchmark::State& state, Side side) {
  const at::Tensor dy = random<T>({kTokens, kWidth});
  const at::Tensor x = random<float>({kTokens, kWidth});
  const at::Tensor weight = at::ones({kWidth});
  const at::Tensor inverse = at::ones({kTokens, 1});
  const at::Tensor dx = at::zeros_like(x);
  const at::Tensor dweight = at::zeros({kWidth});
  const auto ours = [&] {
    kernels::rms_norm_backward(
        {kTokens, kWidth, data<float>(x), data<float>(weight), data<float>(inverse)}, data<T>(dy),
        data<float>(dx), data<float>(dx), data<float>(dweight));
  };
  measure_side(state, side, x.numel() * (12 + sizeof(T)), ours, [&] {
    const at::Tensor wide = dy.to(at::kFloat);
    const at::Tensor normalized = x * inverse;
    dweight.add_((wide * normalized).sum(0));
    const at::Tensor scaled = wide * weight;
    const at::Tensor pull = (scaled * normalized).mean(-1, true);
    dx.add_((scaled - normalized * pull) * inverse);
  });
}

template <class T>
void rope(benchmark::State& state, Side side) {
  const at::Tensor x = random<T>({kTokens, kHeads, kHeadDim});
  // Cosines and sines: other factors would let x, turned again and again, vanish or overflow.
  const at::Tensor angle = random<float>({kTokens, kHeadDim / 2});
  const at::Tensor rotations = at::stack({angle.cos(), angle.sin()}, -1);
  const at::Tensor complex = at::view_as_complex(rotations).unsqueeze(1);
  const auto ours = [&] {
    kernels::rope({data<float>(rotations), kTokens, kHeadDim}, 0, false,
                  kernels::Matrix<T>{data<T>(x), kTokens, kWidth, kWidth});
  };
  measure_side(state, side, x.numel() * 2 * sizeof(T), ours, [&] {
    const at::Tensor pairs = at::view_as_complex(x.to(at::kFloat).unflatten(-1, {-1, 2}));
    benchmark::DoNotOptimize(at::view_as_real(pairs * complex).to(kType<T>));
  });
}

template <class T>
void swiglu(benchmark::State& state, Side side) {
  const at::Tensor up_gate = random<T>({kTokens, 2 * kHidden});
  const at::Tensor h = at::empty({kTokens, kHidden}, kType<T>);
  const at::Tensor up = random<T>({kTokens, kHidden}), gate = random<T>({kTokens, kHidden});
  measure_side(
      state, side, h.numel() * 3 * sizeof(T),
      [&] { kernels::swiglu(kTokens, kHidden, data<T>(up_gate), data<T>(h)); },
      [&] { benchmark::DoNotOptimize(at::silu(gate) * up); });
}

template <class T>
void swiglu_backward(benchmark::State& state, Side side) {
  const at::Tensor up_gate = random<T>({kTokens, 2 * kHidden});
  const at::Tensor up = random<T>({kTokens, kHidden}), gate = random<T>({kTokens, kHidden});
  const at::Tensor dh = random<T>({kTokens, kHidden});
  const at::Tensor d_up_gate = at::empty_like(up_gate);
  const at::Tensor h = at::empty_like(dh);
  const auto ours = [&] {
    kernels::swiglu_backward(kTokens, kHidden, data<T>(dh), data<T>(up_gate), data<T>(d_up_gate),
                             data<T>(h));
  };
  measure_side(state, side, dh.numel() * 6 * sizeof(T), ours, [&] {
    const at::Tensor silu = at::silu(gate);
    benchmark::DoNotOptimize(silu * up);
    benchmark::DoNotOptimize(dh * silu);
    benchmark::DoNotOptimize(at::silu_backward(dh * up, gate));
  });
}

template <class T>
void cross_entropy(benchmark::State& state, Side side) {
  const at::Tensor logits = random<T>({kTokens, kVocab});
  const at::Tensor dlogits = at::empty_like(logits);
  const at::Tensor targets = at::randint(kVocab, {kTokens}, at::kLong);
  const at::Tensor one = at::ones({});
  const auto ours = [&] {
    benchmark::DoNotOptimize(kernels::cross_entropy(kTokens, kVocab, data<T>(logits),
                                                    data<std::int64_t>(targets), 1.0f / kTokens,
                                                    data<T>(dlogits)));
  };
  measure_side(state, side, logits.numel() * 2 * sizeof(T), ours, [&] {
    const at::Tensor logs = at::log_softmax(logits.to(at::kFloat), -1);
    const auto [loss, weight] = at::nll_loss_forward(logs, targets, {}, at::Reduction::Mean, -100);
    const at::Tensor dlogs =
        at::nll_loss_backward(one, logs, targets, {}, at::Reduction::Mean, -100, weight);
    benchmark::DoNotOptimize(
        at::_log_softmax_backward_data(dlogs, logs, -1, at::kFloat).to(kType<T>));
  });
}

void embedding_backward(benchmark::State& state, Side side) {
  const at::Tensor dx = random<float>({kTokens, kWidth});
  const at::Tensor ids = at::randint(kVocab, {kTokens}, at::kLong);
  const at::Tensor gradient = at::zeros({kVocab, kWidth});
  const auto ours = [&] {
    kernels::embedding_backward(kTokens, kWidth, 0, kWidth, data<float>(dx),
                                data<std::int64_t>(ids), data<float>(gradient));
  };
  measure_side(state, side, dx.numel() * 12, ours, [&] { gradient.index_add_(0, ids, dx); });
}

constexpr std::int64_t kElements = std::int64_t{1} << 22;

void to_bf16(benchmark::State& state, Side side) {
  const at::Tensor from = random<float>({kElements});
  const at::Tensor to = at::empty({kElements}, at::kBFloat16);
  measure_side(
      state, side, kElements * 6,
      [&] { kernels::to_bf16(kElements, data<float>(from), data<bf16>(to)); },
      [&] { to.copy_(from); });
}

void accumulate_scaled(benchmark::State& state, Side side) {
  const at::Tensor x = random<float>({kElements});
  const at::Tensor out = at::zeros({kElements});
  measure_side(
      state, side, kElements * 12,
      [&] { kernels::accumulate_scaled(kElements, 0.5f, data<float>(x), data<float>(out)); },
      [&] { out.add_(x, 0.5); });
}

void both_sides(const char* name, void (*work)(benchmark::State&, Side)) {
  for (const auto& [side, of] : {std::pair(Side::ours, ""), {Side::aten, ", aten"}}) {
    benchmark::RegisterBenchmark((std::string(name) + of).c_str(), work, side)
        ->Unit(benchmark::kMicrosecond);
  }
}

#define DDPRUN_BOTH_TYPES(name)             \
  both_sides(#name "<float>", name<float>); \
  both_sides(#name "<bf16>", name<bf16>)

void register_all() {
  DDPRUN_BOTH_TYPES(rms_norm);
  DDPRUN_BOTH_TYPES(rms_norm_backward);
  DDPRUN_BOTH_TYPES(rope);
  DDPRUN_BOTH_TYPES(swiglu);
  DDPRUN_BOTH_TYPES(swiglu_backward);
  DDPRUN_BOTH_TYPES(cross_entropy);
  both_sides("embedding_backward", embedding_backward);
  both_sides("to_bf16", to_bf16);
  both_sides("accumulate_scaled", accumulate_scaled);
}

}  // namespace
}  // namespace ddprun

int main(int argc, char** argv) {
  ddprun::register_all();
  return ddprun::run_on_one_thread(argc, argv);
}
