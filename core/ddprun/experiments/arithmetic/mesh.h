// The memory, the computation and the communication of a stack of linear layers on a mesh of data
// and tensor parallelism, on paper: CS336's arithmetic (assignment 2, communication accounting).
#pragma once

#include <cstdint>

#include "ddprun/comm/group/link.h"

namespace ddprun {

class Options;

/// `layers` blocks of `matrices` linear layers between d_model and d_ff, and nothing else.
struct LinearStack {
  double d_model = 0, d_ff = 0, layers = 0, matrices = 0;

  double parameters() const { return layers * matrices * d_model * d_ff; }
  /// Elements that backward needs of `tokens`: what enters each block, and its last matrix.
  double activations(double tokens) const;
};

/// `data` x `tensor` ranks: parameters are sharded over both (FSDP over `data`), activations of a
/// token over `tensor`. `data_links`, `tensor_links`: the mesh's axes that each may use.
struct Mesh {
  double data = 1, tensor = 1;
  double data_links = 1, tensor_links = 1;

  double ranks() const { return data * tensor; }
};

struct Machine {
  double flops = 0;          ///< operations a second of one rank
  Link link = {};            ///< of one axis
  double element_bytes = 2;  ///< of what travels
  /// Whether n - 1 counts as n, as in the Scaling Book; then latency counts as none.
  bool asymptotic = false;
};

/// Bytes of all ranks together: float32 masters, gradients and two moments, 16 a parameter.
double state_bytes(const LinearStack& stack);

/// Bytes of one of `ranks`: of the state its part, of `activations` bytes the part of `sharded`,
/// and the rest whole.
double sharded_bytes(double state, double activations, double sharded, double ranks);
/// The fewest ranks whose part is below `memory` bytes; 0: no number is enough.
double fewest_ranks(double state, double activations, double sharded, double memory);

/// Seconds of one forward of all layers. A backward takes twice each, and is bound alike.
struct ForwardTimes {
  double compute = 0;
  double data = 0;    ///< FSDP's all-gather of the weights
  double tensor = 0;  ///< all-gather and reduce-scatter of the activations
  /// All of them at a time, or one after another.
  double overlapped() const;
  double in_turn() const { return compute + data + tensor; }
};
/// `tokens`: of all ranks.
ForwardTimes forward_times(const LinearStack& stack, const Mesh& mesh, const Machine& machine,
                           double tokens);

/// The fewest tokens of a rank's share (tokens / ranks()) with which no communication takes longer
/// than the computation. 0: no number is enough, as tensor parallelism is bound by its own width.
double least_tokens_a_rank(const LinearStack& stack, const Mesh& mesh, const Machine& machine);
/// The same, by the Scaling Book's formula C / (W M_data tensor), for tensor < M_tensor d_ff W / C;
/// asymptotic.
double least_tokens_by_formula(const LinearStack& stack, const Mesh& mesh, const Machine& machine);
/// The fewest, if data x tensor may be chosen: (C / W)^2 / (M_data M_tensor d_ff); asymptotic.
double least_tokens_of_any_mesh(const LinearStack& stack, const Mesh& mesh, const Machine& machine);
/// The most ranks of `data` with which a batch of `tokens` is not bound by communication; 0: none.
double most_data_ranks(const LinearStack& stack, Mesh mesh, const Machine& machine, double tokens);

/// What is computed: the YAML section `arithmetic:`.
struct ArithmeticConfig {
  std::int64_t d_model = 0, d_ff = 0, layers = 0;
  std::int64_t matrices = 2;
  std::int64_t tokens = 0;  ///< of all ranks; 0: what the rest is asked for
  std::int64_t data_ranks = 1, tensor_ranks = 1;
  std::int64_t data_links = 1, tensor_links = 1;
  double tflops = 0;
  double link_gb_per_s = 0;
  double latency_us = 0;
  std::int64_t element_bytes = 2;
  double memory_gb = 80;
  double sharded_activations = 1;
  bool asymptotic = false;

  LinearStack stack() const;
  Mesh mesh() const;
  Machine machine() const;
};

void declare_options(Options& options, ArithmeticConfig& config);

}  // namespace ddprun
