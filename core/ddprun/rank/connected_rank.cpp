// What every rank does before and after what its kind does.
#include "ddprun/rank/connected_rank.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <set>
#include <utility>

#include "ddprun/base/clock.h"
#include "ddprun/base/hash.h"
#include "ddprun/base/json.h"
#include "ddprun/comm/launch/host_layout.h"
#include "ddprun/comm/launch/rendezvous.h"
#include "ddprun/device/product_speed.h"
#include "ddprun/measure/environment.h"
#include "ddprun/measure/resident_memory.h"
#include "ddprun/rank/emulated_ranks.h"

namespace ddprun {

namespace {

/// What the facts of a rank's machine and device say of its figures. Clocks, addresses and sizes
/// that change by themselves are none.
std::map<std::string, std::string> conditions_of(const Device& device) {
  std::map<std::string, std::string> out;
  const std::set<std::string> kept = {"cpu",    "simd",         "products", "float32 products",
                                      "driver", "cuda runtime", "nccl",     "gpu links"};
  const auto keep = [&](const std::vector<std::pair<std::string, std::string>>& facts) {
    for (const auto& [name, text] : facts) {
      if (kept.contains(name)) out[name] = text;
    }
  };
  keep(describe_environment());
  keep(device.describe());
  if (!device.name().empty()) out["device"] = device.name();
  return out;
}

}  // namespace

ConnectedRank::ConnectedRank(const Experiment& experiment, const RunContext& context)
    : experiment_(experiment),
      context_(context),
      affinity_(set_affinity(experiment.world, context.info)),
      device_(open_rank_device(experiment.world, context.info)),
      meter_(affinity_.cores) {
  result_.rank = context.info.rank;
  result_.cores = affinity_.cores;
  result_.threads = affinity_.threads;
  result_.products = bf16_products();
  const std::string host = host_identity();
  result_.host = fmt::format("{:016x}", hash64(host.empty() ? std::to_string(result_.rank) : host));
  if (device_->torch_device().is_cpu()) result_.gflops_before = short_product_flops() * 1e-9;
}

void ConnectedRank::connect() {
  group_ = ddprun::connect(context_.info, experiment_.world.comm, context_.run_id, host_identity(),
                           *device_);
  result_.device_name = device_->name();
  result_.backend = group_->backend_name() + " (" + group_->backend_reason() + ")";
  if (context_.info.rank == 0) spdlog::debug("backend: {}", result_.backend);
}

void ConnectedRank::first_step_done() {
  result_.first_step_done_s = seconds_since(context_.launch_ns);
}

void ConnectedRank::measuring_ends() {
  result_.load = meter_.end();
  result_.shared_resident_bytes = shared_resident_bytes();
}

void ConnectedRank::sample_done(const Sample& sample) {
  if (sample.step == 0) first_step_done();
  if (sample.warmup) measuring_begins();
  if (sample.step + 1 == experiment_.repeat.warmup + experiment_.repeat.count) measuring_ends();
  if (!context_.on_progress) return;
  const Quantity& time = experiment_.kind->quantities().front();
  const RepeatConfig& repeat = experiment_.repeat;
  context_.on_progress({sample.step + 1, repeat.warmup + repeat.count,
                        fmt::format("{:.2f} {}", sample[time], time.unit)});
}

std::vector<std::string> ConnectedRank::run_once(const std::function<void(Sample&)>& measure) {
  connect();
  Sample sample(*experiment_.kind);
  const std::int64_t begin_ns = now_ns();
  measure(sample);
  sample[experiment_.kind->quantities().front()] = static_cast<double>(now_ns() - begin_ns) * 1e-3;
  first_step_done();
  result_.samples.push_back(std::move(sample));
  result_.peak_resident_bytes = peak_resident_bytes();
  result_.shared_resident_bytes = shared_resident_bytes();
  result_.gflops_before = 0;
  return hand_in();
}

std::vector<std::string> ConnectedRank::finish() {
  result_.peak_resident_bytes = peak_resident_bytes();
  if (result_.load.wall_s == 0) measuring_ends();
  if (result_.gflops_before > 0) result_.gflops_after = short_product_flops() * 1e-9;
  return hand_in();
}

std::vector<std::string> ConnectedRank::hand_in() {
  result_.device = device_->describe();
  result_.topology = device_->topology();
  result_.fell_back = group_->fell_back();
  result_.conditions = conditions_of(*device_);
  result_.conditions["backend"] =
      group_->backend_name() + (result_.fell_back ? ", after another was refused" : "");
  result_.conditions["ranks on its host"] = std::to_string(group_->ranks_per_host());
  result_.conditions["cores of a rank"] = std::to_string(affinity_.cores.size());
  result_.conditions["threads of a rank"] = std::to_string(affinity_.threads);
  std::vector<std::string> results = group_->gather_object(json_text(to_json(result_)));
  group_->shutdown();
  return results;
}

}  // namespace ddprun
