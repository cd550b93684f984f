// Successive halving by real runs: all candidates run a few steps, those that are slower leave, the
// others run twice the steps.
//
// Jamieson and Talwalkar 2016; Li et al. 2018 (Hyperband), section 2. Times are noisy here, so a
// candidate leaves only where its runs tell it from the best; a tie stays.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "ddprun/result/comparison.h"

namespace ddprun {

struct HalvingConfig {
  std::int64_t first_steps = 5;  ///< measured steps of a run in the first round
  std::int64_t full_steps = 80;  ///< no run has more
  std::int64_t turns = 3;        ///< runs of each candidate in a round, all of them in turns
  double limit_s = 600;          ///< no run begins that would probably end later
};

enum class Standing : std::uint8_t {
  left,      ///< nothing tells it from the best, or it is in the better half
  slower,    ///< than the best, beyond noise
  unproved,  ///< it runs because others are held against it, and cannot win
  failed,    ///< of a run: it failed, or was not proved
  untried,   ///< the time would not have done
};
constexpr auto choice_names(Standing) {
  return std::array{"left", "slower", "unproved", "failed", "untried"};
}

struct Contender {
  Standing standing = Standing::left;
  std::string reason = {};  ///< why a run failed
  std::int64_t rounds = 0;  ///< that it came through
  std::map<std::int64_t, double> ms =
      {};  ///< of a step, by turn; turns count from 1 over all rounds
};

struct HalvingRun {
  std::size_t candidate = 0;
  std::int64_t round = 1, turn = 1, steps = 0;
};

struct Measured {
  enum class Status : std::uint8_t { ok, unproved, failed, interrupted } status = Status::ok;
  double ms = 0;            ///< of a step, if it is ok or unproved
  std::string reason = {};  ///< else
};

enum class HalvingEnd : std::uint8_t { one_left, within_noise, time, interrupted, none_left };
constexpr auto choice_names(HalvingEnd) {
  return std::array{"one left", "within noise", "time", "interrupted", "none left"};
}

struct HalvingRound {
  std::int64_t round = 1, steps = 0;
  std::size_t ran = 0;                   ///< candidates that had a run
  std::size_t left = 0;                  ///< behind it
  std::optional<std::size_t> best = {};  ///< of those
  double used_s = 0;                     ///< since the first run began
};

/// What Halving leaves to its user.
struct HalvingTasks {
  std::function<Measured(const HalvingRun&)> measure;
  std::function<double()> used_s;  ///< seconds since the tuning began
  std::function<void(const HalvingRound&)> on_round = [](const HalvingRound&) {};
};

class Halving {
 public:
  /// Candidates come in the order in which they run. `reference`: the one that all are held
  /// against, which therefore runs in each round; nothing: there is none.
  Halving(std::size_t candidates, std::optional<std::size_t> reference, HalvingConfig config);

  /// Until one is left, until a round of full steps tells none from the best, or time is over.
  HalvingEnd run(const HalvingTasks& tasks);

  const std::vector<Contender>& contenders() const { return contenders_; }
  /// The one with the least time of those that are left, over the turns that all of them had;
  /// nothing: none is left, or had a turn.
  std::optional<std::size_t> best() const;
  /// best() if it was shown to be faster than a proved reference, or if there is none; else that.
  std::optional<std::size_t> winner() const;
  /// Of the turns that both had; nothing: they had none together.
  std::optional<Comparison> against(std::size_t candidate, std::size_t base,
                                    int chosen_from = 1) const;
  /// Of the best with the reference, corrected for the number of candidates that it is the best of.
  std::optional<Comparison> claim() const;

 private:
  bool runs(std::size_t candidate) const;
  std::vector<std::size_t> left() const;
  /// That each of them had.
  std::vector<std::int64_t> turns_of(const std::vector<std::size_t>& candidates) const;
  /// Whether the round was cut, and why.
  std::optional<HalvingEnd> play(HalvingRound& round, const HalvingTasks& tasks);
  bool has_time(std::size_t candidate, std::size_t ran, double begin_s, double used_s) const;
  void take(std::size_t candidate, const Measured& measured);
  void leave_out_untried();
  /// Whether one left.
  bool drop_slower();
  std::optional<HalvingEnd> ended(const HalvingRound& round, bool dropped) const;
  bool told_faster(const std::optional<Comparison>& comparison) const;

  std::optional<std::size_t> reference_;
  HalvingConfig config_;
  std::vector<Contender> contenders_;
  std::vector<double> seconds_;  ///< that the last run of each took
  std::int64_t turn_ = 0;        ///< so many began
};

}  // namespace ddprun
