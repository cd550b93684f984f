// The options of the section `arithmetic:`.
#include "ddprun/experiments/arithmetic/arithmetic_config.h"

#include "ddprun/base/options.h"

namespace ddprun {

LinearStack ArithmeticConfig::stack() const {
  return {.d_model = static_cast<double>(d_model),
          .d_ff = static_cast<double>(d_ff),
          .layers = static_cast<double>(layers),
          .matrices = static_cast<double>(matrices)};
}

Mesh ArithmeticConfig::mesh() const {
  return {.data = static_cast<double>(data_ranks),
          .tensor = static_cast<double>(tensor_ranks),
          .data_links = static_cast<double>(data_links),
          .tensor_links = static_cast<double>(tensor_links)};
}

Machine ArithmeticConfig::machine() const {
  return {.flops = tflops * 1e12,
          .link = {.bytes_per_s = link_gb_per_s * 1e9, .latency_s = latency_us * 1e-6},
          .element_bytes = static_cast<double>(element_bytes),
          .asymptotic = asymptotic};
}

void declare_options(Options& o, ArithmeticConfig& c) {
  constexpr double kWidest = 1 << 20, kMostRanks = 1 << 20, kMostLinks = 8;
  o.option("d_model", &c.d_model, "width of a block's stream; must be given",
           {.min = 0, .max = kWidest});
  o.option("d_ff", &c.d_ff, "width within a block; must be given", {.min = 0, .max = kWidest});
  o.option("layers", &c.layers, "blocks; must be given", {.min = 0, .max = 1e6});
  o.option("matrices", &c.matrices, "linear layers of a block; 3: SwiGLU's", {.min = 2, .max = 3});
  o.option("tokens", &c.tokens, "of a batch over all ranks; 0: none is given",
           {.min = 0, .max = 1e12});
  o.option("data_ranks", &c.data_ranks, "over which parameters and batch are sharded (FSDP)",
           {.min = 1, .max = kMostRanks});
  o.option("tensor_ranks", &c.tensor_ranks, "over which each matrix is cut (TP)",
           {.min = 1, .max = kMostRanks});
  o.option("data_links", &c.data_links, "axes of the mesh that FSDP's collectives use",
           {.min = 1, .max = kMostLinks});
  o.option("tensor_links", &c.tensor_links, "axes that TP's use", {.min = 1, .max = kMostLinks});
  o.option("tflops", &c.tflops, "1e12 operations a second of one rank; must be given",
           {.min = 0, .max = 1e9});
  o.option("link_gb_per_s", &c.link_gb_per_s,
           "1e9 bytes a second of one axis, both directions together; must be given",
           {.min = 0, .max = 1e9});
  o.option("latency_us", &c.latency_us, "of a step from neighbour to neighbour",
           {.min = 0, .max = 1e9});
  o.option("element_bytes", &c.element_bytes, "of weights and activations that travel",
           {.min = 1, .max = 8});
  o.option("memory_gb", &c.memory_gb, "1e9 bytes of one rank", {.min = 1e-6, .max = 1e9});
  o.option("sharded_activations", &c.sharded_activations,
           "the part of the activations that is sharded over the ranks", {.min = 0, .max = 1});
  o.option("asymptotic", &c.asymptotic,
           "n - 1 counts as n, and latency as none, as in the Scaling Book");
}

}  // namespace ddprun
