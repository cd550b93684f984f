// Memory by phase and by what it is, and the memory snapshot.
#include "ddprun/experiments/training/run_observer.h"

#include <algorithm>

#include "ddprun/device/memory_history.h"
#include "ddprun/profile/memory_files.h"

namespace ddprun {

namespace {

constexpr const char* kSnapshotFile = "memory_rank0.pickle";
constexpr const char* kFirstBlock = "layers.0";

PeakMemory peak_of(const MemoryAccount& account, std::int64_t tokens) {
  const MemoryMoment& at = account.peak();
  PeakMemory out{.phase = account.peak_phase(),
                 .unexplained_bytes = at.unexplained(),
                 .resident_bytes = at.resident,
                 .tokens = tokens};
  for (std::size_t i = 0; i < at.bytes.size(); ++i) {
    out.tensors.emplace_back(kChoiceNames<MemoryCategory>[i], at.tensors[i]);
    out.categories.emplace_back(kChoiceNames<MemoryCategory>[i], at.bytes[i]);
  }
  out.saved = account.saved(kFirstBlock);
  out.saved_again = account.saved(kFirstBlock, /*again=*/true);
  return out;
}

}  // namespace

/// Phases that follow one another: each begins with the allocator's peaks at what is allocated. A
/// phase that comes several times in a step has the last one's bytes and the highest peaks.
class RunObserver::Memory final : public PhaseListener {
 public:
  explicit Memory(Device& device) : device_(device) {}

  void watch_step(bool watched) { step_watched_ = watched; }

  void begin(Phase phase) override {
    if (watches(phase)) device_.reset_memory();
  }

  void end(Phase phase) override {
    if (!watches(phase)) return;
    DeviceMemory now = device_.memory();
    const auto known = std::find_if(phases_.begin(), phases_.end(), [phase](const auto& each) {
      return each.phase == to_string(phase);
    });
    if (known == phases_.end()) {
      phases_.push_back({to_string(phase), now});
      return;
    }
    const DeviceMemory before = known->memory;
    now.peak_allocated_bytes = std::max(now.peak_allocated_bytes, before.peak_allocated_bytes);
    now.peak_reserved_bytes = std::max(now.peak_reserved_bytes, before.peak_reserved_bytes);
    now.retries += before.retries;
    known->memory = now;
  }

  const std::vector<PhaseMemory>& phases() const { return phases_; }

 private:
  /// A run's proof has phases too.
  bool watches(Phase phase) const {
    return phase != Phase::step && (step_watched_ || phase == Phase::setup);
  }

  Device& device_;
  bool step_watched_ = false;
  std::vector<PhaseMemory> phases_;
};

RunObserver::RunObserver(const ProfileConfig& config, Device& device,
                         std::optional<std::int64_t> step, std::filesystem::path folder)
    : step_(step), folder_(std::move(folder)), memory_(std::make_unique<Memory>(device)) {
  if (!step_) return;
  counting_ = device.count_memory();
  to_memory_.emplace(*memory_);
  if (config.memory_snapshot && !folder_.empty()) {
    history_ = device.record_memory();
    to_history_.emplace(*history_);
  }
  if (config.memory && !folder_.empty()) recorder_.emplace();
}

RunObserver::~RunObserver() { end(); }

void RunObserver::end() {
  recorder_.reset();
  to_history_.reset();
  to_memory_.reset();
  history_.reset();
  counting_.reset();
}

void RunObserver::before_step(std::int64_t index) {
  memory_->watch_step(index == step_);
  if (recorder_ && index == step_) recorder_->begin_step();
}

void RunObserver::after_step(std::int64_t index) {
  if (index != step_) return;
  if (recorder_) {
    account_.emplace(recorder_->end_step());
    write_memory_files(folder_, *account_);
  }
  if (history_) {
    write_profile(folder_ / kSnapshotFile, history_->pickle());
    snapshot_ = kSnapshotFile;
  }
  end();
}

void RunObserver::add_to(RankResult& result, std::int64_t tokens) const {
  result.memory_phases = memory_->phases();
  result.memory_snapshot = snapshot_;
  if (account_) result.memory_peak = peak_of(*account_, tokens);
}

}  // namespace ddprun
