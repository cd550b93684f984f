// Damaged checkpoints: what is accepted must be what was saved.
#include <ATen/ops/arange.h>

#include <stdexcept>

#include "ddprun/checkpoint/checkpoint_files.h"
#include "ddprun/checkpoint/tensor_file.h"
#include "faults/fuzz/target.h"

namespace ddprun::fuzz {

namespace fs = std::filesystem;

namespace {

/// The first byte of an input says which file the others are.
class Checkpoint final : public Target {
 public:
  explicit Checkpoint(const fs::path& scratch) : Target({"checkpoint", "checkpoint.bin", 70}) {
    fs::create_directories(scratch);
    state_.step = 4;
    for (const char* name : {kModelFile, kOptimizerFile}) add_file(scratch, name);
    files_.emplace_back(kStateFile, to_json_text(state_));
    fs::remove_all(scratch);
  }

  std::string make(Dice& dice) const override {
    const std::size_t which = dice.below(files_.size());
    const std::string& good = files_[which].second;
    const std::string text =
        dice.one_in(3) ? flip_bytes(good, 1 + dice.below(4), dice)
                       : mutate_text(good, files_[dice.below(files_.size())].second, dice);
    return static_cast<char>(which) + text;
  }

  Verdict run(const std::string& input, const fs::path& scratch) override {
    const std::size_t which = first_byte(input) % files_.size();
    const fs::path folder = scratch / checkpoint_name(state_.step);
    fs::create_directories(folder);
    for (const auto& [name, bytes] : files_) write(folder / name, bytes);
    write(folder / files_[which].first, behind_it(input));
    write(scratch / kLatestFile, checkpoint_name(state_.step) + "\n");
    const CheckpointState read = read_state(find_checkpoint(scratch));
    if (!first_damage(folder, read).empty()) return Verdict::refused;
    if (to_json_text(read) != files_.back().second) {
      throw std::logic_error("another state was accepted");
    }
    for (const auto& [name, bytes] : files_) {
      if (name != kStateFile && fuzz::read(folder / name) != bytes) {
        throw std::logic_error("other tensors were accepted");
      }
    }
    return Verdict::accepted;
  }

 private:
  void add_file(const fs::path& scratch, const std::string& name) {
    const std::vector<TensorSpec> specs = {{"layers.0.w", at::kFloat, {4, 6}},
                                           {"bias", at::kBFloat16, {3}},
                                           {"steps", at::kLong, {}},
                                           {"nothing", at::kFloat, {0, 2}}};
    const TensorFileLayout layout(specs);
    std::vector<TensorPart> parts;
    for (const TensorSpec& spec : specs) {
      parts.push_back({.name = spec.name, .values = at::arange(elements_of(spec)).to(spec.dtype)});
    }
    create_tensor_file(scratch / name, layout);
    state_.files[name] = write_parts(scratch / name, layout, parts);
    files_.emplace_back(name, fuzz::read(scratch / name));
  }

  CheckpointState state_;
  std::vector<std::pair<std::string, std::string>> files_;  // names and bytes; state.json last
};

}  // namespace

std::unique_ptr<Target> checkpoint_target(const fs::path& build) {
  return std::make_unique<Checkpoint>(build / "fuzz_checkpoint");
}

}  // namespace ddprun::fuzz
