// `ddprun data`: which tokens of which file each rank reads in a step.
#include <fmt/format.h>

#include <algorithm>
#include <iostream>

#include "ddprun/base/error.h"
#include "ddprun/base/text.h"
#include "runner/command/commands.h"
#include "runner/launch/plan.h"
#include "runner/report/text_table.h"

namespace ddprun {

namespace {

constexpr int kTextCharacters = 40;

/// The first characters of a text, escaped, in quotes.
std::string begin_of(const std::string& text) {
  std::size_t at = 0;
  for (int i = 0; i < kTextCharacters && at < text.size(); ++i) {
    at += utf8_character(text, at).bytes.size();
  }
  return "\"" + printable_line(text.substr(0, at)) + "\"";
}

std::vector<SampleRead> reads_of(const PlannedFile& plan, const PlannedRun& run,
                                 std::int64_t step) {
  if (auto reads = run.experiment.kind->reads(run.experiment, step)) return std::move(*reads);
  throw ConfigError({.what = "this kind of experiment reads no data",
                     .where = plan.file.string(),
                     .got = "experiment " + run.experiment.kind->name(),
                     .expected = "an experiment that trains",
                     .hint = "`ddprun validate -v` shows what the file says"});
}

std::string table_of(const std::vector<SampleRead>& reads) {
  const bool text =
      std::ranges::any_of(reads, [](const auto& each) { return !each.bytes.empty(); });
  const bool documents = std::ranges::any_of(reads, &SampleRead::documents);
  TextTable table;
  table.columns = {{"rank"}, {"micro-batch"}, {"sample"}};
  if (documents) table.columns.insert(table.columns.end(), {{"documents"}, {"targets"}});
  table.columns.push_back({"tokens", false});
  if (text) table.columns.push_back({"begins", false});
  for (const SampleRead& each : reads) {
    std::vector<std::string> cells = {std::to_string(each.rank), std::to_string(each.micro_batch),
                                      std::to_string(each.sample)};
    if (documents) {
      cells.push_back(std::to_string(each.documents));
      cells.push_back(std::to_string(each.targets));
    }
    cells.push_back(printable_line(each.place));
    if (text) cells.push_back(begin_of(each.bytes));
    table.add(cells);
  }
  return table.render(0, false);
}

}  // namespace

int data_command(const Request& request) {
  PlanCache cache;
  for (const auto& file : collect_files(request.paths).files) {
    const PlannedFile plan =
        plan_file(file, {request.overrides, request.plugin_paths, request.output, 0}, cache);
    if (!plan.error.empty()) {
      std::cerr << "error: " << plan.error << "\n";
      return kExitUsage;
    }
    for (const PlannedRun& run : plan.runs) {
      const std::string table = table_of(reads_of(plan, run, request.step));
      const std::string& label = run.experiment.label;
      std::cout << fmt::format("{}{}: step {}\n", plan.name, label.empty() ? "" : " " + label,
                               request.step)
                << table;
    }
  }
  return kExitDone;
}

}  // namespace ddprun
