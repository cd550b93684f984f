// How much products compute, counted where they have no values to compute with.
#pragma once

#include <algorithm>
#include <atomic>

namespace ddprun::kernels {

/// Operations (a multiplication and an addition are two) of products whose tensors are of device
/// meta, in this process so far. They are counted in the place of being computed. Any thread.
inline std::atomic<double>& dry_operations() {
  static std::atomic<double> count = 0;
  return count;
}

/// Pairs of a query and a key that it sees, of one head. Causal: all keys before the queries, and
/// half of the square that is left.
inline double visible_pairs(double queries, double keys, bool causal) {
  if (!causal) return queries * keys;
  const double square = std::min(queries, keys);
  return square * square / 2 + (queries - square) * keys;
}

}  // namespace ddprun::kernels
