// Rows to and from result.json.
#include "runner/report/row.h"

#include <algorithm>

#include "ddprun/experiments/kinds.h"
#include "ddprun/result/plain_json.h"
#include "ddprun/result/run_statistics.h"

namespace ddprun {

using nlohmann::json;

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
    if (std::find(kinds.begin(), kinds.end(), row.kind) == kinds.end()) kinds.push_back(row.kind);
  }
  return kinds;
}

json to_json(const Row& row) {
  json out = {{"kind", row.kind == nullptr ? json(nullptr) : json(row.kind->name())},
              {"name", row.name},
              {"label", row.label},
              {"status", row.status},
              {"reason", row.reason},
              {"config", row.config},
              {"fingerprint", row.fingerprint},
              {"repetition", row.repetition},
              {"baseline", row.baseline},
              {"baseline_words", row.baseline_words},
              {"launcher", row.launcher},
              {"world_size", row.world_size},
              {"emulated", row.emulated},
              {"work", row.work},
              {"taken_from", row.taken_from},
              {"ranks", json::array()}};
  for (const RankResult& rank : row.ranks) {
    out["ranks"].push_back(to_json(rank));
    out["ranks"].back().erase("topology");  // a file of its own
  }
  if (row.measured()) {
    out["statistics"] = to_json(RunStatistics(row));
    out["proof"] = summarize_proof(row);
  }
  return out;
}

Row row_from_json(const json& in) {
  Row row;
  row.kind = &kind_named(in.at("kind"));
  in.at("name").get_to(row.name);
  in.at("label").get_to(row.label);
  in.at("status").get_to(row.status);
  in.at("reason").get_to(row.reason);
  row.config = in.at("config");
  in.at("fingerprint").get_to(row.fingerprint);
  in.at("repetition").get_to(row.repetition);
  in.at("baseline").get_to(row.baseline);
  in.at("baseline_words").get_to(row.baseline_words);
  in.at("launcher").get_to(row.launcher);
  in.at("world_size").get_to(row.world_size);
  in.at("emulated").get_to(row.emulated);
  row.work = in.at("work");
  in.at("taken_from").get_to(row.taken_from);
  for (const json& rank : in.at("ranks")) {
    row.ranks.push_back(rank_result_from_json(rank, *row.kind));
  }
  return row;
}

}  // namespace ddprun
