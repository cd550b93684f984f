// The formulas of mesh.h. Times are those of link.h; what is asked of them is found by search.
#include "ddprun/experiments/arithmetic/mesh.h"

#include <algorithm>
#include <cmath>
#include <functional>

namespace ddprun {

namespace {

constexpr double kMostTokens = 1e12, kMostRanks = 1e9;

/// The smallest whole number in [1, most] for which `holds`, which then holds for all above; 0: for
/// none.
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

}  // namespace ddprun
