// The shm backend's reduction loops at every SIMD level, against ATen, bit for bit.
#include "ddprun/comm/backends/shm_reduce.h"

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <gtest/gtest.h>

#include <cmath>

#include "support/kernel_arrays.h"
#include "support/reduced.h"

namespace ddprun {
namespace {

/// Of any sign, and for floating-point types of many sizes, with a NaN.
at::Tensor values(std::int64_t count, at::ScalarType type, std::uint64_t seed) {
  const at::Tensor noise = test::noise(1, count, seed).flatten();
  if (!c10::isFloatingType(type)) return (noise * 100).to(at::kInt).to(type);
  at::Tensor wide = noise * at::exp(10 * test::noise(1, count, seed + 100).flatten());
  if (count > 20) wide[static_cast<std::int64_t>(seed % 20)] = std::nan("");
  return wide.to(type);
}

class ReduceElements : public test::EveryTarget {};
INSTANTIATE_TEST_SUITE_P(, ReduceElements, test::every_target(), test::target_name);

TEST_P(ReduceElements, InPlaceAndElsewhereBitForBit) {
  for (const at::ScalarType type :
       {at::kFloat, at::kDouble, at::kBFloat16, at::kInt, at::kLong, at::kChar, at::kByte}) {
    for (const ReduceOp op : {ReduceOp::sum, ReduceOp::avg, ReduceOp::max}) {
      if (!can_reduce(type, op)) continue;
      for (const int ranks : {1, 2, 3, 5}) {
        for (const std::int64_t count : {0, 1, 7, 64, 203}) {
          std::vector<at::Tensor> tensors;
          for (int rank = 0; rank < ranks; ++rank) {
            tensors.push_back(values(count, type, static_cast<std::uint64_t>(rank) + 1));
          }
          const at::Tensor expected = test::reduced(op, tensors);
          tensors.push_back(at::zeros({count}, type));
          std::vector<const std::byte*> inputs;
          std::vector<std::byte*> outputs;
          for (int i = 0; i <= ranks; ++i) {
            auto* const data = static_cast<std::byte*>(tensors[i].mutable_data_ptr());
            if (i < ranks) inputs.push_back(data);
            // A pair stays in place; one more output makes it the general case.
            if (i < ranks || ranks % 2 == 1) outputs.push_back(data);
          }
          reduce_elements(type, op, static_cast<std::int64_t>(expected.nbytes()), inputs, outputs);
          for (std::size_t i = 0; i < outputs.size(); ++i) {
            EXPECT_TRUE(at::allclose(tensors[i], expected, 0, 0, /*equal_nan=*/true))
                << c10::toString(type) << ", operation " << static_cast<int>(op) << ", " << ranks
                << " ranks, " << count << " elements, output " << i;
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace ddprun
