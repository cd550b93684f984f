// What a step called: operators with their own times, operations and bytes.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "ddprun/base/choice.h"

namespace ddprun {

/// What an operator is for. Each row of a table is of one kind.
enum class OperatorKind : std::uint8_t {
  products,   ///< matrix products, those of attention's scores too
  attention,  ///< by one kernel, with its products and its softmax
  softmax,    ///< attention's
  norm,
  activation,
  rope,
  loss,
  elementwise,  ///< sums, masks and copies in attention and of the residual stream
  optimizer,
  communication,  ///< waiting, and what is done around it
  other,          ///< views, copies, look-ups, autograd's nodes
  between,        ///< within the step, and in no operator
  recording,      ///< what recording took
};
constexpr auto choice_names(OperatorKind) {
  return std::array{"matrix products",
                    "attention kernel",
                    "softmax",
                    "norm",
                    "activation",
                    "rope",
                    "loss",
                    "elementwise",
                    "optimizer",
                    "communication",
                    "other",
                    "between operators",
                    "recording"};
}

/// All calls of one operator from one place with one type of operands.
struct OperatorRow {
  std::string phase = {};  ///< "forward", "forward again" (recomputed in backward), "backward" ...
  std::string unit = {};   ///< "layers" (of all blocks), "head", "token_embeddings"; empty: none
  std::string part = {};   ///< "qkv", "norm", "attention scores", "softmax" ...; empty: not known
  std::string name = {};   ///< "aten::mm", "ddprun::product", "between operators"
  std::string dtype = {};  ///< of the first operand of floating-point numbers; empty: there is none
  std::int64_t calls = 0;
  std::int64_t ns = 0;  ///< without the operators that it calls
  double flops = 0;     ///< likewise
  double bytes = 0;     ///< likewise: each tensor that it is given or returns once

  OperatorKind kind() const;
  bool in_forward() const;  ///< not in one that backward repeats
};

inline constexpr const char* kBetweenOperators = "between operators";
inline constexpr const char* kRecording = "recording";

/// What the machine reaches on the threads of the rank.
struct Roofline {
  std::map<std::string, double> product_flops = {};  ///< by dtype, operations a second
  double copy_bytes = 0;                             ///< read and written, a second
};

/// What one kind has of a forward and of the whole step.
struct OperatorSum {
  OperatorKind kind = OperatorKind::other;
  std::int64_t forward_ns = 0, ns = 0;
  double forward_flops = 0, flops = 0;

  OperatorSum& operator+=(const OperatorSum& other);
};

/// Of one step. The rows' times sum to the step's.
struct OperatorTable {
  std::int64_t step_ns = 0;
  std::vector<OperatorRow> rows = {};  ///< the longest first
  Roofline roofline = {};

  bool recorded() const { return !rows.empty(); }
  /// The time that the roofline allows for the row's operations and bytes / its own. Nothing, if
  /// it has neither, or no product rate of its dtype is known. Above 1 where caches hold its
  /// tensors.
  std::optional<double> of_roof(const OperatorRow& row) const;
  /// Of each kind that there is, in the order of OperatorKind.
  std::vector<OperatorSum> sums() const;
};

/// The name of its file in a row's folder.
inline constexpr const char* kOperatorFile = "operators.csv";
/// A line a row. `share`: of the step's time; `of_roof` is empty where of_roof() has nothing.
std::string operators_csv(const OperatorTable& table);

}  // namespace ddprun
