// Values of ranks and where they lie, and the expected result of a reduction over them, computed
// with ATen.
#pragma once

#include <ATen/Functions.h>

#include <random>
#include <vector>

#include "ddprun/comm/group/process_group.h"

namespace ddprun::test {

/// Different on every rank, small enough for the sum of six to fit any type; fractions where the
/// type has them. Up to about 900,000: pieces of one sequence, which is drawn once.
inline at::Tensor values_of(int rank, std::int64_t count, at::ScalarType type, int seed = 0) {
  static const at::Tensor drawn = [] {
    std::minstd_rand random;
    const at::Tensor values = at::empty({1 << 20});
    float* const data = values.mutable_data_ptr<float>();
    for (std::int64_t i = 0; i < values.numel(); ++i) {
      data[i] = static_cast<float>(random() % 2001) / 100;
    }
    return values;
  }();
  return drawn.narrow(0, 9973 * rank + 1009 * seed, count).to(type, false, /*copy=*/true);
}

/// Adds the ranks' values one after another in rank order, bfloat16 in float32.
inline at::Tensor reduced(ReduceOp op, const std::vector<at::Tensor>& ranks) {
  const at::ScalarType type = ranks[0].scalar_type();
  const at::ScalarType wide = type == at::kBFloat16 ? at::kFloat : type;
  at::Tensor result = ranks[0].to(wide, /*non_blocking=*/false, /*copy=*/true);
  for (std::size_t rank = 1; rank < ranks.size(); ++rank) {
    const at::Tensor next = ranks[rank].to(wide);
    if (op == ReduceOp::max) {
      result = at::maximum(result, next);
    } else {
      result.add_(next);
    }
  }
  if (op == ReduceOp::avg) result.div_(static_cast<double>(ranks.size()));
  return result.to(type);
}

/// Where a rank's tensor lies.
enum class Where { outside, shared, odd_ranks_shared };
constexpr const char* name_of(Where where) {
  constexpr const char* kNames[] = {"outside", "shared", "mixed"};
  return kNames[static_cast<int>(where)];
}

/// Tensors in the chosen memory: views of one allocation, or their own.
class Places {
 public:
  Places(ProcessGroup& group, Where where, std::int64_t bytes) {
    if (where == Where::outside) return;
    memory_ = group.allocate(bytes, at::kByte);
    shared_ = where == Where::shared || group.rank() % 2 == 1;
  }
  /// A tensor with these values; a few elements into the memory, so that nothing is aligned.
  at::Tensor put(const at::Tensor& values) const {
    if (!shared_) return values.clone();
    const auto item = static_cast<std::int64_t>(values.element_size());
    const at::Tensor place =
        memory_.narrow(0, 3 * item * 8, values.numel() * item).view(values.scalar_type());
    place.copy_(values);
    return place;
  }

 private:
  at::Tensor memory_;
  bool shared_ = false;
};

}  // namespace ddprun::test
