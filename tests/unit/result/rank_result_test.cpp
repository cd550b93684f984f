// A rank's result survives JSON text bit for bit.
#include "ddprun/result/rank_result.h"

#include <gtest/gtest.h>

#include <bit>
#include <limits>
#include <nlohmann/json.hpp>

#include "ddprun/base/error.h"
#include "ddprun/experiments/training/training.h"

namespace ddprun {
namespace {

RankResult example() {
  RankResult result;
  result.rank = 3;
  const Training& q = training();
  result.samples.assign(2, Sample(q));
  result.samples[0].warmup = true;
  result.samples[0][q.step_ms] = 0.1;
  result.samples[0][q.loss] = 1.0 / 3.0;
  result.samples[0][q.communication_ms] = -std::numeric_limits<double>::infinity();
  Sample& sample = result.samples[1];
  sample.step = 1;
  sample[q.step_ms] = 12.345678901234567;
  sample[q.forward_ms] = 1e-300;
  sample[q.backward_ms] = 2;
  sample[q.synchronize_ms] = 3;
  sample[q.optimizer_ms] = 4;
  sample[q.communication_ms] = 5;
  sample[q.overlapped_ms] = 6;
  sample[q.launch_delay_ms] = 0.5;
  sample[q.loss] = std::numeric_limits<double>::quiet_NaN();
  sample[q.gradient_norm] = std::numeric_limits<double>::infinity();
  sample[q.skipped] = 1;
  sample[q.collectives] = 7;
  sample[q.bytes] = static_cast<double>(std::int64_t{1} << 60);
  result.timeline = {{.step = 1,
                      .begin_ns = 123456789012345678,
                      .phases = {{"forward", 1, (std::int64_t{1} << 62) + 1}, {"backward", 3, 4}},
                      .units = {{"layers.0", 1, 2}},
                      .gradients_ns = {5, 6},
                      .collectives = {{.kind = CollectiveKind::reduce_scatter,
                                       .bytes = 64,
                                       .label = "layers.0.\"attn\"\n",
                                       .enqueue_ns = 1,
                                       .start_ns = 2,
                                       .end_ns = 3,
                                       .wait_begin_ns = 4,
                                       .wait_end_ns = (std::int64_t{1} << 62) + 1}}}};
  result.checks = {{"parameters_equal", CheckStatus::passed, "hash 1f on 2 ranks"}};
  result.lost_updates = {{.parameter = "ln_final.weight",
                          .weights = 512,
                          .looked_at = 500,
                          .lost = 400,
                          .steps = 4,
                          .steps_without_effect = 1}};
  result.checks_s = 0.75;
  result.parameter_hash = 0xFEDCBA9876543211u;
  result.peak_resident_bytes = 987654321;
  result.shared_resident_bytes = 123456789;
  result.cores = {0, 2};
  result.threads = 2;
  result.backend = "shm (asked for)";
  result.gflops_before = 90;
  result.gflops_after = 80;
  result.first_step_done_s = 1.25;
  result.device = {{"cuda:0", "a GPU"}, {"nccl", "2.28.9"}};
  result.topology = "<system version=\"1\"/>";
  result.device_memory = {.allocated_bytes = 1,
                          .reserved_bytes = 2,
                          .peak_allocated_bytes = 3,
                          .peak_reserved_bytes = 4,
                          .retries = 5};
  result.device_name = "NVIDIA H200";
  result.matmul_dtype = "bfloat16";
  result.observed = {{"logits", "float16"}};
  result.memory_phases = {{"forward", result.device_memory}, {"backward", {.retries = 1}}};
  result.memory_snapshot = "memory_rank0.pickle";
  result.memory_peak = {.phase = "backward",
                        .tensors = {{"data", 7}},
                        .categories = {{"moments", 3}, {"library", 9}},
                        .unexplained_bytes = -1,
                        .resident_bytes = 11,
                        .saved = {{"w1w3", 5}},
                        .saved_again = {{"qkv", 6}},
                        .tokens = 32};
  result.operators = {.step_ns = 9,
                      .rows = {{.phase = "forward", .name = "aten::mm", .calls = 2, .ns = 9}},
                      .roofline = {.product_flops = {{"float32", 1e12}}, .copy_bytes = 1e10}};
  return result;
}

RankResult through_text(const RankResult& result) {
  return rank_result_from_json(nlohmann::json::parse(to_json(result).dump()), training());
}

/// Which "not a number" has, too.
std::optional<std::uint64_t> bits(const Sample& sample, const Quantity& quantity) {
  const auto value = sample.find(quantity);
  return value ? std::optional(std::bit_cast<std::uint64_t>(*value)) : std::nullopt;
}

TEST(RankResult, OfTheCpuSaysNothingOfDevices) {
  EXPECT_FALSE(to_json(RankResult{}).contains("device"));
  EXPECT_EQ(through_text(example()).device_memory.peak_reserved_bytes, 4);
  EXPECT_EQ(through_text(example()).topology, example().topology);
}

TEST(RankResult, OfTheCpuHasOnlyWhatIsCountedThere) {
  RankResult result = example();
  EXPECT_EQ(to_json(result)["memory_phases"][0]["retries"], 5);
  result.device.clear();
  EXPECT_EQ(to_json(result)["memory_phases"][0].dump(),
            R"({"allocated_bytes":1,"peak_allocated_bytes":3,"phase":"forward"})");
  EXPECT_EQ(through_text(result).memory_phases[0].memory.peak_allocated_bytes, 3);
}

TEST(RankResult, RoundTripIsExact) {
  const RankResult before = example();
  const RankResult after = through_text(before);
  EXPECT_EQ(to_json(after), to_json(before));
  EXPECT_EQ(after.rank, 3);
  EXPECT_EQ(after.memory_peak.saved, before.memory_peak.saved);
  EXPECT_FALSE(to_json(RankResult{}).contains("memory_peak"));
  EXPECT_EQ(after.operators.rows.at(0).name, "aten::mm");
  EXPECT_FALSE(to_json(RankResult{}).contains("operators"));
  EXPECT_EQ(after.lost_updates.at(0).lost, 400);
  EXPECT_EQ(after.lost_updates[0].steps_without_effect, 1);
  EXPECT_FALSE(to_json(RankResult{}).contains("lost_updates"));
  ASSERT_EQ(after.samples.size(), 2u);
  for (std::size_t i = 0; i < 2; ++i) {
    const Sample &own = after.samples[i], &written = before.samples[i];
    EXPECT_EQ(own.step, written.step);
    EXPECT_EQ(own.warmup, written.warmup);
    for (const Quantity& quantity : training().quantities()) {
      if (!quantity.measured()) continue;
      EXPECT_EQ(bits(own, quantity), bits(written, quantity)) << quantity.key;
    }
  }
  EXPECT_FALSE(after.samples[0].find(training().gradient_norm).has_value());
  const nlohmann::json written = samples_to_json(after.samples);
  EXPECT_EQ(written["bytes"].dump(), "[0,1152921504606846976]");
  EXPECT_EQ(written["skipped"].dump(), "[false,true]");
  EXPECT_EQ(written["gradient_norm"].dump(), R"([null,"inf"])");
  EXPECT_EQ(after.observed, before.observed);
  ASSERT_EQ(after.timeline.size(), 1u);
  EXPECT_EQ(after.timeline[0].begin_ns, 123456789012345678);
  EXPECT_EQ(after.timeline[0].gradients_ns, before.timeline[0].gradients_ns);
  ASSERT_EQ(after.timeline[0].collectives.size(), 1u);
  const CollectiveRecord& collective = after.timeline[0].collectives[0];
  EXPECT_EQ(collective.kind, CollectiveKind::reduce_scatter);
  EXPECT_EQ(collective.label, "layers.0.\"attn\"\n");
  EXPECT_EQ(collective.enqueue_ns, 1);
  EXPECT_EQ(collective.start_ns, 2);
  EXPECT_EQ(collective.end_ns, 3);
  EXPECT_EQ(collective.wait_begin_ns, 4);
  EXPECT_EQ(collective.wait_end_ns, (std::int64_t{1} << 62) + 1);
  EXPECT_EQ(after.checks, before.checks);
  EXPECT_EQ(after.parameter_hash, 0xFEDCBA9876543211u);
  EXPECT_EQ(after.peak_resident_bytes, 987654321);
  EXPECT_EQ(after.shared_resident_bytes, 123456789);
  EXPECT_EQ(after.backend, "shm (asked for)");
  EXPECT_EQ(after.cores, (std::vector<int>{0, 2}));
  EXPECT_EQ(after.threads, 2);
  EXPECT_EQ(after.gflops_before, 90);
  EXPECT_EQ(after.gflops_after, 80);
  EXPECT_EQ(after.first_step_done_s, 1.25);
}

TEST(RankResult, EmptyResult) { EXPECT_TRUE(through_text(RankResult()).samples.empty()); }

TEST(RankResult, MalformedResultIsAnErrorOfOurs) {
  using nlohmann::json;
  EXPECT_THROW(rank_result_from_json(json::object(), training()), Error);
  for (const auto& [place, value] : {std::pair<const char*, json>{"/samples/loss/0", "large"},
                                     {"/samples/loss", json::array({0.5})},
                                     {"/samples/loss", 2},
                                     {"/parameter_hash", "xyz"},
                                     {"/checks/0/status", "fine"},
                                     {"/timeline/0/collectives/0/kind", "scatter"}}) {
    json result = to_json(example());
    result.at(json::json_pointer(place)) = value;
    EXPECT_THROW(rank_result_from_json(result, training()), Error) << place << " " << value;
  }
}

}  // namespace
}  // namespace ddprun
