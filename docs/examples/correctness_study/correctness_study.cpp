// Whether data parallelism trains a small network to what PyTorch alone trains it to, in one
// process that takes the whole batch.
//     correctness_study STRATEGY
#include <torch/torch.h>

#include <cstdio>
#include <exception>
#include <stdexcept>
#include <vector>

#include "ddprun/comm/launch/launch_environment.h"
#include "ddprun/comm/launch/rendezvous.h"
#include "ddprun/config/registry.h"
#include "ddprun/parallel/data_parallel.h"
#include "ddprun/parallel/whole_buffers.h"

namespace {

constexpr int kEpochs = 3;
constexpr int kSamples = 128;
constexpr int kBatch = 16;  // samples of all ranks
constexpr double kLearningRate = 0.01;
/// The largest difference that passes. Sums over 16 samples and over 2 x 8 round differently.
constexpr double kLargest = 1e-6;

/// Its parameters are net.0.weight, net.0.bias, net.2.weight, net.2.bias, net.4.weight, net.4.bias.
struct Network : torch::nn::Module {
  explicit Network(int seed) {
    torch::manual_seed(seed);
    using torch::nn::Linear, torch::nn::ReLU;
    net = register_module("net", torch::nn::Sequential(Linear(16, 32), ReLU(), Linear(32, 32),
                                                       ReLU(), Linear(32, 8)));
  }

  torch::nn::Sequential net = nullptr;
};

/// The same in each process.
struct Dataset {
  Dataset() {
    torch::manual_seed(7);
    x = torch::randn({kSamples, 16});
    y = torch::randn({kSamples, 8});
  }

  torch::Tensor x, y;  // (samples, 16), (samples, 8)
};

/// The mean loss of `count` samples from `first` on.
torch::Tensor loss_of(Network& network, const Dataset& data, int first, int count) {
  return torch::mse_loss(network.net->forward(data.x.narrow(0, first, count)),
                         data.y.narrow(0, first, count));
}

struct Trained {
  std::vector<ddprun::NamedTensor> parameters;
  torch::Tensor losses = torch::zeros({kEpochs}, torch::kDouble);  // the mean of each epoch
};

Trained train_in_one_process(const Dataset& data) {
  Trained out;
  Network network(/*seed=*/0);
  torch::optim::SGD optimizer(network.parameters(), kLearningRate);
  for (int epoch = 0; epoch < kEpochs; ++epoch) {
    for (int first = 0; first < kSamples; first += kBatch) {
      optimizer.zero_grad();
      const torch::Tensor loss = loss_of(network, data, first, kBatch);
      loss.backward();
      optimizer.step();
      out.losses[epoch] += loss.detach() * kBatch / kSamples;
    }
  }
  out.parameters = ddprun::named_parameters(network);
  return out;
}

Trained train_on_all_ranks(const Dataset& data, ddprun::ProcessGroup& group, const char* name) {
  const ddprun::PluginRegistry registry(ddprun::plugin_search_path({}));
  const auto strategy =
      ddprun::make_strategy(registry, {.kind = ddprun::PluginKind::strategy, .name = name});
  const auto precision =
      ddprun::make_precision(registry, {.kind = ddprun::PluginKind::precision, .name = "fp32"});
  ddprun::OptimizerConfig sgd;
  sgd.name = ddprun::OptimizerKind::sgd;
  sgd.weight_decay = 0;
  Trained out;
  Network network(/*seed=*/group.rank());  // DataParallel gives all ranks what rank 0 has
  ddprun::DataParallel ddp(ddprun::named_parameters(network), group, *strategy, *precision, sgd);

  const int share = kBatch / group.size();
  for (int epoch = 0; epoch < kEpochs; ++epoch) {
    for (int batch = 0; batch < kSamples; batch += kBatch) {
      const int first = batch + group.rank() * share;
      const auto loss = ddp.forward([&] { return loss_of(network, data, first, share); });
      ddp.backward(loss);
      ddp.step(kLearningRate, /*clip_norm=*/0);
      out.losses[epoch] += loss.value() * kBatch / kSamples;
    }
  }
  group.all_reduce(out.losses, ddprun::ReduceOp::avg, "losses").wait();
  out.parameters = ddprun::full_parameters(ddp);
  return out;
}

/// Prints both sides. Returns whether they differ by rounding alone.
bool compare(const Trained& ours, const Trained& expected) {
  bool passed = torch::allclose(ours.losses, expected.losses, /*rtol=*/0, kLargest);
  std::printf("parameter      maximum   mean\n");
  for (std::size_t i = 0; i < expected.parameters.size(); ++i) {
    const ddprun::NamedTensor& parameter = expected.parameters[i];
    const auto difference = (ours.parameters.at(i).tensor - parameter.tensor).abs();
    const auto maximum = difference.max().item<double>();
    const bool equal = maximum <= kLargest;
    passed = passed && equal;
    std::printf("%-13s  %.2e  %.2e  %s\n", parameter.name.c_str(), maximum,
                difference.mean().item<double>(), equal ? "✓" : "✗");
  }
  for (int epoch = 0; epoch < kEpochs; ++epoch) {
    std::printf("epoch %d: loss %.8f data parallel, %.8f in one process\n", epoch + 1,
                ours.losses[epoch].item<double>(), expected.losses[epoch].item<double>());
  }
  return passed;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return std::fprintf(stderr, "usage: correctness_study STRATEGY\n"), 2;
  try {
    const auto info = ddprun::rank_info_from_environment().value_or(ddprun::RankInfo());
    if (kBatch % info.world_size != 0) {
      throw std::invalid_argument("the ranks cannot share a batch of 16 evenly");
    }
    const auto group = ddprun::connect(info, ddprun::CommConfig(), "correctness_study");
    const Dataset data;
    const Trained ours = train_on_all_ranks(data, *group, argv[1]);
    group->shutdown();
    return info.rank == 0 && !compare(ours, train_in_one_process(data)) ? 1 : 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
