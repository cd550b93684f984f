// What is placed in the gradients' memory, and what happens to it when a gradient is written.
#include "ddprun/optim/gradient_scratch.h"

#include <ATen/Functions.h>
#include <gtest/gtest.h>

#include <limits>

namespace ddprun {
namespace {

class GradientScratchTest : public testing::Test {
 protected:
  static constexpr std::int64_t kEach = 1024;

  at::Tensor gradient(std::int64_t index) const { return buffer_.narrow(0, index * kEach, kEach); }
  /// (elements,) float32, behind that gradient.
  at::Tensor empty(std::int64_t elements, std::int64_t behind) {
    return scratch_->empty({elements}, buffer_.options(), gradient(behind));
  }
  /// Which element of the buffer it begins at; -1: it lies elsewhere.
  std::int64_t place(const at::Tensor& tensor) const {
    const auto* const begin = buffer_.const_data_ptr<float>();
    const auto* const at = tensor.const_data_ptr<float>();
    return begin <= at && at < begin + buffer_.numel() ? at - begin : -1;
  }

  at::Tensor buffer_ = at::zeros({4 * kEach});
  std::shared_ptr<GradientScratch> scratch_ = std::make_shared<GradientScratch>(buffer_);
};

TEST_F(GradientScratchTest, PlacesTensorsOneBelowTheOtherFromTheEnd) {
  at::Tensor last = empty(kEach, 0);
  at::Tensor before = empty(kEach, 0);
  EXPECT_EQ(place(last), 3 * kEach);
  EXPECT_EQ(place(before), 2 * kEach);
  last.reset();
  EXPECT_EQ(place(empty(kEach, 0)), kEach) << "below what is still there";
  before.reset();
  EXPECT_EQ(place(empty(kEach, 0)), 3 * kEach) << "where everything is gone";
}

TEST_F(GradientScratchTest, LeavesTheGradientsUpToTheLayersOwn) {
  EXPECT_EQ(place(empty(2 * kEach, 2)), -1);
  const at::Tensor fits = empty(kEach - 16, 2);
  EXPECT_GE(place(fits), 3 * kEach);
  EXPECT_EQ(place(empty(kEach, 2)), -1) << "there is another";
  EXPECT_EQ(place(empty(16, 3)), -1) << "nothing is behind the last";
}

TEST_F(GradientScratchTest, KeepsValuesOfWhatAGradientNeedsThePlaceOf) {
  const at::Tensor tensor = empty(kEach, 0);
  const at::Tensor view = tensor.narrow(0, 10, 20);
  tensor.copy_(at::arange(kEach, at::kFloat));
  scratch_->claim(gradient(2));
  EXPECT_EQ(place(tensor), 3 * kEach) << "another place";
  scratch_->claim(gradient(3));
  EXPECT_EQ(place(tensor), -1);
  gradient(3).fill_(std::numeric_limits<float>::quiet_NaN());
  EXPECT_TRUE(tensor.equal(at::arange(kEach, at::kFloat)));
  EXPECT_TRUE(view.equal(at::arange(10.0F, 30.0F)));
}

TEST_F(GradientScratchTest, KeepsValuesOfWhichTheLastLineAloneIsNeeded) {
  const at::Tensor tensor = empty(kEach, 0);
  ASSERT_EQ(place(tensor), 3 * kEach);
  scratch_->claim(buffer_.narrow(0, 4 * kEach - 16, 16));
  EXPECT_EQ(place(tensor), -1);
}

TEST_F(GradientScratchTest, LendsNothingThatIsWrittenUntilItIsReleased) {
  scratch_->claim(gradient(2));
  EXPECT_EQ(place(empty(kEach, 0)), 3 * kEach);
  EXPECT_EQ(place(empty(kEach + 16, 0)), -1);
  scratch_->claim(gradient(3));
  EXPECT_EQ(place(empty(16, 0)), -1);
  scratch_->release();
  EXPECT_EQ(place(empty(2 * kEach, 0)), 2 * kEach);
}

}  // namespace
}  // namespace ddprun
