// When a run checks itself, and what it says of each check.
#include "ddprun/experiments/training/run_proof.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <set>

#include "ddprun/base/counter_hash.h"
#include "ddprun/base/ranges.h"
#include "ddprun/base/text.h"
#include "ddprun/experiments/training/data_proof.h"
#include "ddprun/experiments/training/plugin_proof.h"
#include "ddprun/measure/kernel_clock.h"
#include "ddprun/proof/proof.h"
#include "ddprun/rank/heap.h"

namespace ddprun {

namespace {

constexpr std::size_t kDrawnSteps = 3;
/// Relative: products are not added in the same order each time, and fp8 may scale anew.
constexpr double kLossTolerance = 1e-2;

/// Whose a failed check is: "strategy naive". Some can be any plugin's.
std::string blamed(const std::string& check, const Experiment& experiment) {
  constexpr std::array kOfAny = {"rest_after_steps", "clock_agrees", "process_as_told",
                                 "parameters_unchanged"};
  if (contains(kOfAny, check)) return "a plugin";
  if (check == "samples_read") return "the data";  // as the next, no plugin's
  if (check == "optimizer_computed") return "the optimizer";
  const auto plugin = [&](PluginKind kind) {
    return fmt::format("{} {}", to_string(kind), experiment.plugin(kind).name);
  };
  if (check == "gradients_computed" || check == "loss_computed") {
    const bool fused = training(experiment).model.kernels == KernelSet::fused;
    return plugin(PluginKind::attention) + " or " +
           (fused ? "model.kernels fused" : plugin(PluginKind::precision));
  }
  if (check == "attention_computed") return plugin(PluginKind::attention);
  const bool of_precision = check == "products_format" || check == "loss_scaled_back";
  return plugin(of_precision ? PluginKind::precision : PluginKind::strategy);
}

}  // namespace

std::vector<std::int64_t> drawn_steps(std::uint64_t seed, const StepSpan& steps) {
  std::set<std::int64_t> drawn;
  std::uint64_t draws = 0;
  const auto draw = [&](std::int64_t begin, std::int64_t end, std::size_t count) {
    const std::size_t wanted =
        drawn.size() + std::min(count, static_cast<std::size_t>(end - begin));
    while (drawn.size() < wanted) {
      const std::uint64_t place =
          counter_hash(seed, draws++) % static_cast<std::uint64_t>(end - begin);
      drawn.insert(begin + static_cast<std::int64_t>(place));
    }
  };
  // Its last step is the one whose memory is looked at by phase.
  if (steps.measured > steps.first + 1) draw(steps.first, steps.measured - 1, 1);
  draw(steps.measured, steps.end - 1, kDrawnSteps);
  return {drawn.begin(), drawn.end()};
}

RunProof::RunProof(const Experiment& experiment, Trainer& trainer, ProcessGroup& group,
                   ProcessState told)
    : experiment_(experiment),
      trainer_(trainer),
      group_(group),
      told_(std::move(told)),
      steps_(trainer.steps()),
      first_(fmt::format("before step {}", steps_.first)),
      last_(fmt::format("after step {}, the last", steps_.end - 1)),
      format_(trainer.data_parallel().precision().dtypes().product_format()),
      lost_(trainer.data_parallel(), training(experiment).optimizer) {}

class RunProof::Timed {
 public:
  explicit Timed(RunProof& proof) : proof_(proof) {}
  ~Timed() {
    proof_.took_ns_ += now_ns() - begin_ns_;
    proof_.cpu_ns_ += process_cpu_ns() - cpu_begin_ns_;
  }
  Timed(const Timed&) = delete;
  Timed& operator=(const Timed&) = delete;

 private:
  RunProof& proof_;
  const std::int64_t begin_ns_ = now_ns();
  const std::int64_t cpu_begin_ns_ = process_cpu_ns();
};

bool RunProof::begin() {
  const Timed timed(*this);
  seed_ = trainer_.initial_values()->seed();
  drawn_ = drawn_steps(seed_, steps_);
  spdlog::debug("checks are drawn from train.proof_seed {}", seed_);
  const bool resumed = steps_.first > 0;  // then the file says what it begins with
  enter(check_initial_parameters(trainer_.data_parallel(), group_,
                                 resumed ? nullptr : trainer_.initial_values()),
        first_);
  watch_update(steps_.first, seed_);
  updates_ = trainer_.data_parallel().optimizer().updates();
  look(first_);
  if (keeps_some()) initial_hash_ = hash_kept();
  return !contains(checks_, CheckStatus::failed, &Check::status);
}

bool RunProof::looks_at(std::int64_t step) const {
  return step + 1 == steps_.end || std::ranges::binary_search(drawn_, step);
}

bool RunProof::replays(std::int64_t step) const {
  return training(experiment_).execution.mode == ExecutionMode::cuda_graph &&
         step >= ExecutionConfig::kEagerSteps;
}

void RunProof::watch_update(std::int64_t step, std::uint64_t draw) {
  const bool updates = trainer_.data_parallel().extent() == StepExtent::step;
  if (!updates || update_ || replays(step) || failed("parameters_updated")) return;
  update_.emplace(trainer_.data_parallel(), training(experiment_).optimizer, draw);
}

std::function<void()> RunProof::before_step(std::int64_t index) {
  const StepExtent extent = trainer_.data_parallel().extent();
  const bool looks = looks_at(index);
  // Whether a periodic strategy's ranks meet in a step is known after it.
  awaits_meeting_ = awaits_meeting_ || looks;
  const bool awaits = agreement() == Agreement::periodic && awaits_meeting_;
  if (!(looks || awaits || update_) || extent == StepExtent::forward || replays(index)) return {};
  const Timed timed(*this);
  const LargeBlocksMapped apart;
  const std::uint64_t draw = counter_hash(seed_, ~static_cast<std::uint64_t>(index));
  if (looks && !failed("gradients_averaged")) mean_.emplace(trainer_.data_parallel(), draw);
  watch_update(index, draw);
  counts_ = extent == StepExtent::step && looks;
  if (counts_) lost_.begin_step();
  return [this] {
    const Timed keeping(*this);
    if (mean_) mean_->keep_means();
    if (update_) update_->keep_gradients();
    if (update_) scaled_by_ = trainer_.loss_scales();
    if (counts_) lost_.keep_gradients();
    if (set_in_step_.empty()) set_in_step_ = find_changed(told_);
  };
}

void RunProof::after_step(std::int64_t index, double loss) {
  const Timed timed(*this);
  const std::string when = fmt::format("after step {}", index);
  last_loss_ = loss;
  // A GPU's driver has threads of its own.
  const bool on_cpu = group_.device().torch_device().is_cpu();
  const bool looks = looks_at(index);
  if (looks && on_cpu && !failed("rest_after_steps")) enter(check_rest(group_), when);
  if (looks && !failed("samples_read")) {
    enter(check_samples_read(trainer_.data(), index, trainer_.last_batches(), group_), when);
  }
  if (off_plan_.words.empty()) off_plan_ = {off_plan(), index};
  for (const CollectiveRecord& record : trainer_.last_records()) {
    ++collectives_;
    bytes_ += record.bytes;
  }
  const StepScalars scalars = trainer_.last_scalars();
  const StepExtent extent = trainer_.data_parallel().extent();
  if (off_scalars_.words.empty() && extent == StepExtent::step) {
    if (!scalars.skipped) ++updates_;
    off_scalars_ = {find_other_scalars(experiment_, trainer_, scalars, updates_), index};
  }
  if (left_out_.words.empty() && extent == StepExtent::step && !replays(index)) {
    left_out_ = {trainer_.data_parallel().optimizer().left_out(), index};
  }
  scalars_.push_back(scalars);
  if (agreement() == Agreement::periodic) {  // each rank clips its own gradients
    scalars_.back().gradient_norm = 0;
    scalars_.back().factor = 1;
    if (const Meeting met = trainer_.data_parallel().context().meeting(); met != Meeting::none) {
      if (met == Meeting::outer) outer_ = " and took outer steps, which no check computes";
      ++meetings_;
      awaits_meeting_ = false;
      check_parameters(when);
    }
  }
  if (mean_) enter(mean_->finish(group_), when);
  mean_.reset();
  const bool updated = looks || index == steps_.first || !awaits_meeting_;
  if (update_ && updated) enter(update_->finish(group_), when);
  if (update_ && updated && !failed("optimizer_computed")) {
    const double back = scaled_by_.empty() ? 1 : scaled_back(experiment_, scalars);
    enter(update_->finish_formula(group_, scalars.gradient_norm, back), when);
  }
  update_.reset();
  if (!scaled_by_.empty() && !scalars.skipped && !failed("loss_scaled_back")) {
    enter(check_scaled_back(experiment_, scalars, group_, scaled_by_), when);
  }
  if (scalars.skipped && !failed("loss_scaled_back")) {
    enter(check_skipped(trainer_.data_parallel().buffers(), group_), when);
  }
  scaled_by_.clear();
  lost_share_.reset();
  if (counts_) count_lost(index);
  if (index + 1 < steps_.end && looks) look_again(when);
}

std::string RunProof::off_plan() const {
  std::string words = compare_with_plan(trainer_.last_records(), trainer_.planned());
  const bool exact = agreement() == Agreement::exact;  // else gradients may stay where they are
  if (!words.empty() || !exact || trainer_.data_parallel().extent() == StepExtent::forward) {
    return words;
  }
  const FlatBuffers& buffers = trainer_.data_parallel().buffers();
  if (group_.size() > 1) words = too_few_bytes(trainer_.last_records(), buffers);
  return words.empty() ? written_padding(buffers) : words;
}

void RunProof::count_lost(std::int64_t index) {
  counts_ = false;
  const StepScalars scalars = trainer_.last_scalars();
  const bool averaged = agreement() == Agreement::periodic &&
                        trainer_.data_parallel().context().meeting() != Meeting::none;
  lost_share_ = lost_.end_step(group_, !scalars.skipped && scalars.lr != 0 && !averaged);
  const auto tensors = lost_.tensors();
  if (!lost_share_ || tensors.empty() || group_.rank() != 0) return;
  spdlog::info("step {}: rounding lost {:.3g} % of the updates, of {} {} of {}", index,
               *lost_share_, tensors.front().parameter, tensors.front().lost,
               tensors.front().looked_at);
}

void RunProof::finish() {
  const Timed timed(*this);
  enter(clock_.finish(group_), "in all steps");
  finish_plan();
  trainer_.data_parallel().extent() == StepExtent::step ? finish_scalars() : finish_loss();
  if (set_in_step_.empty()) set_in_step_ = find_other_options(experiment_, trainer_, format_);
  give_back_freed_memory();  // no step comes that would use it
  look_again(last_);
  finish_computed();
  finish_meetings();
}

void RunProof::finish_computed() {
  DataParallel& data_parallel = trainer_.data_parallel();
  // A difference in the last bit becomes one of a step of 8 bits, layer upon layer.
  if (format_ == "float8" || !group_.device().torch_device().is_cpu()) return;
  data_parallel.optimizer().drop_moments();  // room for what PyTorch's operators take
  const LossesOfBatch losses = trainer_.losses_of(eighth_of(trainer_.last_batch()));
  enter(data_parallel.extent() == StepExtent::forward
            ? check_loss_computed(data_parallel, group_, losses)
            : check_gradients_computed(data_parallel, group_, losses,
                                       counter_hash(seed_ + 2, looks_)),
        last_);
}

void RunProof::finish_meetings() {
  if (agreement() != Agreement::periodic) return;
  for (Check& check : checks_) {
    if (check.status != CheckStatus::declared) continue;
    if (meetings_ == 0) {
      check.status = CheckStatus::control;
      check.detail = "the ranks averaged in no step of the run: each trained alone";
    } else if (check.name == "integer_gradients") {
      check.detail = fmt::format("the ranks averaged in {} of {}{}: {}", meetings_,
                                 counted(steps_.count(), "step"), outer_, check.detail);
    }
  }
}

void RunProof::look_again(const std::string& when) {
  // The blocks of a check would seldom fit where those of a step lie, and the heap would grow.
  const LargeBlocksMapped apart;
  check_parameters(when);
  if (keeps_some()) check_unchanged(when);
  look(when);
}

void RunProof::check_parameters(const std::string& when) {
  if (failed("parameters_equal")) return;
  Check check = check_parameters_equal(trainer_.data_parallel(), group_);
  // Where ranks average from time to time, the latest one stands.
  const bool met = std::ranges::any_of(checks_, [](const Check& each) {
    return each.name == "parameters_equal" && each.status == CheckStatus::passed;
  });
  if (check.status == CheckStatus::declared && met) return;
  enter(std::move(check), when);
}

bool RunProof::keeps_some() const {
  const DataParallel& data_parallel = trainer_.data_parallel();
  return data_parallel.extent() != StepExtent::step || data_parallel.frozen() != nullptr;
}

std::uint64_t RunProof::hash_kept() const {
  const DataParallel& data_parallel = trainer_.data_parallel();
  const bool all = data_parallel.extent() != StepExtent::step;
  return all ? hash_parameters(data_parallel) : hash_frozen_parameters(data_parallel);
}

void RunProof::check_unchanged(const std::string& when) {
  const char* const name = "parameters_unchanged";
  if (failed(name)) return;
  const std::uint64_t hash = hash_kept();
  const bool same = hash == initial_hash_;
  enter(make_check(name, same,
                   same ? fmt::format("hash {:016x}, as {}", hash, first_)
                        : fmt::format("hash {:016x}, and {:016x} {}", hash, initial_hash_, first_)),
        when);
}

void RunProof::look(const std::string& when) {
  ++looks_;
  DataParallel& data_parallel = trainer_.data_parallel();
  if (!failed("compute_copy")) enter(check_compute_copy(data_parallel, group_), when);
  if (!failed("process_as_told")) enter(check_process(group_, told_, set_in_step_), when);
  look_at_plugins(when);
  if (failed("integer_gradients") || data_parallel.extent() == StepExtent::forward) return;
  const IntegerRound round = {batch_per_rank(experiment_) / micro_batch(experiment_),
                              counter_hash(~seed_, looks_)};
  enter(check_integer_gradients(data_parallel, group_, round), when);
}

void RunProof::look_at_plugins(const std::string& when) {
  // First: attention, too, computes under the precision.
  const bool reference = training(experiment_).model.kernels == KernelSet::reference;
  if (reference && !failed("products_format")) {
    enter(check_products(experiment_, trainer_, group_, counter_hash(seed_ + 3, looks_)), when);
  }
  if (failed("attention_computed") || failed("products_format")) return;
  enter(check_attention(experiment_, trainer_, group_, counter_hash(seed_ + 1, looks_)), when);
}

void RunProof::enter(Check check, const std::string& when) {
  const auto known = std::ranges::find(checks_, check.name, &Check::name);
  const bool first = known == checks_.end();
  const std::size_t place = static_cast<std::size_t>(known - checks_.begin());
  if (first) {
    checks_.emplace_back();
    // initial_parameters_equal has held, or no step would have run.
    held_.emplace_back(check.name == "parameters_equal" ? first_ : "");
  }
  if (check.status == CheckStatus::failed) {
    check.detail =
        fmt::format("{}: {}failed {}: {}", blamed(check.name, experiment_),
                    held_[place].empty() ? "" : "held " + held_[place] + ", ", when, check.detail);
    spdlog::info("train.proof_seed={} repeats the checks of this run", seed_);
  } else {
    held_[place] = when;
    check.detail += " (" + when + (first ? ")" : ", and each time before)");
  }
  checks_[place] = std::move(check);
}

bool RunProof::failed(const std::string& name) const {
  return std::ranges::any_of(checks_, [&](const Check& check) {
    return check.name == name && check.status == CheckStatus::failed;
  });
}

void RunProof::finish_plan() {
  const char* const name = "collectives_as_planned";
  const auto& [words, step] = off_plan_;
  if (!words.empty()) {
    return enter({name, CheckStatus::failed, words}, fmt::format("in step {}", step));
  }
  enter({name, CheckStatus::passed,
         fmt::format("{} of {} in all, in {}", counted(collectives_, "collective"),
                     counted(bytes_, "byte"), counted(steps_.count(), "step"))},
        "after each step");
}

void RunProof::finish_loss() {
  const double again = trainer_.last_loss_again();
  const bool agrees = std::abs(again - last_loss_) <= kLossTolerance * std::abs(last_loss_);
  enter(make_check("loss_again", agrees,
                   fmt::format("{:.6g}, and {:.6g} in the step", again, last_loss_)),
        last_);
}

void RunProof::finish_scalars() {
  auto [check, step] = check_scalars(group_, scalars_);
  if (check.status == CheckStatus::failed && agreement() == Agreement::none) {
    check.status = CheckStatus::control;
  }
  if (check.status != CheckStatus::failed && !off_scalars_.words.empty()) {
    check = {check.name, CheckStatus::failed, off_scalars_.words};
    step = off_scalars_.step - steps_.first;
  }
  const bool passed = check.status == CheckStatus::passed;
  enter(std::move(check),
        passed ? std::string("after each step") : fmt::format("in step {}", steps_.first + step));
  if (left_out_.words.empty() || failed("parameters_updated")) return;
  enter({"parameters_updated", CheckStatus::failed,
         "update() left elements of " + left_out_.words + " out"},
        fmt::format("in step {}", left_out_.step));
}

}  // namespace ddprun
