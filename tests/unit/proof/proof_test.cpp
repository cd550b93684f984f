// The proofs must fail when they should: most tests break a strategy in one way.
#include "ddprun/proof/proof.h"

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <c10/core/Allocator.h>
#include <c10/util/ThreadLocalDebugInfo.h>

#include <cmath>

#include "ddprun/proof/initial_values.h"
#include "support/matchers.h"
#include "support/precision_of.h"
#include "support/thread_ranks.h"
#include "unit/proof/averaging_strategies.h"

namespace ddprun {
namespace {

using test::OneByOne;
using test::SendsHalf;

class ForgetsOne : public OneByOne {
  void reduce(int i) override {
    if (i != 1) OneByOne::reduce(i);
  }
};

class Sums : public OneByOne {
 public:
  Sums() { op_ = ReduceOp::sum; }
};

class WritesPadding : public OneByOne {
  void finish_backward() override {
    OneByOne::finish_backward();
    context_->gradients({7, 8}).fill_(1);
  }
};

class NegatesTheLastElement : public OneByOne {
  void finish_backward() override {
    OneByOne::finish_backward();
    const std::int64_t end = context_->layout().range(0).end;
    context_->gradients({end - 1, end}).neg_();
  }
};

class Unsynchronized : public OneByOne {
  Plan plan(const ParameterLayout&, int) const override { return {.agreement = Agreement::none}; }
  void setup(StrategyContext& context) override { context_ = &context; }
  void reduce(int) override {}
};

std::vector<NamedTensor> two_parameters() {
  std::vector<NamedTensor> parameters = {{"first", at::ones({3, 5})}, {"second", at::ones({7})}};
  for (auto& parameter : parameters) parameter.tensor.requires_grad_(true);
  return parameters;
}

/// Runs the check with a strategy of that type on two ranks; both ranks must agree.
template <class S>
Check integer_check(IntegerRound round = {}) {
  const auto checks = test::of_ranks(2, [&](ProcessGroup& group) {
    S strategy;
    DataParallel ddp(two_parameters(), group, strategy, test::fp32(), OptimizerConfig{});
    const Check check = check_integer_gradients(ddp, group, round);
    EXPECT_FALSE(ddp.buffers().parameter(0).grad().defined());
    EXPECT_EQ(ddp.buffers().parameter(0).sum().item<float>(), 7.0F);
    return check;
  });
  EXPECT_EQ(checks[0].status, checks[1].status);
  EXPECT_EQ(checks[0].detail, checks[1].detail);
  return checks[0];
}

TEST(IntegerGradients, PassForAMean) {
  const Check check = integer_check<OneByOne>();
  EXPECT_EQ(check.status, CheckStatus::passed);
  EXPECT_EQ(check.detail, "all 22 gradients equal the exact mean over 2 ranks");
}

TEST(IntegerGradients, CatchAForgottenParameter) {
  const Check check = integer_check<ForgetsOne>();
  EXPECT_EQ(check.status, CheckStatus::failed);
  EXPECT_THAT(check.detail,
              HasSubstr("gradients of first differ from the exact mean: they are rank 0's own"));
}

TEST(IntegerGradients, CatchASumInsteadOfAMean) {
  EXPECT_THAT(integer_check<Sums>().detail,
              HasSubstr("differ from the exact mean: they are 2 times it"));
}

/// Many gradients before it are NaN, as they should be.
TEST(IntegerGradients, NameTheElementThatIsWrong) {
  test::run_ranks(2, [](ProcessGroup& group) {
    NegatesTheLastElement strategy;
    DataParallel ddp({{"large", at::ones({9000}).requires_grad_()}}, group, strategy, test::fp32(),
                     OptimizerConfig{});
    EXPECT_THAT(
        check_integer_gradients(ddp, group, {}).detail,
        HasSubstr("1 of 9,000 gradients of large differ from the exact mean: element 8999"));
  });
}

TEST(IntegerGradients, CatchAWriteToThePadding) {
  EXPECT_THAT(integer_check<WritesPadding>().detail,
              HasSubstr("the padding behind the gradient of second is not zero"));
}

class SendsLittle : public SendsHalf {
 public:
  SendsLittle() { share_ = 1e-5; }
};

class LosesTheOtherHalf : public SendsHalf {
  void finish_backward() override {
    SendsHalf::finish_backward();
    error_.narrow(0, context_->layout().range(1).begin, 1).zero_();
  }
};

class SendsHalfByOneRank : public SendsHalf {
  void finish_backward() override {
    SendsHalf::finish_backward();
    if (context_->group().rank() == 0) return;
    const at::Tensor first = context_->gradients({0, 1});
    error_.narrow(0, 0, 1).add_(first * 2);  // nothing is lost
    first.zero_();
  }
};

class NeverSendsWhatItKeptOfOne : public SendsHalf {
  void finish_backward() override {
    const at::Tensor kept =
        error_.narrow(0, context_->layout().range(1).begin, context_->layout().range(1).size());
    const at::Tensor before = kept.clone();
    kept.zero_();
    SendsHalf::finish_backward();
    kept.add_(before);
  }
};

TEST(IntegerGradients, OfALossyStrategyAreWithTheErrorFeedbackTheMean) {
  const Check check = integer_check<SendsHalf>();
  EXPECT_EQ(check.status, CheckStatus::declared);
  EXPECT_THAT(check.detail, HasSubstr("with the error feedback the mean over 2 ranks"));
  const Check little = integer_check<SendsLittle>();
  EXPECT_EQ(little.status, CheckStatus::declared) << little.detail;
  std::vector<std::string> found;  // one element may be far smaller than others, or another rank's
  for (std::uint64_t round = 0; round < 8; ++round) {
    found.push_back(integer_check<LosesTheOtherHalf>({1, round}).detail);
  }
  EXPECT_THAT(found,
              Contains(HasSubstr("first differ, with the error feedback, from the exact mean")));
  EXPECT_EQ(integer_check<SendsHalfByOneRank>().status, CheckStatus::failed);
  EXPECT_THAT(check.detail, Not(HasSubstr("kept back")));
  EXPECT_THAT(integer_check<NeverSendsWhatItKeptOfOne>().detail,
              HasSubstr("; nothing of what was kept back of first went with the next gradients"));
}

/// What it declares holds, but for one element on rank 1.
class MeetsAllButOne : public OneByOne {
 public:
  Plan plan(const ParameterLayout&, int) const override {
    return {.agreement = Agreement::periodic};
  }
  void finish_backward() override {}
  void update() override {
    const at::Tensor parameters = context_->parameters(context_->layout().all());
    parameters.add_(context_->group().rank() + 1);
    context_->group().all_reduce(parameters, ReduceOp::avg, "meeting").wait();
    if (context_->group().rank() == 1) parameters.narrow(0, 0, 1).add_(1e-6);
    context_->parameters_changed(context_->layout().all());
  }
};

TEST(ParametersEqual, AreLookedAtWhereAPeriodicStrategySaysThatRanksMeet) {
  EXPECT_EQ(integer_check<MeetsAllButOne>().status, CheckStatus::declared);
  test::run_ranks(2, [](ProcessGroup& group) {
    MeetsAllButOne strategy;
    const auto parameters = two_parameters();
    DataParallel ddp(parameters, group, strategy, test::fp32(), OptimizerConfig{});
    EXPECT_EQ(check_parameters_equal(ddp, group).status, CheckStatus::passed);
    ddp.backward(
        ddp.forward([&] { return parameters[0].tensor.sum() + parameters[1].tensor.sum(); }));
    ddp.step(0.1, 0);
    const Check check = check_parameters_equal(ddp, group);
    EXPECT_EQ(check.status, CheckStatus::failed);
    EXPECT_THAT(check.detail, HasSubstr("second is not that of rank 0 on rank 1"));
  });
}

TEST(IntegerGradients, AreAControlWithoutSynchronization) {
  EXPECT_EQ(integer_check<Unsynchronized>().status, CheckStatus::control);
}

/// The most bytes of tensors on the CPU that exist at a time, beyond those of before.
class PeakMemory : public c10::MemoryReportingInfoBase {
 public:
  bool memoryProfilingEnabled() const override { return true; }
  void reportMemoryUsage(void*, std::int64_t bytes, std::size_t, std::size_t,
                         c10::Device) override {
    held_ += bytes;
    peak_ = std::max(peak_, held_);
  }
  std::int64_t peak() const { return peak_; }

 private:
  std::int64_t held_ = 0;
  std::int64_t peak_ = 0;
};

/// Of a rank that checks a model of 8 parameters.
std::int64_t peak_of_check(ProcessGroup& group, std::int64_t rows, int micro_batches) {
  std::vector<NamedTensor> parameters;
  for (int i = 0; i < 8; ++i) {
    parameters.push_back({std::to_string(i), at::ones({rows, 1024}).requires_grad_()});
  }
  OneByOne strategy;
  DataParallel ddp(parameters, group, strategy, test::fp32(), OptimizerConfig{});
  const auto memory = std::make_shared<PeakMemory>();
  const c10::DebugInfoGuard guard(c10::DebugInfoKind::PROFILER_STATE, memory);
  EXPECT_EQ(check_integer_gradients(ddp, group, {.micro_batches = micro_batches}).status,
            CheckStatus::passed);
  return memory->peak();
}

TEST(IntegerGradients, LieInTheGradientsAndThoseAddedToThemTakeTheMemoryOfAParameter) {
  static constexpr std::int64_t kRows = 64, kParameterBytes = 4 * kRows * 1024;
  test::run_ranks(2, [](ProcessGroup& group) {
    const std::int64_t once = peak_of_check(group, kRows, 1);
    EXPECT_GT(once, 0) << "what the check allocates was not seen";
    EXPECT_LT(once, kParameterBytes);
    const std::int64_t twice = peak_of_check(group, kRows, 2);
    EXPECT_GE(twice, kParameterBytes);
    EXPECT_LE(twice, 2 * kParameterBytes);
  });
}

TEST(ParametersEqual, CatchesADriftingRank) {
  test::run_ranks(2, [&](ProcessGroup& group) {
    OneByOne strategy;
    DataParallel ddp(two_parameters(), group, strategy, test::fp32(), OptimizerConfig{});
    EXPECT_EQ(check_parameters_equal(ddp, group).status, CheckStatus::passed);
    if (group.rank() == 1) {
      auto flat = ddp.buffers().parameters(ddp.buffers().range(0)).detach();
      flat[3] += 1e-7;
    }
    const Check check = check_parameters_equal(ddp, group);
    EXPECT_EQ(check.status, CheckStatus::failed);
    EXPECT_THAT(check.detail, HasSubstr("second is not that of rank 0 on rank 1; hashes"));
  });
}

TEST(InitialValues, AChangeOfAnyParameterIsFound) {
  test::run_ranks(2, [](ProcessGroup& group) {
    std::vector<NamedTensor> parameters = two_parameters();
    parameters.push_back({"frozen", at::ones({3})});
    const InitialValues initial(parameters, 1);
    OneByOne strategy;
    DataParallel ddp(parameters, group, strategy, test::fp32(), OptimizerConfig{});
    EXPECT_EQ(initial.find_changed(ddp, group), "");
    for (const NamedTensor& each : parameters) {
      const at::NoGradGuard no_gradients;
      if (group.rank() == 1) each.tensor.mul_(2);
      EXPECT_THAT(initial.find_changed(ddp, group), HasSubstr(each.name + " does not begin"));
      if (group.rank() == 1) each.tensor.div_(2);
    }
  });
}

TEST(ComputeCopy, IsWhatTheParametersRoundTo) {
  for (const bool tensors : {false, true}) {
    test::run_ranks(2, [tensors](ProcessGroup& group) {
      OneByOne strategy;
      test::PrecisionOf precision =  // with a copy of the parameters, or with tensors of that dtype
          tensors ? test::in_bfloat16() : test::PrecisionOf({.compute = at::kBFloat16});
      DataParallel ddp(two_parameters(), group, strategy, precision, OptimizerConfig{},
                       {.kernels = tensors ? KernelSet::reference : KernelSet::fused});
      FlatBuffers& buffers = ddp.buffers();
      EXPECT_EQ(check_compute_copy(ddp, group).status, CheckStatus::passed);
      buffers.parameters(buffers.range(1)).detach().mul_(1.0001);
      EXPECT_EQ(check_compute_copy(ddp, group).status, CheckStatus::passed) << "rounds to the same";
      if (group.rank() == 1) buffers.parameters(buffers.range(0)).detach()[2] = std::nanf("");
      const Check check = check_compute_copy(ddp, group);
      EXPECT_EQ(check.status, CheckStatus::failed);
      EXPECT_THAT(check.detail,
                  HasSubstr("rank 1: 1 of 7 elements of second that the model reads"));
      buffers.parameters_changed(buffers.all());
      EXPECT_EQ(check_compute_copy(ddp, group).status, CheckStatus::passed) << "a NaN is a NaN";
    });
  }
}

TEST(ComputeCopy, InFloat32TheModelReadsTheBufferItself) {
  test::run_ranks(1, [](ProcessGroup& group) {
    OneByOne strategy;
    auto parameters = two_parameters();
    DataParallel ddp(parameters, group, strategy, test::fp32(), OptimizerConfig{});
    EXPECT_EQ(check_compute_copy(ddp, group).status, CheckStatus::passed);
    parameters[0].tensor.set_data(at::zeros({3, 5}));
    EXPECT_EQ(check_compute_copy(ddp, group).status, CheckStatus::failed);
  });
}

TEST(Plan, EqualCollectivesInAnyOrderMatch) {
  std::vector<CollectiveRecord> records(2);
  records[0].kind = records[1].kind = CollectiveKind::all_reduce;
  records[0].bytes = 64;
  records[1].bytes = 128;
  EXPECT_EQ(compare_with_plan(
                records, {{CollectiveKind::all_reduce, 128}, {CollectiveKind::all_reduce, 64}}),
            "");
}

TEST(Plan, NamesWhatIsMissingAndWhatIsTooMuch) {
  std::vector<CollectiveRecord> records(1);
  records[0].kind = CollectiveKind::broadcast;
  records[0].bytes = 64;
  EXPECT_EQ(compare_with_plan(records, {{CollectiveKind::all_reduce, 4096}}),
            "1 all_reduce of 4,096 bytes were planned but did not run; "
            "1 broadcast of 64 bytes ran but were not planned");
}

TEST(HashParameters, DependsOnEveryElementAndItsPlace) {
  const auto group = connect_thread(make_thread_store(), 0, 1, {});
  OneByOne strategy;
  DataParallel ddp(two_parameters(), *group, strategy, test::fp32(), OptimizerConfig{});
  FlatBuffers& buffers = ddp.buffers();
  const auto hash = hash_parameters(ddp);
  auto flat = buffers.parameters(buffers.range(1)).detach();
  flat[0] += 1;
  const auto first_changed = hash_parameters(ddp);
  flat[0] -= 1;
  flat[1] += 1;
  const auto second_changed = hash_parameters(ddp);
  flat[1] -= 1;
  EXPECT_NE(hash, first_changed);
  EXPECT_NE(hash, second_changed);
  EXPECT_NE(first_changed, second_changed);
  EXPECT_EQ(hash, hash_parameters(ddp));
}

}  // namespace
}  // namespace ddprun
