// Kinds of operators, their sums, the roofline, and the file.
#include "ddprun/profile/operator_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "ddprun/measure/phase.h"

namespace ddprun {

namespace {

constexpr std::array<std::pair<const char*, OperatorKind>, 6> kKindsOfParts = {{
    {"norm", OperatorKind::norm},
    {"activation", OperatorKind::activation},
    {"rope", OperatorKind::rope},
    {"loss", OperatorKind::loss},
    {"residual", OperatorKind::elementwise},
    {"attention", OperatorKind::elementwise},
}};

OperatorKind kind_of_part(const OperatorRow& row) {
  const auto found =
      std::ranges::find(kKindsOfParts, row.part, &std::pair<const char*, OperatorKind>::first);
  return found == kKindsOfParts.end() ? OperatorKind::other : found->second;
}

}  // namespace

bool OperatorRow::in_forward() const { return phase == to_string(Phase::forward); }

OperatorKind OperatorRow::kind() const {
  if (name == kRecording) return OperatorKind::recording;
  if (name == kBetweenOperators) {
    return phase == to_string(Phase::synchronize) ? OperatorKind::communication
                                                  : OperatorKind::between;
  }
  if (phase == to_string(Phase::optimizer) || part == "optimizer") return OperatorKind::optimizer;
  if (part == "softmax" || name.starts_with("aten::_softmax")) return OperatorKind::softmax;
  if (part == "attention" && name.find("ttention") != std::string::npos) {
    return OperatorKind::attention;
  }
  if (flops > 0) return OperatorKind::products;
  if (part == "final product") return OperatorKind::elementwise;
  return kind_of_part(*this);
}

std::optional<double> OperatorTable::of_roof(const OperatorRow& row) const {
  if (row.ns == 0 || (row.flops == 0 && row.bytes == 0)) return {};
  double seconds = roofline.copy_bytes > 0 ? row.bytes / roofline.copy_bytes : 0;
  const OperatorKind kind = row.kind();
  if (kind == OperatorKind::products || kind == OperatorKind::attention) {
    const auto rate = roofline.product_flops.find(row.dtype);
    if (rate == roofline.product_flops.end()) return {};
    seconds = std::max(seconds, row.flops / rate->second);
  }
  return seconds / (static_cast<double>(row.ns) * 1e-9);
}

OperatorSum& OperatorSum::operator+=(const OperatorSum& other) {
  forward_ns += other.forward_ns;
  ns += other.ns;
  forward_flops += other.forward_flops;
  flops += other.flops;
  return *this;
}

std::vector<OperatorSum> OperatorTable::sums() const {
  std::vector<OperatorSum> all(kChoiceNames<OperatorKind>.size());
  for (const OperatorRow& row : rows) {
    OperatorSum own = {.kind = row.kind(), .ns = row.ns, .flops = row.flops};
    if (row.in_forward()) {
      own.forward_ns = row.ns;
      own.forward_flops = row.flops;
    }
    OperatorSum& sum = all[static_cast<std::size_t>(own.kind)];
    sum.kind = own.kind;
    sum += own;
  }
  std::erase_if(all, [](const OperatorSum& sum) { return sum.ns == 0; });
  return all;
}

std::string operators_csv(const OperatorTable& table) {
  std::string out = "phase,unit,part,operator,dtype,kind,calls,ms,share,flops,bytes,of_roof\n";
  for (const OperatorRow& row : table.rows) {
    const auto of_roof = table.of_roof(row);
    out += fmt::format("{},{},{},{},{},{},{},{:.6f},{:.6f},{:.0f},{:.0f},{}\n", row.phase, row.unit,
                       row.part, row.name, row.dtype, name_of(row.kind()), row.calls,
                       static_cast<double>(row.ns) * 1e-6,
                       static_cast<double>(row.ns) / static_cast<double>(table.step_ns), row.flops,
                       row.bytes, of_roof ? fmt::format("{:.4f}", *of_roof) : "");
  }
  return out;
}

}  // namespace ddprun
