// Operators as lines and sentences.
#include "runner/report/operator_tables.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "ddprun/base/ranges.h"
#include "ddprun/base/text.h"

namespace ddprun {

namespace {

constexpr std::size_t kLongest = 10;

std::string milliseconds(std::int64_t ns) {
  return fmt::format("{:.2f}", static_cast<double>(ns) * 1e-6);
}

std::string percent(double part, double whole) {
  return whole > 0 ? fmt::format("{:.1f}", 100 * part / whole) : "–";
}

std::string millions(double value) { return value > 0 ? fmt::format("{:.2f}", value * 1e-6) : "–"; }

/// Calls f(name, table) for each run that recorded operators.
template <typename F>
void for_recorded(const TableLines& lines, const F& f) {
  const std::vector<std::string> names = run_names(lines);
  for (std::size_t i = 0; i < lines.rows().size(); ++i) {
    const Row& row = lines.rows()[i];
    if (!row.measured() || !row.ranks.front().operators.recorded()) continue;
    f(names[i], row.ranks.front().operators);
  }
}

/// "aten::mm takes 93.05 ms in 29 calls, aten::mul is called most, 38 times": of those that compute
/// or move something, over all parts.
std::string most_words(const OperatorTable& table, bool forward_alone) {
  struct Sum {
    std::int64_t ns = 0, calls = 0;
  };
  std::map<std::string, Sum> sums;  // by operator
  for (const OperatorRow& row : table.rows) {
    if (forward_alone && !row.in_forward()) continue;
    if (row.flops == 0 && row.bytes == 0) continue;
    sums[row.name].ns += row.ns;
    sums[row.name].calls += row.calls;
  }
  if (sums.empty()) return "nothing";
  const auto most = [&sums](std::int64_t Sum::*what) {
    return *std::ranges::max_element(sums, {},
                                     [what](const auto& each) { return each.second.*what; });
  };
  const auto [longest, taken] = most(&Sum::ns);
  const auto [called, times] = most(&Sum::calls);
  return fmt::format("{} takes {} ms in {}, {} is called most, {}", longest, milliseconds(taken.ns),
                     counted(taken.calls, "call"), called, counted(times.calls, "time"));
}

/// Empty: one of the two is not there.
std::string softmax_words(const std::vector<OperatorSum>& sums) {
  const auto softmax = std::ranges::find(sums, OperatorKind::softmax, &OperatorSum::kind);
  const auto products = std::ranges::find(sums, OperatorKind::products, &OperatorSum::kind);
  if (softmax == sums.end() || products == sums.end()) return {};
  return fmt::format(
      "; softmax takes {} % of the matrix products' time in the step, for {} % of their FLOPs",
      percent(static_cast<double>(softmax->ns), static_cast<double>(products->ns)),
      percent(softmax->flops, products->flops));
}

}  // namespace

TextTable operator_table(const TableLines& lines) {
  TextTable out;
  out.columns = {{lines.title(), false}, {"operator", false}, {"phase", false},
                 {"part", false},        {"calls"},           {"ms"},
                 {"% of step"},          {"MFLOP", true, 2},  {"MB", true, 3},
                 {"% of roof", true, 1}};
  for_recorded(lines, [&](const std::string& name, const OperatorTable& table) {
    for (const OperatorRow& row : table.rows | std::views::take(kLongest)) {
      const auto of_roof = table.of_roof(row);
      out.add({name, row.name, row.phase, row.part, row.calls > 0 ? std::to_string(row.calls) : "–",
               milliseconds(row.ns),
               percent(static_cast<double>(row.ns), static_cast<double>(table.step_ns)),
               millions(row.flops), millions(row.bytes),
               of_roof ? fmt::format("{:.0f}", 100 * *of_roof) : "–"});
    }
  });
  return out;
}

TextTable operator_sum_table(const TableLines& lines) {
  TextTable out;
  out.columns = {{lines.title(), false}, {"kind", false}, {"forward ms"}, {"% of time"},
                 {"% of FLOPs"},         {"step ms"},     {"% of time"},  {"% of FLOPs"}};
  for_recorded(lines, [&](const std::string& name, const OperatorTable& table) {
    const std::vector<OperatorSum> sums = table.sums();
    OperatorSum all;
    for (const OperatorSum& sum : sums) all += sum;
    const auto add = [&](const std::string& kind, const OperatorSum& sum) {
      out.add({name, kind, milliseconds(sum.forward_ns),
               percent(static_cast<double>(sum.forward_ns), static_cast<double>(all.forward_ns)),
               percent(sum.forward_flops, all.forward_flops), milliseconds(sum.ns),
               percent(static_cast<double>(sum.ns), static_cast<double>(all.ns)),
               percent(sum.flops, all.flops)});
    };
    for (const OperatorSum& sum : sums) add(name_of(sum.kind), sum);
    add("all", all);
  });
  return out;
}

std::vector<std::string> operator_words(const TableLines& lines) {
  std::vector<std::string> out;
  for_recorded(lines, [&](const std::string& name, const OperatorTable& table) {
    out.push_back(fmt::format("{}: in forward {}; in the step {}{}", name, most_words(table, true),
                              most_words(table, false), softmax_words(table.sums())));
  });
  return out;
}

}  // namespace ddprun
