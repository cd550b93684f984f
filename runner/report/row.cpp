// Rows to and from result.json.
#include "runner/report/row.h"

#include "ddprun/base/json.h"
#include "ddprun/base/ranges.h"
#include "ddprun/base/text.h"
#include "ddprun/experiments/kinds.h"
#include "ddprun/result/plain_json.h"
#include "ddprun/result/run_load.h"
#include "ddprun/result/run_statistics.h"

namespace ddprun {

using nlohmann::json;

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Restarts, reasons, steps_again, useful_s, all_s)

bool met_memory_limit(const Row& row) {
  return row.status == RowStatus::out_of_memory &&
         row.config.at("world").at("memory_limit_gb").get<double>() > 0;
}

void judge(Row& row) {
  row.status = RowStatus::ok;
  row.reason.clear();
  for (const Check& check : summarize_proof(row).checks) {
    if (check.status != CheckStatus::failed) continue;
    row.status = RowStatus::proof_failed;
    row.reason = check.name + ": " + check.detail;
    return;
  }
  row.reason = divergence(row);
  if (!row.reason.empty()) row.status = RowStatus::diverged;
}

std::vector<const ExperimentKind*> kinds_of(const std::vector<Row>& rows) {
  std::vector<const ExperimentKind*> kinds;
  for (const Row& row : rows) {
    if (row.kind == nullptr) continue;
    if (!contains(kinds, row.kind)) kinds.push_back(row.kind);
  }
  return kinds;
}

namespace {

/// Calls visit(key, field) for what stands in JSON as it is.
template <class AnyRow, class Visit>
void for_plain_fields(AnyRow& row, const Visit& visit) {
  visit("name", row.name);
  visit("label", row.label);
  visit("status", row.status);
  visit("reason", row.reason);
  visit("config", row.config);
  visit("fingerprint", row.fingerprint);
  visit("repetition", row.repetition);
  visit("round", row.round);
  visit("baseline", row.baseline);
  visit("baseline_words", row.baseline_words);
  visit("conditions", row.conditions);
  visit("occasion", row.occasion);
  visit("world_size", row.world_size);
  visit("emulated", row.emulated);
  visit("work", row.work);
  visit("taken_from", row.taken_from);
}

}  // namespace

void write_row_json(const Row& row, const TextSink& sink) {
  json out = {{"kind", row.kind == nullptr ? json(nullptr) : json(row.kind->name())}};
  for_plain_fields(row, [&out](const char* key, const auto& field) { out[key] = field; });
  if (row.predicted) out["predicted"] = to_json(*row.predicted);
  if (!row.restarts.reasons.empty()) {
    out["restarts"] = row.restarts;
    out["restarts"]["ettr"] = row.restarts.ettr();
  }
  if (row.measured()) {
    out["statistics"] = to_json(RunStatistics(row));
    out["proof"] = summarize_proof(row);
    out["load"] = to_json(load_of(row));
  }
  std::string text = json_text(out);
  text.back() = ',';  // the ranks go on
  sink(text + "\"ranks\":[");
  for (std::size_t i = 0; i < row.ranks.size(); ++i) {
    json rank = to_json(row.ranks[i]);
    rank.erase("topology");  // a file of its own
    sink((i == 0 ? "" : ",") + json_text(rank));
  }
  sink("]}");
}

Row row_from_json(const json& in) {
  Row row;
  row.kind = &kind_named(in.at("kind"));
  for_plain_fields(row, [&in](const char* key, auto& field) { in.at(key).get_to(field); });
  for (std::string* words : {&row.name, &row.label, &row.reason}) *words = printable(*words);
  if (in.contains("restarts")) in.at("restarts").get_to(row.restarts);
  if (in.contains("predicted")) row.predicted = account_from_json(in.at("predicted"));
  for (const json& rank : in.at("ranks")) {
    row.ranks.push_back(rank_result_from_json(rank, *row.kind));
  }
  return row;
}

}  // namespace ddprun
