// The formulas of mesh.h. Times are those of link.h; what is asked of them is found by search.
#include "ddprun/experiments/arithmetic/mesh.h"

#include <algorithm>
#include <cmath>
#include <functional>

#include "ddprun/base/options.h"

namespace ddprun {

namespace {

constexpr double kMostTokens = 1e12, kMostRanks = 1e9;

/// The smallest whole number in [1, most] from which on it `holds`; 0: there is none.
double smallest(double most, const std::function<bool(double)>& holds) {
  if (!holds(most)) return 0;
  double below = 0, at = most;
  while (at - below > 1) {
    const double middle = std::floor((below + at) / 2);
    (holds(middle) ? at : below) = middle;
  }
  return at;
}

/// Of an all-gather or a reduce-scatter over one axis.
double slices_s(double bytes, double ranks, double links, const Machine& machine) {
  if (ranks == 1) return 0;
  Link link = machine.link;
  link.bytes_per_s *= links;
  if (machine.asymptotic) return bytes / link.bytes_per_s;
  return collective_s(CollectiveKind::all_gather, bytes, static_cast<int>(ranks), link,
                      Algorithm::alternating_ring);
}

bool computes_longest(const ForwardTimes& times) {
  return times.compute >= std::max(times.data, times.tensor);
}

}  // namespace

double LinearStack::activations(double tokens) const { return layers * tokens * (d_model + d_ff); }

double state_bytes(const LinearStack& stack) { return 16 * stack.parameters(); }

double sharded_bytes(double state, double activations, double sharded, double ranks) {
  return (state + sharded * activations) / ranks + (1 - sharded) * activations;
}

double fewest_ranks(double state, double activations, double sharded, double memory) {
  return smallest(kMostRanks, [&](double ranks) {
    return sharded_bytes(state, activations, sharded, ranks) < memory;
  });
}

double ForwardTimes::overlapped() const { return std::max({compute, data, tensor}); }

ForwardTimes forward_times(const LinearStack& stack, const Mesh& mesh, const Machine& machine,
                           double tokens) {
  const double e = machine.element_bytes;
  const double weights = e * stack.matrices * stack.d_model * stack.d_ff / mesh.tensor;
  const double activations = e * tokens * stack.d_model / mesh.data;
  ForwardTimes times;
  times.compute = 2 * stack.parameters() * tokens / mesh.ranks() / machine.flops;
  times.data = stack.layers * slices_s(weights, mesh.data, mesh.data_links, machine);
  times.tensor = stack.layers * 2 * slices_s(activations, mesh.tensor, mesh.tensor_links, machine);
  return times;
}

double least_tokens_a_rank(const LinearStack& stack, const Mesh& mesh, const Machine& machine) {
  return smallest(kMostTokens, [&](double tokens) {
    return computes_longest(forward_times(stack, mesh, machine, tokens * mesh.ranks()));
  });
}

double least_tokens_by_formula(const LinearStack& stack, const Mesh& mesh, const Machine& machine) {
  const double intensity = machine.flops / machine.link.bytes_per_s;
  // 2 m d f t of computation beside 4 d t of activations in each direction of the block.
  const double width = stack.matrices / 2 * stack.d_ff * mesh.tensor_links;
  if (mesh.tensor > 1 && mesh.tensor > width / intensity * 2 / machine.element_bytes) return 0;
  if (mesh.data == 1) return 1;
  return std::ceil(machine.element_bytes / 2 * intensity / mesh.data_links / mesh.tensor);
}

double least_tokens_of_any_mesh(const LinearStack& stack, const Mesh& mesh,
                                const Machine& machine) {
  const double intensity = machine.element_bytes / 2 * machine.flops / machine.link.bytes_per_s;
  const double width = stack.matrices / 2 * stack.d_ff;
  return intensity * intensity / (mesh.data_links * mesh.tensor_links * width);
}

double most_data_ranks(const LinearStack& stack, Mesh mesh, const Machine& machine, double tokens) {
  const double too_many = smallest(kMostRanks, [&](double data) {
    mesh.data = data;
    return !computes_longest(forward_times(stack, mesh, machine, tokens));
  });
  return too_many == 0 ? kMostRanks : too_many - 1;
}

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
