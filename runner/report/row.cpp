// Rows to and from result.json.
#include "runner/report/row.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "runner/report/report_statistics.h"
#include "runner/report/utilization.h"

namespace ddprun {

namespace {

using nlohmann::json;

int severity(const std::string& status) {
  if (status == "failed") return 2;
  return status == "control" ? 1 : 0;
}

json summary_json(const Summary& s) {
  return {{"count", s.count}, {"mean", s.mean}, {"std", s.std}, {"median", s.median},
          {"p95", s.p95},     {"min", s.min},   {"max", s.max}, {"ci95", s.ci95}};
}

json statistics_json(const RunStatistics& s) {
  json out;
  for (std::size_t c = 0; c < kTimeColumns.size(); ++c) {
    out[kTimeColumns[c].name] = summary_json(s.columns[c]);
  }
  out["skew_ms"] = summary_json(s.skew_ms());
  for (const Summary& rank : s.rank_step_ms) out["rank_step_ms"].push_back(summary_json(rank));
  out["exposed_share"] = s.exposed_share;
  out["overlapped_share"] = s.overlapped_share;
  out["tokens_per_s"] = s.tokens_per_s;
  out["samples_per_s"] = s.samples_per_s;
  out["bytes_per_step"] = s.bytes_per_step;
  out["collectives_per_step"] = s.collectives_per_step;
  out["loss_first"] = s.loss_first;
  out["loss_last"] = s.loss_last;
  out["skipped_steps"] = s.skipped_steps;
  out["first_step_done_s"] = s.first_step_done_s;
  return out;
}

json proof_json(const Proof& proof) {
  json checks = json::array();
  for (const Check& check : proof.checks) {
    checks.push_back({{"name", check.name}, {"status", check.status}, {"detail", check.detail}});
  }
  return {{"status", proof.status}, {"checks", std::move(checks)}};
}

/// The check with its rank in front, unless all ranks say the same.
Check said_by(const RankResult& rank, const Check& check, const std::vector<RankResult>& ranks) {
  const bool by_all = std::all_of(ranks.begin(), ranks.end(), [&](const RankResult& other) {
    return std::any_of(other.checks.begin(), other.checks.end(), [&](const Check& c) {
      return c.name == check.name && c.status == check.status && c.detail == check.detail;
    });
  });
  if (by_all || check.status == "passed") return check;
  return {check.name, check.status, "rank " + std::to_string(rank.rank) + ": " + check.detail};
}

}  // namespace

Proof summarize_proof(const std::vector<RankResult>& ranks) {
  Proof proof;
  proof.status = "unchecked";
  for (const RankResult& rank : ranks) {
    for (const Check& check : rank.checks) {
      const auto known = std::find_if(proof.checks.begin(), proof.checks.end(),
                                      [&](const Check& c) { return c.name == check.name; });
      if (known == proof.checks.end()) {
        proof.checks.push_back(said_by(rank, check, ranks));
      } else if (severity(check.status) > severity(known->status)) {
        *known = said_by(rank, check, ranks);
      }
    }
  }
  int worst = 0;
  for (const Check& check : proof.checks) worst = std::max(worst, severity(check.status));
  if (!proof.checks.empty()) {
    proof.status = worst == 2 ? "failed" : worst == 1 ? "control" : "passed";
  }
  return proof;
}

std::string divergence(const std::vector<RankResult>& ranks) {
  for (const RankResult& rank : ranks) {
    for (const StepSample& sample : rank.samples) {
      if (std::isfinite(sample.loss)) continue;
      return fmt::format("the loss was {} in step {} on rank {}: a lower optimizer.lr, or clipping",
                         sample.loss, sample.step, rank.rank);
    }
  }
  return {};
}

json to_json(const Row& row) {
  json out = {{"name", row.name},
              {"label", row.label},
              {"status", row.status},
              {"reason", row.reason},
              {"config", row.config},
              {"fingerprint", row.fingerprint},
              {"launcher", row.launcher},
              {"world_size", row.world_size},
              {"emulated", row.emulated},
              {"global_batch", row.global_batch},
              {"context_length", row.context_length},
              {"flops_per_token", row.flops_per_token},
              {"taken_from", row.taken_from},
              {"ranks", json::array()}};
  for (const RankResult& rank : row.ranks) {
    out["ranks"].push_back(to_json(rank));
    out["ranks"].back().erase("topology");  // a file of its own
  }
  if (row.measured()) {
    const auto statistics = compute_statistics(row.ranks, row.global_batch, row.context_length);
    out["statistics"] = statistics_json(statistics);
    const Utilization used = utilization(row, statistics);
    out["statistics"]["tflops"] = used.tflops;
    out["statistics"]["mfu"] = used.mfu ? json(*used.mfu) : json(nullptr);
    if (!used.mfu) out["statistics"]["no_mfu"] = used.refusal;
    out["proof"] = proof_json(summarize_proof(row.ranks));
  }
  return out;
}

Row row_from_json(const json& in) {
  Row row;
  in.at("name").get_to(row.name);
  in.at("label").get_to(row.label);
  in.at("status").get_to(row.status);
  in.at("reason").get_to(row.reason);
  row.config = in.at("config");
  in.at("fingerprint").get_to(row.fingerprint);
  in.at("launcher").get_to(row.launcher);
  in.at("world_size").get_to(row.world_size);
  row.emulated = in.value("emulated", false);
  in.at("global_batch").get_to(row.global_batch);
  in.at("context_length").get_to(row.context_length);
  in.at("flops_per_token").get_to(row.flops_per_token);
  in.at("taken_from").get_to(row.taken_from);
  for (const json& rank : in.at("ranks")) row.ranks.push_back(rank_result_from_json(rank));
  return row;
}

}  // namespace ddprun
