// Rounds, and who comes through.
#include "runner/tune/halving.h"

#include <algorithm>
#include <cmath>

namespace ddprun {

namespace {

/// The geometric mean over `turns`.
double mean_ms(const Contender& of, const std::vector<std::int64_t>& turns) {
  double sum = 0;
  for (const std::int64_t turn : turns) sum += std::log(of.ms.at(turn));
  return std::exp(sum / static_cast<double>(turns.size()));
}

bool told_apart(const std::optional<Comparison>& comparison) {
  return comparison && comparison->p && !comparison->within_noise();
}

}  // namespace

Halving::Halving(std::size_t candidates, std::optional<std::size_t> reference, HalvingConfig config)
    : reference_(reference), config_(config), contenders_(candidates), seconds_(candidates) {
  config_.full_steps = std::max(config_.full_steps, config_.first_steps);
}

bool Halving::runs(std::size_t candidate) const {
  const Standing standing = contenders_[candidate].standing;
  const bool out = standing == Standing::failed || standing == Standing::untried;
  return standing == Standing::left || (reference_ == candidate && !out);
}

std::vector<std::size_t> Halving::left() const {
  std::vector<std::size_t> out;
  for (std::size_t i = 0; i < contenders_.size(); ++i) {
    if (contenders_[i].standing == Standing::left) out.push_back(i);
  }
  return out;
}

std::vector<std::int64_t> Halving::turns_of(const std::vector<std::size_t>& candidates) const {
  std::vector<std::int64_t> turns;
  if (candidates.empty()) return turns;
  for (const auto& [turn, ms] : contenders_[candidates.front()].ms) {
    const auto had = [this, turn = turn](std::size_t each) {
      return contenders_[each].ms.contains(turn);
    };
    if (std::ranges::all_of(candidates, had)) turns.push_back(turn);
  }
  return turns;
}

std::optional<std::size_t> Halving::best() const {
  const std::vector<std::size_t> candidates = left();
  const std::vector<std::int64_t> turns = turns_of(candidates);
  if (turns.empty()) return {};
  return *std::ranges::min_element(
      candidates, {}, [&](std::size_t each) { return mean_ms(contenders_[each], turns); });
}

std::optional<Comparison> Halving::against(std::size_t candidate, std::size_t base,
                                           int chosen_from) const {
  const Contender &a = contenders_[candidate], &b = contenders_[base];
  std::vector<double> own, other;
  for (const std::int64_t turn : turns_of({candidate, base})) {
    own.push_back(a.ms.at(turn));
    other.push_back(b.ms.at(turn));
  }
  if (own.empty()) return {};
  return compare_in_turns(std::move(own), std::move(other), chosen_from);
}

std::optional<Comparison> Halving::claim() const {
  const std::optional<std::size_t> first = best();
  if (!first || !reference_ || first == reference_) return {};
  const auto measured =
      std::ranges::count_if(contenders_, [](const Contender& each) { return !each.ms.empty(); });
  return against(*first, *reference_, static_cast<int>(measured) - 1);
}

bool Halving::told_faster(const std::optional<Comparison>& comparison) const {
  return told_apart(comparison) && comparison->ratio < 1;
}

std::optional<std::size_t> Halving::winner() const {
  const std::optional<std::size_t> first = best();
  if (!reference_ || first == reference_) return first;
  const Standing standing = contenders_[*reference_].standing;
  if (standing == Standing::failed || standing == Standing::unproved) return first;
  if (contenders_[*reference_].ms.empty()) return {};
  return told_faster(claim()) ? first : reference_;
}

bool Halving::has_time(std::size_t candidate, std::size_t ran, double begin_s,
                       double used_s) const {
  if (turn_ > 1) return used_s + seconds_[candidate] <= config_.limit_s;
  if (ran < 2) return used_s < config_.limit_s;  // of one alone nothing can be said
  // So many begin as can have all of their turns, so that something can be said of them.
  const double each_s = (used_s - begin_s) / static_cast<double>(ran);
  const double round_s = each_s * static_cast<double>((ran + 1) * config_.turns);
  return begin_s + round_s <= config_.limit_s;
}

void Halving::take(std::size_t candidate, const Measured& measured) {
  Contender& contender = contenders_[candidate];
  const bool is_reference = reference_ == candidate;
  if (measured.status == Measured::Status::ok || is_reference) contender.ms[turn_] = measured.ms;
  if (measured.status == Measured::Status::ok) return;
  const bool failed = measured.status == Measured::Status::failed || !is_reference;
  contender.standing = failed ? Standing::failed : Standing::unproved;
  contender.reason = measured.reason;
  if (failed) contender.ms.clear();
}

std::optional<HalvingEnd> Halving::play(HalvingRound& round, const HalvingTasks& tasks) {
  const double begin_s = tasks.used_s();
  for (std::int64_t i = 0; i < config_.turns; ++i) {
    ++turn_;
    std::size_t ran = 0;
    for (std::size_t candidate = 0; candidate < contenders_.size(); ++candidate) {
      if (!runs(candidate)) continue;
      const double before_s = tasks.used_s();
      if (!has_time(candidate, ran, begin_s, before_s)) {
        if (turn_ > 1) return HalvingEnd::time;
        contenders_[candidate].standing = Standing::untried;
        continue;
      }
      const Measured measured = tasks.measure({candidate, round.round, turn_, round.steps});
      if (measured.status == Measured::Status::interrupted) return HalvingEnd::interrupted;
      seconds_[candidate] = tasks.used_s() - before_s;
      take(candidate, measured);
      round.ran = std::max(round.ran, ++ran);
    }
  }
  return {};
}

/// Those whose turn had not come when the first round was cut.
void Halving::leave_out_untried() {
  for (Contender& each : contenders_) {
    if (each.standing == Standing::left && each.ms.empty()) each.standing = Standing::untried;
  }
}

bool Halving::drop_slower() {
  const std::optional<std::size_t> first = best();
  if (!first) return false;
  std::vector<std::size_t> candidates = left();
  const std::vector<std::int64_t> turns = turns_of(candidates);
  std::ranges::stable_sort(candidates, [&](std::size_t a, std::size_t b) {
    return mean_ms(contenders_[a], turns) < mean_ms(contenders_[b], turns);
  });
  bool any = false;
  for (std::size_t i = (candidates.size() + 1) / 2; i < candidates.size(); ++i) {
    const auto comparison = against(candidates[i], *first);
    if (!told_apart(comparison) || comparison->ratio < 1) continue;
    contenders_[candidates[i]].standing = Standing::slower;
    any = true;
  }
  return any;
}

std::optional<HalvingEnd> Halving::ended(const HalvingRound& round, bool dropped) const {
  if (round.left == 0) return HalvingEnd::none_left;
  const bool full = round.steps >= config_.full_steps;
  // What is left alone must also show that it is faster than the reference.
  const bool shown =
      !reference_ || best() == reference_ || !runs(*reference_) || told_faster(claim());
  if (round.left == 1 && (shown || full)) return HalvingEnd::one_left;
  if (full && !dropped) return HalvingEnd::within_noise;
  return {};
}

HalvingEnd Halving::run(const HalvingTasks& tasks) {
  HalvingRound round{.steps = std::min(config_.first_steps, config_.full_steps)};
  while (true) {
    round.ran = 0;
    const std::optional<HalvingEnd> cut = play(round, tasks);
    leave_out_untried();
    const bool dropped = drop_slower();
    for (const std::size_t each : left()) contenders_[each].rounds += cut ? 0 : 1;
    round.left = left().size();
    round.best = best();
    round.used_s = tasks.used_s();
    tasks.on_round(round);
    if (cut) return *cut;
    if (const auto end = ended(round, dropped)) return *end;
    ++round.round;
    round.steps = std::min(2 * round.steps, config_.full_steps);
  }
}

}  // namespace ddprun
