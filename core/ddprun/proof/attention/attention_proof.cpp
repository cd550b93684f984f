// Draws rows, computes them in float64, and compares.
#include "ddprun/proof/attention/attention_proof.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/tensor.h>
#include <c10/core/InferenceMode.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <optional>
#include <set>

#include "ddprun/base/counter_hash.h"
#include "ddprun/base/text.h"
#include "ddprun/proof/attention/attention_oracle.h"

namespace ddprun {

namespace {

using RowsOfHeads = std::map<std::int64_t, at::Tensor>;  // head -> rows, int64, ascending

constexpr std::int64_t kHeadsOfKeys = 4;  // a key's gradients take all queries
/// By it scores are as large as 20, and a softmax as sharp as trained heads have it. In float32 on
/// the CPU: rounding to fewer bits, as of a GPU's products, makes something else of such scores.
constexpr double kLargeQueries = 6;
/// How much more rounding makes of a softmax of these.
constexpr double kOfLarge = 3;

std::int64_t drawn_below(std::int64_t end, std::uint64_t seed, std::uint64_t counter) {
  return static_cast<std::int64_t>(counter_hash(seed, counter) % static_cast<std::uint64_t>(end));
}

/// So many of the heads or, if there are no more, all; the last among them. Ascending.
std::vector<std::int64_t> draw_heads(std::int64_t heads, std::int64_t count, std::uint64_t seed) {
  std::set<std::int64_t> drawn = {heads - 1};
  const auto wanted = static_cast<std::size_t>(std::min(heads, count));
  for (std::uint64_t i = 0; drawn.size() < wanted; ++i) drawn.insert(drawn_below(heads, ~seed, i));
  return {drawn.begin(), drawn.end()};
}

RowsOfHeads all_rows(const std::vector<std::int64_t>& heads, std::int64_t length) {
  RowsOfHeads rows;
  for (const std::int64_t head : heads) rows[head] = at::arange(length);
  return rows;
}

/// Rows of these heads, the last row of the last one among them.
RowsOfHeads draw_rows(const std::vector<std::int64_t>& heads, std::int64_t length,
                      std::uint64_t seed) {
  const std::int64_t count = std::ssize(heads);
  if (count * length <= ProofRows::kSampled) return all_rows(heads, length);
  std::set<std::pair<std::int64_t, std::int64_t>> drawn = {{heads.back(), length - 1}};
  for (std::uint64_t i = 0; drawn.size() < ProofRows::kSampled; ++i) {
    drawn.emplace(heads[drawn_below(count, seed, 2 * i)], drawn_below(length, seed, 2 * i + 1));
  }
  std::map<std::int64_t, std::vector<std::int64_t>> by_head;
  for (const auto& [head, row] : drawn) by_head[head].push_back(row);
  RowsOfHeads rows;
  for (const auto& [head, own] : by_head) rows[head] = at::tensor(own);
  return rows;
}

/// One of the results, and the errors of it so far.
class ComparedResult {
 public:
  ComparedResult(const char* name, const at::Tensor& result) : result_(result) {
    error_.name = name;
    error_.rows = result.size(0) * result.size(1) * result.size(2);
  }

  /// `rows`: (rows,). Loops, since operators on so few rows take longer to call than to run.
  void compare(std::int64_t head, const at::Tensor& rows, const OracleRows& right) {
    const std::int64_t heads = result_.size(1);
    const at::Tensor own = result_[head / heads][head % heads].cpu().index_select(0, rows);
    const at::Tensor wide = own.to(at::kDouble);
    const auto got = wide.accessor<double, 2>(), expected = right.value.accessor<double, 2>();
    const auto units = right.unit.accessor<double, 1>();
    for (std::int64_t row = 0; row < got.size(0); ++row) {
      const double unit = std::max(units[row], kTiny);
      double off = 0;
      for (std::int64_t i = 0; i < got.size(1); ++i) {
        const double right_one = expected[row][i] / unit;
        const double one = got[row][i] / unit - right_one;
        if (!(std::abs(one) <= off) && !std::isnan(off)) off = std::abs(one);  // a NaN stays
        along_ += one * right_one;
        squares_ += right_one * right_one;
      }
      enter(off, head, rows.const_data_ptr<std::int64_t>()[row]);
    }
    error_.compared += rows.size(0);
    error_.factor = 1 + along_ / squares_;
  }

  const ResultError& error() const { return error_; }

 private:
  static constexpr double kTiny = 1e-300;  // a sum of nothing has no size, and must be 0
  /// As if so many squared units of it were known to be right: a few may be off together by chance.
  static constexpr double kKnown = 16;

  void enter(double error, std::int64_t head, std::int64_t row) {
    const bool larger = std::isnan(error) || error > error_.error || error_.place.empty();
    if (std::isnan(error_.error) || !larger) return;
    const std::int64_t heads = result_.size(1);
    error_.error = error;
    error_.place = fmt::format("batch {}, head {}, row {}", head / heads, head % heads, row);
  }

  at::Tensor result_;
  ResultError error_;
  double along_ = 0, squares_ = kKnown;  // of errors with what is right, and of what is right
};

/// What is compared of one call.
class Comparison {
 public:
  Comparison(const AttentionConfig& config, const TrialInputs& inputs, const TrialResults& results,
             ProofRows rows)
      : config_(config), inputs_(inputs), results_(results), rows_(rows) {}

  std::vector<ResultError> queries() const {
    const std::int64_t length = config_.sizes().queries;
    ComparedResult out("output", results_.out);
    std::optional<ComparedResult> dq, alone;
    if (config_.backward()) dq.emplace("dq", results_.dq);
    if (results_.alone.defined()) alone.emplace("output without gradients", results_.alone);
    for (const auto& [head, rows] : rows_of(heads(), length)) {
      const OracleQueries right = oracle_of_queries(inputs_of(head), rows);
      out.compare(head, rows, right.out);
      if (dq) dq->compare(head, rows, right.dq);
      if (alone) alone->compare(head, rows, right.out);
    }
    std::vector<ResultError> errors = {out.error()};
    if (dq) errors.push_back(dq->error());
    if (alone) errors.push_back(alone->error());
    return errors;
  }

  std::vector<ResultError> keys() const {
    if (!config_.backward() || longest() > ProofRows::kLongestKeys) return {};
    const std::int64_t length = config_.sizes().keys;
    ComparedResult dk("dk", results_.dk);
    ComparedResult dv("dv", results_.dv);
    for (const auto& [head, rows] : rows_of(kHeadsOfKeys, length)) {
      const OracleKeys right = oracle_of_keys(inputs_of(head), rows);
      dk.compare(head, rows, right.dk);
      dv.compare(head, rows, right.dv);
    }
    return {dk.error(), dv.error()};
  }

 private:
  std::int64_t heads() const { return config_.batch * config_.heads; }
  std::int64_t longest() const { return std::max(config_.sizes().queries, config_.sizes().keys); }

  /// What is compared: up to a length of rows_.whole everything, else rows of `drawn` heads.
  RowsOfHeads rows_of(std::int64_t drawn, std::int64_t length) const {
    const bool whole = longest() <= rows_.whole;
    const auto of_heads = draw_heads(heads(), whole ? heads() : drawn, rows_.seed);
    return whole ? all_rows(of_heads, length) : draw_rows(of_heads, length, rows_.seed);
  }

  HeadInputs inputs_of(std::int64_t head) const {
    const auto wide = [&](const at::Tensor& x) {
      return x.defined() ? x[head / config_.heads][head % config_.heads].cpu().to(at::kDouble) : x;
    };
    HeadInputs of_head = {wide(inputs_.q), wide(inputs_.k), wide(inputs_.v), wide(inputs_.dout),
                          config_.causal};
    if (inputs_.first_keys.defined()) {
      of_head.first_keys = inputs_.first_keys[head / config_.heads].cpu();
    }
    return of_head;
  }

  const AttentionConfig& config_;
  const TrialInputs& inputs_;
  const TrialResults& results_;
  const ProofRows rows_;
};

std::string find_wrong(const ResultError& of, const ErrorBounds& bounds) {
  if (!(of.error <= bounds.largest)) {
    return fmt::format("{} is off by {:.2g} ({}), {:.2g} is allowed", of.name, of.error, of.place,
                       bounds.largest);
  }
  if (std::abs(of.factor - 1) <= bounds.factor) return {};
  return fmt::format("{} is {:.7g} times the right one, all rows together, {:.2g} off 1 is allowed",
                     of.name, of.factor, bounds.factor);
}

}  // namespace

std::vector<ResultError> find_errors(const AttentionConfig& config, const TrialInputs& inputs,
                                     const TrialResults& results, ProofRows rows) {
  const c10::InferenceMode no_autograd;
  const Comparison comparison(config, inputs, results, rows);
  std::vector<ResultError> errors = comparison.queries();
  for (ResultError& error : comparison.keys()) errors.push_back(std::move(error));
  return errors;
}

ErrorBounds error_bounds(AttentionType type) {
  // The factors of eager, sdpa and flash, on a CPU, of 1 to 16,384 queries and keys, were off by
  // 4e-7 (large queries: 4e-6), 0.0025 and 0.0004 at most; TF32 that cuts bits, simulated, by
  // 0.002.
  constexpr std::array<ErrorBounds, 3> kBounds = {{{2e-5, 4e-6}, {0.25, 0.008}, {0.05, 0.006}}};
  return kBounds.at(static_cast<std::size_t>(type));  // float32, bfloat16, float16 and TF32
}

Check check_of(const ResultError& error, AttentionType type) {
  const ErrorBounds bounds = error_bounds(type);
  const std::string rows = error.compared == error.rows ? all_counted(error.rows, "row")
                                                        : fmt::format("{} of {}", error.compared,
                                                                      counted(error.rows, "row"));
  return make_check(
      error.name, find_wrong(error, bounds).empty(),
      fmt::format("{} compared with float64, largest error {:.2g} ({}), allowed {:.2g}; all "
                  "together {:.7g} times the right ones, allowed {:.2g} off 1",
                  rows, error.error, error.place, bounds.largest, error.factor, bounds.factor));
}

std::string find_wrong_attention(const AttentionConfig& config, Attention& attention,
                                 Device& device, const ErrorBounds& bounds, std::uint64_t seed,
                                 const std::function<void()>& between,
                                 const at::Tensor& first_keys) {
  AttentionTrial trial(config, attention, device, seed, TrialLayout::by_token, first_keys);
  const bool large = seed % 2 == 1 && device.torch_device().is_cpu() &&
                     bounds.largest <= error_bounds(AttentionType::float32).largest;
  if (large) trial.scale_queries(kLargeQueries);
  TrialMarks marks;
  at::Tensor alone;
  TrialResults results = trial.run(marks, [&] {
    trial.call_next_layer();
    alone = trial.output_alone();
    if (between) between();
  });
  results.alone = alone;
  for (const ResultError& each :
       find_errors(config, trial.inputs(), results, {.whole = 0, .seed = seed})) {
    std::string wrong = find_wrong(each, large ? bounds.times(kOfLarge) : bounds);
    if (!wrong.empty()) return wrong;
  }
  return {};
}

}  // namespace ddprun
