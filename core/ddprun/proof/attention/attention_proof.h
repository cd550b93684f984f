// Holds a call's results against float64.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "ddprun/proof/attention/attention_trial.h"
#include "ddprun/result/check.h"

namespace ddprun {

/// The largest error of one of the results, relative to the size of an element's terms
/// (attention_oracle.h), and what its errors have in common.
struct ResultError {
  std::string name;           ///< "output", "dq", "dk", "dv"
  double error = 0;           ///< NaN: a value was not a number
  std::string place;          ///< of the largest: "batch 0, head 3, row 17"
  double factor = 1;          ///< of the right result that all of it is, by least squares
  std::int64_t compared = 0;  ///< rows
  std::int64_t rows = 0;      ///< that there are
};

/// What the proof compares. Up to a length of kWhole all rows. Above, kSampled rows of output and
/// dq of all heads, the last one among them; and to a length of kLongestKeys as many of dk and dv,
/// of the last head and three that are drawn, since one key's gradient takes all queries.
struct ProofRows {
  static constexpr std::int64_t kWhole = 2048;
  static constexpr std::int64_t kLongestKeys = 16384;
  static constexpr std::int64_t kSampled = 64;
  std::int64_t whole = kWhole;  ///< up to this length all rows
  std::uint64_t seed = 2048;    ///< of the sampled
};

/// Computes in float64 on the CPU, with torch's threads, whatever device the results are on.
std::vector<ResultError> find_errors(const AttentionConfig& config, const TrialInputs& inputs,
                                     const TrialResults& results, ProofRows rows = {});

/// What rounding may do. `largest`: some tens of the type's rounding, since an attention may round
/// scores, weights and their gradients, and may add up gradients in the type itself. A wrong row
/// has an error of about 1. `factor`: rounding goes both ways and averages out, so this is tight.
struct ErrorBounds {
  double largest = 0;  ///< of ResultError::error
  double factor = 0;   ///< how far ResultError::factor may be from 1

  ErrorBounds times(double by) const { return {largest * by, factor * by}; }
};
ErrorBounds error_bounds(AttentionType type);

Check check_of(const ResultError& error, AttentionType type);

/// Calls the attention, on inputs and with rows drawn from `seed`, which lie as a model's do,
/// and returns what is wrong with its results beyond `bounds`; empty: nothing. Before its backward
/// comes another call, as in a model. `between` is called when the output is there. `first_keys`:
/// as AttentionOptions has it.
std::string find_wrong_attention(const AttentionConfig& config, Attention& attention,
                                 Device& device, const ErrorBounds& bounds, std::uint64_t seed,
                                 const std::function<void()>& between,
                                 const at::Tensor& first_keys = {});

}  // namespace ddprun
