// A module of one's own, trained by ddprun's strategies and precisions in a loop of one's own.
//     own_program STRATEGY PRECISION
#include <torch/torch.h>

#include <cstdio>
#include <exception>

#include "ddprun/comm/launch/launch_environment.h"
#include "ddprun/comm/launch/rendezvous.h"
#include "ddprun/config/registry.h"
#include "ddprun/parallel/data_parallel.h"
#include "ddprun/proof/proof.h"

namespace {

constexpr int kSteps = 20;
constexpr int kMicroBatches = 2;
constexpr int kBatch = 32;  // samples of a rank's micro-batch

/// Two layers. Linear layers go through DataParallel::linear(), as some precisions compute them
/// themselves.
struct Network : torch::nn::Module {
  Network() {
    torch::manual_seed(1);  // the same on all ranks
    in = register_parameter("in", torch::randn({64, 16}) * 0.2);
    bias = register_parameter("bias", torch::zeros({64}));
    out = register_parameter("out", torch::randn({16, 64}) * 0.1);
  }

  torch::Tensor forward(const torch::Tensor& x, ddprun::DataParallel& ddp) const {
    return ddp.linear(torch::relu(ddp.linear(x, in) + bias), out);
  }

  torch::Tensor in, bias, out;
};

/// Micro-batch `index` of this rank: what the network is to learn is the sine of its input.
torch::Tensor make_batch(const ddprun::ProcessGroup& group, int index) {
  const auto generator = torch::make_generator<torch::CPUGeneratorImpl>(
      static_cast<std::uint64_t>(index * group.size() + group.rank()));
  return torch::randn({kBatch, 16}, generator);
}

void train(ddprun::ProcessGroup& group, const char* strategy_name, const char* precision_name) {
  const ddprun::PluginRegistry registry(ddprun::plugin_search_path({}));
  const auto strategy = ddprun::make_strategy(
      registry, {.kind = ddprun::PluginKind::strategy, .name = strategy_name});
  const auto precision = ddprun::make_precision(
      registry, {.kind = ddprun::PluginKind::precision, .name = precision_name});
  Network network;
  ddprun::OptimizerConfig optimizer;
  optimizer.lr = 3e-3;
  ddprun::DataParallel ddp(ddprun::named_parameters(network), group, *strategy, *precision,
                           optimizer);

  for (int step = 0; step < kSteps; ++step) {
    double loss_sum = 0.0;
    for (int i = 0; i < kMicroBatches; ++i) {
      const torch::Tensor x = make_batch(group, step * kMicroBatches + i);
      const ddprun::Loss loss = ddp.forward(
          [&] {
            const torch::Tensor y = network.forward(x.to(ddp.parameter_dtype()), ddp);
            return torch::mse_loss(y.to(torch::kFloat), x.sin());
          },
          {i, kMicroBatches});
      ddp.backward(loss);
      loss_sum += loss.value().item<double>();
    }
    ddp.step(optimizer.lr, /*clip_norm=*/1.0);
    if (group.rank() == 0 && (step + 1) % 10 == 0) {
      std::printf("step %d loss %.4f\n", step + 1, loss_sum / kMicroBatches);
    }
  }

  const ddprun::Check exact = ddprun::check_integer_gradients(ddp, group);
  const ddprun::Check equal = ddprun::check_parameters_equal(ddp, group, "parameters_equal");
  const auto hash = static_cast<unsigned long long>(ddprun::hash_parameters(ddp));
  if (group.rank() != 0) return;  // all that all ranks call is done
  for (const auto& check : {exact, equal}) {
    std::printf("%s %s\n", check.name.c_str(),
                check.status == ddprun::CheckStatus::passed ? "passed" : check.detail.c_str());
  }
  std::printf("parameters %016llx\n", hash);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return std::fprintf(stderr, "usage: own_program STRATEGY PRECISION\n"), 2;
  try {
    // One process alone is a world of one rank.
    const auto info = ddprun::rank_info_from_environment().value_or(ddprun::RankInfo());
    const auto group = ddprun::connect(info, ddprun::CommConfig(), "own_program");
    train(*group, argv[1], argv[2]);
    group->shutdown();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
  return 0;
}
