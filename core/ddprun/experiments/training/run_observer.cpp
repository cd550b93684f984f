// Memory by phase and by what it is, the memory snapshot, and operators.
#include "ddprun/experiments/training/run_observer.h"

#include <ATen/Parallel.h>

#include <algorithm>

#include "ddprun/device/memory_history.h"
#include "ddprun/device/product_speed.h"
#include "ddprun/measure/speed.h"
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
  for (const MemoryCategory each : kChoices<MemoryCategory>) {
    out.tensors.emplace_back(name_of(each), at.tensors[each]);
    out.categories.emplace_back(name_of(each), at.bytes[each]);
  }
  out.saved = account.saved(kFirstBlock);
  out.saved_again = account.saved(kFirstBlock, /*again=*/true);
  return out;
}

/// Null: tensors live in this process.
MemoryRecorder::DeviceLook device_look(Device& device) {
  if (device.torch_device().is_cpu()) return nullptr;
  return [&device] {
    const DeviceMemory memory = device.memory();
    return AllocatorMemory{.allocated = memory.allocated_bytes,
                           .reserved = memory.reserved_bytes,
                           .used = device.used_memory()};
  };
}

Roofline roofline_of(Device& device) {
  Roofline out = {.copy_bytes = copy_bytes_per_second(at::get_num_threads())};
  for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16}) {
    out.product_flops[std::string(c10::getDtypeNames(dtype).first)] = product_flops(device, dtype);
  }
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
    const auto known = std::ranges::find(phases_, to_string(phase), &PhaseMemory::phase);
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
  if (config.operators && !folder_.empty()) roofline_ = roofline_of(device);
  counting_ = device.count_memory();
  to_memory_.emplace(*memory_);
  if (config.memory_snapshot && !folder_.empty()) {
    history_ = device.record_memory();
    if (history_) to_history_.emplace(*history_);
  }
  if (config.memory && !folder_.empty()) {
    recorder_.emplace(device.memory_blocks(), device_look(device));
  }
}

RunObserver::~RunObserver() { end(); }

void RunObserver::end() {
  operators_.reset();
  recorder_.reset();
  to_history_.reset();
  to_memory_.reset();
  history_.reset();
  counting_.reset();
}

void RunObserver::before_step(std::int64_t index) {
  memory_->watch_step(index == step_);
  if (index != step_) return;
  if (recorder_) recorder_->begin_step();
  if (roofline_) operators_.emplace();
}

void RunObserver::after_step(std::int64_t index) {
  if (index != step_) return;
  if (operators_) {
    table_ = operators_->table();
    table_.roofline = *roofline_;
    write_profile(folder_ / kOperatorFile, operators_csv(table_));
  }
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
  result.operators = table_;
  if (account_) result.memory_peak = peak_of(*account_, tokens);
}

}  // namespace ddprun
