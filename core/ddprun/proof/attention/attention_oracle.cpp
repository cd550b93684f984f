// Queries go by in chunks, each with the keys that it sees.
#include "ddprun/proof/attention/attention_oracle.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <vector>

namespace ddprun {

namespace {

/// Scores of a chunk: 32 MB in float64.
constexpr std::int64_t kChunkScores = std::int64_t{1} << 22;

/// A chunk of queries. All matrices are (queries, visible keys).
struct Chunk {
  at::Tensor q, dout;        // (queries, width)
  std::int64_t visible = 0;  // keys that one of the queries sees: the first ones
  at::Tensor p;              // weights
  at::Tensor ds;             // gradients of q k^T
  at::Tensor ds_size;        // the size of the terms of ds
};

double scale_of(const HeadInputs& head) {
  return 1 / std::sqrt(static_cast<double>(head.q.size(1)));
}

Chunk chunk_of(const HeadInputs& head, const at::Tensor& index) {
  Chunk chunk;
  const std::int64_t keys = head.k.size(0);
  const std::int64_t last = index[index.size(0) - 1].item<std::int64_t>();
  chunk.visible = head.causal ? std::min(keys, last + 1) : keys;
  chunk.q = head.q.index_select(0, index);
  at::Tensor scores = at::mm(chunk.q * scale_of(head), head.k.narrow(0, 0, chunk.visible).t());
  const auto hide = [&](const at::Tensor& hidden) {
    scores.masked_fill_(hidden, -std::numeric_limits<double>::infinity());
  };
  const at::Tensor places = at::arange(chunk.visible);
  if (head.causal) hide(places > index.unsqueeze(1));
  if (head.first_keys.defined()) hide(places < head.first_keys.index_select(0, index).unsqueeze(1));
  chunk.p = at::softmax(scores, -1);
  if (!head.dout.defined()) return chunk;
  chunk.dout = head.dout.index_select(0, index);
  const at::Tensor dp = at::mm(chunk.dout, head.v.narrow(0, 0, chunk.visible).t());
  const at::Tensor mean = (chunk.p * dp).sum(1, /*keepdim=*/true);
  chunk.ds = chunk.p * (dp - mean) * scale_of(head);
  // Not |dp|, which is a sum itself and may be small by chance.
  const at::Tensor size =
      at::mm(chunk.dout.square(), head.v.narrow(0, 0, chunk.visible).square().t()).sqrt();
  const at::Tensor mean_size = (chunk.p * size).sum(1, /*keepdim=*/true);
  chunk.ds_size = chunk.p * (size + mean_size) * scale_of(head);
  return chunk;
}

void for_each_chunk(const HeadInputs& head, const at::Tensor& index,
                    const std::function<void(const Chunk&)>& each) {
  const std::int64_t rows = std::max<std::int64_t>(1, kChunkScores / head.k.size(0));
  for (std::int64_t begin = 0; begin < index.size(0); begin += rows) {
    each(chunk_of(head, index.narrow(0, begin, std::min(rows, index.size(0) - begin))));
  }
}

/// The squares of the size of the terms of `weights` times `factors`.
at::Tensor squares(const at::Tensor& weights, const at::Tensor& factors) {
  return at::mm(weights.square(), factors.square());
}

at::Tensor unit_of(const at::Tensor& squares) { return squares.amax(1).sqrt(); }

/// Gathers rows of chunks.
class Rows {
 public:
  void add(const at::Tensor& weights, const at::Tensor& sizes, const at::Tensor& factors) {
    values_.push_back(at::mm(weights, factors));
    units_.push_back(unit_of(squares(sizes, factors)));
  }
  OracleRows all() const {
    return values_.empty() ? OracleRows{} : OracleRows{at::cat(values_), at::cat(units_)};
  }

 private:
  std::vector<at::Tensor> values_, units_;
};

}  // namespace

OracleQueries oracle_of_queries(const HeadInputs& head, const at::Tensor& index) {
  Rows out, dq;
  for_each_chunk(head, index, [&](const Chunk& chunk) {
    out.add(chunk.p, chunk.p, head.v.narrow(0, 0, chunk.visible));
    if (chunk.ds.defined()) dq.add(chunk.ds, chunk.ds_size, head.k.narrow(0, 0, chunk.visible));
  });
  return {out.all(), dq.all()};
}

OracleKeys oracle_of_keys(const HeadInputs& head, const at::Tensor& index) {
  const at::Tensor zeros = at::zeros({index.size(0), head.k.size(1)}, at::kDouble);
  at::Tensor dk = zeros.clone(), dv = zeros.clone();
  at::Tensor dk_squares = zeros.clone(), dv_squares = zeros.clone();
  for_each_chunk(head, at::arange(head.q.size(0)), [&](const Chunk& chunk) {
    const std::int64_t seen = (index < chunk.visible).sum().item<std::int64_t>();
    if (seen == 0) return;  // the index is ascending
    const at::Tensor own = index.narrow(0, 0, seen);
    // (keys, queries)
    const auto columns = [&own](const at::Tensor& x) { return x.index_select(1, own).t(); };
    const at::Tensor p = columns(chunk.p);
    dk.narrow(0, 0, seen) += at::mm(columns(chunk.ds), chunk.q);
    dv.narrow(0, 0, seen) += at::mm(p, chunk.dout);
    dk_squares.narrow(0, 0, seen) += squares(columns(chunk.ds_size), chunk.q);
    dv_squares.narrow(0, 0, seen) += squares(p, chunk.dout);
  });
  return {{dk, unit_of(dk_squares)}, {dv, unit_of(dv_squares)}};
}

}  // namespace ddprun
