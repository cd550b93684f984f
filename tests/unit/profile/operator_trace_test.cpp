// Own times, calls, parts, FLOPs and bytes of what a step calls, by a clock of the test's.
#include "ddprun/profile/operator_trace.h"

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <ATen/record_function.h>

#include <map>
#include <numeric>
#include <thread>

#include "support/matchers.h"

namespace ddprun::operator_trace_test {
namespace {

class Recorded {
 public:
  /// Time passes in pass() alone.
  void pass(std::int64_t ns) { now_ns_ += ns; }

  template <class Run>
  OperatorTable step(const Run& run) {
    OperatorTrace trace([this] { return now_ns_; });
    {
      const PhaseScope phase(Phase::step);
      run();
    }
    return trace.table();
  }

 private:
  std::int64_t now_ns_ = 1000;
};

/// An operator that takes `before`, calls another one and takes `after`.
template <class Inner>
void call(Recorded& time, const char* name, std::int64_t before, const Inner& inner,
          std::int64_t after) {
  RECORD_FUNCTION(name, std::vector<c10::IValue>());
  time.pass(before);
  inner();
  time.pass(after);
}
void call(Recorded& time, const char* name, std::int64_t takes) {
  call(
      time, name, takes, [] {}, 0);
}

/// "phase unit part name: calls, ns" of each row, the longest first.
std::vector<std::string> said(const OperatorTable& table) {
  std::vector<std::string> out;
  for (const OperatorRow& row : table.rows) {
    out.push_back(row.phase + "|" + row.unit + "|" + row.part + "|" + row.name + ": " +
                  std::to_string(row.calls) + ", " + std::to_string(row.ns));
  }
  return out;
}

std::int64_t sum(const OperatorTable& table) {
  return std::accumulate(table.rows.begin(), table.rows.end(), std::int64_t{0},
                         [](std::int64_t ns, const OperatorRow& row) { return ns + row.ns; });
}

/// The only row of that name with work or time of its own.
OperatorRow row_of(const OperatorTable& table, const std::string& name) {
  OperatorRow found;
  for (const OperatorRow& row : table.rows) {
    if (row.name != name) continue;
    EXPECT_EQ(found.calls, 0) << "two of " << name;
    found = row;
  }
  return found;
}

TEST(OperatorTrace, GivesEachOperatorItsOwnTimeAndTheRestToWhatIsBetween) {
  Recorded time;
  call(time, "before", 5000);
  const OperatorTable table = time.step([&] {
    time.pass(1);
    {
      const PhaseScope forward(Phase::forward);
      time.pass(2);
      const MemoryLabel unit("layers", 3);
      for (int i = 0; i < 2; ++i) {
        const MemoryLabel operation("norm");
        time.pass(30);
        call(
            time, "outer", 100, [&] { call(time, "inner", 1000); }, 200);
      }
      time.pass(4);
    }
    const PhaseScope backward(Phase::backward);
    const ForwardAgain again;
    call(time, "inner", 7);
  });
  call(time, "behind", 5000);
  EXPECT_THAT(said(table),
              ElementsAre("forward|layers|norm|inner: 2, 2000", "forward|layers|norm|outer: 2, 600",
                          "forward|layers|norm|between operators: 0, 60",
                          "forward again|||inner: 1, 7", "forward|layers||between operators: 0, 4",
                          "forward|||between operators: 0, 2", "step|||between operators: 0, 1"));
  EXPECT_EQ(table.step_ns, 2674);
  EXPECT_EQ(sum(table), table.step_ns);
}

TEST(OperatorTrace, GivesTheTimeOfAPhaseWithinAnOperatorToThePhase) {
  Recorded time;
  const OperatorTable table = time.step([&] {
    const PhaseScope backward(Phase::backward);
    call(
        time, "node", 1,
        [&] {
          const PhaseScope synchronize(Phase::synchronize);
          time.pass(20);
          call(time, "inner", 300);
        },
        4);
  });
  EXPECT_THAT(said(table),
              ElementsAre("synchronize|||inner: 1, 300", "synchronize|||between operators: 0, 20",
                          "backward|||node: 1, 5"));
  EXPECT_EQ(table.rows[1].kind(), OperatorKind::communication);
}

TEST(OperatorTrace, HearsItsOwnThreadAlone) {
  Recorded time;
  const OperatorTable table = time.step([&] {
    std::thread([&] {
      const MemoryLabel label("norm");
      call(time, "elsewhere", 10);
    }).join();
  });
  EXPECT_THAT(said(table), ElementsAre("step|||between operators: 0, 10"));
}

TEST(OperatorTrace, GoesOnAfterAnException) {
  Recorded time;
  const OperatorTable table = time.step([&] {
    const at::Tensor three = at::ones({3, 3}), two = at::ones({2, 2});
    EXPECT_THROW(call(
                     time, "throws", 1, [&] { at::mm(three, two); }, 0),
                 std::exception);
    call(time, "next", 20);
  });
  EXPECT_EQ(row_of(table, "throws").ns, 1);
  EXPECT_EQ(row_of(table, "next").ns, 20);
  EXPECT_EQ(sum(table), 21);
}

TEST(OperatorTrace, ItsOwnTimeIsARow) {
  std::int64_t now = 0;
  OperatorTrace trace([&] { return now += 10; });  // each look takes 10
  {
    const PhaseScope step(Phase::step);
    RECORD_FUNCTION("operator", std::vector<c10::IValue>());
  }
  const OperatorTable table = trace.table();
  EXPECT_THAT(said(table), ElementsAre("|||recording: 0, 30", "step|||between operators: 0, 20",
                                       "step|||operator: 1, 10"));
  EXPECT_EQ(table.rows[0].kind(), OperatorKind::recording);
  EXPECT_EQ(sum(table), table.step_ns);
}

TEST(OperatorTrace, NamesThePartsOfAttentionInBackwardToo) {
  const at::Tensor q = at::rand({2, 5, 4}).set_requires_grad(true);
  Recorded time;
  const OperatorTable table = time.step([&] {
    at::Tensor loss;
    {
      const PhaseScope forward(Phase::forward);
      const MemoryLabel unit("layers", 0);
      const MemoryLabel label("attention");
      const at::Tensor scores = at::softmax(at::bmm(q, q.transpose(1, 2)) * 0.5, -1);
      loss = at::bmm(scores, q).sum();
    }
    const PhaseScope backward(Phase::backward);
    loss.backward();
  });
  const double product = 2.0 * 2 * 5 * 5 * 4;
  std::map<std::string, double> flops;
  std::map<std::string, std::int64_t> calls;
  for (const OperatorRow& row : table.rows) {
    if (row.kind() == OperatorKind::products) flops[row.phase + " " + row.part] += row.flops;
    if (row.kind() == OperatorKind::softmax) flops[row.phase + " softmax"] += row.flops;
    calls[row.name] += row.calls;
  }
  EXPECT_EQ(flops["forward attention scores"], product);
  EXPECT_EQ(flops["forward final product"], product);
  EXPECT_EQ(flops["backward attention scores"], 2 * product);
  EXPECT_EQ(flops["backward final product"], 2 * product);
  EXPECT_EQ(flops["forward softmax"], 5 * 2 * 5 * 5);
  EXPECT_EQ(flops["backward softmax"], 4 * 2 * 5 * 5);
  EXPECT_EQ(calls["aten::softmax"], 1);
  for (const OperatorRow& row : table.rows) {
    const std::map<std::string, std::string> parts = {
        {"torch::autograd::AccumulateGrad", "gradient"}, {"SoftmaxBackward0", "softmax"}};
    if (parts.contains(row.name)) {
      EXPECT_EQ(row.part, parts.at(row.name));
    }
    EXPECT_EQ(row.name.find(": "), std::string::npos) << row.name;
  }
}

TEST(OperatorTrace, CountsFlopsOfProducts) {
  Recorded time;
  const at::Tensor a = at::ones({3, 5}), b = at::ones({5, 7});
  const OperatorTable table = time.step([&] {
    at::linear(at::ones({2, 3, 5}), b.t());  // calls others, which have the FLOPs
    at::addmm(at::ones({3, 7}), a, b);
    RECORD_FUNCTION("ddprun::product", std::vector<c10::IValue>({a, b.t(), at::ones({3, 7})}));
    at::matmul(a, b);
  });
  double flops = 0;
  for (const OperatorRow& row : table.rows) flops += row.flops;
  EXPECT_EQ(flops, 2.0 * 3 * 5 * 7 * (2 + 1 + 1));
  EXPECT_EQ(row_of(table, "aten::addmm").flops, 2.0 * 3 * 5 * 7);
  EXPECT_EQ(row_of(table, "ddprun::product").flops, 0) << "it called a product of as many";
}

TEST(OperatorTrace, CountsFlopsOfAttentionByOneKernel) {
  Recorded time;
  const at::Tensor q = at::rand({1, 2, 16, 8}).set_requires_grad(true);
  const OperatorTable table = time.step([&] {
    const MemoryLabel label("attention");
    at::scaled_dot_product_attention(q, q, q, {}, 0.0, /*is_causal=*/true).sum().backward();
  });
  std::map<std::string, double> flops;
  for (const OperatorRow& row : table.rows) {
    if (row.kind() == OperatorKind::attention && row.flops > 0) flops[row.name] += row.flops;
  }
  const double product = 2.0 * 2 * 16 * 16 * 8 / 2;
  EXPECT_EQ(flops.size(), 2u);
  EXPECT_EQ(flops["aten::_scaled_dot_product_flash_attention_for_cpu"], 2 * product);
  EXPECT_EQ(flops["aten::_scaled_dot_product_flash_attention_for_cpu_backward"], 5 * product);
}

TEST(OperatorTrace, CountsTheBytesThatMove) {
  Recorded time;
  const at::Tensor a = at::ones({10, 10}), row = at::ones({1, 10});
  const at::Tensor ids = at::zeros({5}, at::kLong);
  const OperatorTable table = time.step([&] {
    a.t().view({10, 10}).slice(0, 0, 5);
    at::mul(a, row.expand({10, 10}));  // which are 10 values
    at::Tensor made = at::empty({10, 10});
    made.copy_(a);
    at::index_select(a, 0, ids);
    at::softmax(a, -1);
    ids.sum().item();
    RECORD_FUNCTION("ours::kernel", std::vector<c10::IValue>({a, row}));
  });
  EXPECT_EQ(row_of(table, "ours::kernel").bytes, 440);
  EXPECT_EQ(row_of(table, "aten::item").bytes, 0);
  EXPECT_EQ(row_of(table, "aten::t").bytes + row_of(table, "aten::view").bytes, 0);
  EXPECT_EQ(row_of(table, "aten::empty").bytes, 0);
  EXPECT_EQ(row_of(table, "aten::mul").bytes, 400 + 40 + 400);
  EXPECT_EQ(row_of(table, "aten::copy_").bytes, 800);
  EXPECT_EQ(row_of(table, "aten::index_select").bytes, 5 * 40 * 2 + 5 * 8);
  EXPECT_EQ(row_of(table, "aten::softmax").bytes, 0) << "the operator that it calls has them";
  EXPECT_EQ(row_of(table, "aten::_softmax").bytes, 800);
  EXPECT_EQ(row_of(table, "aten::mul").dtype, "float32");
}

TEST(OperatorTable, HoldsEachRowAgainstTheRoofline) {
  const OperatorTable table = {
      .step_ns = 4000,
      .rows = {{.phase = "forward",
                .name = "aten::mm",
                .dtype = "float32",
                .ns = 2000,
                .flops = 1e6,
                .bytes = 1000},
               {.phase = "backward",
                .name = "aten::mm",
                .dtype = "float16",
                .ns = 1000,
                .flops = 5,
                .bytes = 1000},
               {.phase = "backward",
                .part = "norm",
                .name = "aten::add",
                .dtype = "float32",
                .ns = 1000,
                .bytes = 3000},
               {.phase = "backward",
                .name = "aten::mm",
                .dtype = "float32",
                .ns = 1000,
                .flops = 1000,
                .bytes = 8000},
               {.phase = "backward",
                .part = "attention",
                .name = "ddprun::flash_attention",
                .dtype = "float32",
                .ns = 1000,
                .flops = 4e5,
                .bytes = 10}},
      .roofline = {.product_flops = {{"float32", 1e12}}, .copy_bytes = 1e10}};
  EXPECT_DOUBLE_EQ(table.of_roof(table.rows[0]).value(), 0.5);
  EXPECT_FALSE(table.of_roof(table.rows[1])) << "the rate of float16 is not known";
  EXPECT_DOUBLE_EQ(table.of_roof(table.rows[2]).value(), 0.3);
  EXPECT_DOUBLE_EQ(table.of_roof(table.rows[3]).value(), 0.8) << "memory takes longer";
  EXPECT_DOUBLE_EQ(table.of_roof(table.rows[4]).value(), 0.4);
  EXPECT_THAT(operators_csv(table), HasSubstr(",0,0.002000,0.500000,1000000,1000,0.5000\n"));
  const auto sums = table.sums();
  ASSERT_EQ(sums.size(), 3u);
  EXPECT_EQ(sums[0].kind, OperatorKind::products);
  EXPECT_EQ(sums[0].ns, 4000);
  EXPECT_EQ(sums[0].forward_ns, 2000);
  EXPECT_EQ(sums[0].forward_flops, 1e6);
  EXPECT_TRUE(std::ranges::count(sums, OperatorKind::norm, &OperatorSum::kind) == 1);
}

}  // namespace
}  // namespace ddprun::operator_trace_test
