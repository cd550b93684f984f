// When the weights of layers that are multiplied together are one matrix already.
#include "ddprun/optim/parameter_slot.h"

#include <ATen/Functions.h>
#include <gtest/gtest.h>

#include <array>

namespace ddprun {
namespace {

/// Of these two, as one matrix.
at::Tensor stacked(const at::Tensor& a, const at::Tensor& b) {
  const ParameterSlot first{.parameter = a, .compute = {}, .gradient = {}};
  const ParameterSlot second{.parameter = b, .compute = {}, .gradient = {}};
  const std::array<const ParameterSlot*, 2> slots = {&first, &second};
  return stack_weights(slots);
}

TEST(StackWeights, ViewsOfOneBufferAreItsMemory) {
  const at::Tensor buffer = at::arange(12.0f);
  const at::Tensor whole =
      stacked(buffer.narrow(0, 0, 6).view({2, 3}), buffer.narrow(0, 6, 6).view({2, 3}));
  EXPECT_EQ(whole.data_ptr(), buffer.data_ptr());
  EXPECT_TRUE(whole.equal(buffer.view({4, 3})));
}

TEST(StackWeights, NeighboursOfDifferentStoragesAreCopied) {
  std::array<float, 12> memory = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11};
  const at::Tensor whole =
      stacked(at::from_blob(memory.data(), {2, 3}), at::from_blob(memory.data() + 6, {2, 3}));
  EXPECT_NE(whole.data_ptr(), static_cast<void*>(memory.data()));
  EXPECT_TRUE(whole.equal(at::arange(12.0f).view({4, 3})));
}

}  // namespace
}  // namespace ddprun
