// Attention and its gradients in float64, of chosen rows of one head: what results are checked
// against.
#pragma once

#include <ATen/core/Tensor.h>

#include "ddprun/plugin/attention_sizes.h"

namespace ddprun {

/// One head: q and dout (queries, width), k and v (keys, width), float64, on the CPU. dout is
/// undefined if no gradient is wanted. first_keys (queries,): the first key that each query sees,
/// on the CPU; undefined: key 0.
struct HeadInputs {
  at::Tensor q, k, v, dout;
  bool causal = true;
  at::Tensor first_keys = {};
};

/// Rows of a result, (rows, width), and of each the size of its terms: an element is a sum, and
/// `unit`, (rows,), is the root of the sum of their squares, of the element where it is largest.
/// Rounding of the terms leaves an error of the order of unit x precision, whatever cancels.
struct OracleRows {
  at::Tensor value, unit;
};

/// The scale of the scores is 1/sqrt(width).
struct OracleQueries {
  OracleRows out, dq;  ///< dq only with dout
};
/// Of the queries `index`: int64, ascending.
OracleQueries oracle_of_queries(const HeadInputs& head, const at::Tensor& index);

struct OracleKeys {
  OracleRows dk, dv;
};
/// Of the keys `index`: int64, ascending. It goes through all queries, some at a time.
OracleKeys oracle_of_keys(const HeadInputs& head, const at::Tensor& index);

}  // namespace ddprun
