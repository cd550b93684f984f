// ddprun checkpoint: what is in one, whether it is what was saved, what differs, and its weights
// for others.
#include <fmt/format.h>

#include <filesystem>
#include <functional>
#include <iostream>

#include "ddprun/base/error.h"
#include "ddprun/base/text.h"
#include "ddprun/checkpoint/checkpoint_files.h"
#include "ddprun/checkpoint/checkpoint_state.h"
#include "ddprun/checkpoint/safetensors.h"
#include "ddprun/config/options_io.h"
#include "ddprun/model/llama_layout.h"
#include "runner/command/commands.h"
#include "runner/command/out_file.h"
#include "runner/report/text_table.h"

namespace ddprun {

namespace {

namespace fs = std::filesystem;

/// "3f2a41c0", or "3f2a... of 4 parts".
std::string hash_words(const std::vector<PartHash>& parts) {
  if (parts.empty()) return "none";
  if (parts.size() == 1) return fmt::format("{:016x}", parts.front().hash);
  return fmt::format("{:016x} of 1 of {} parts", parts.front().hash, parts.size());
}

TextTable tensors_of(const fs::path& folder, const CheckpointState& state) {
  TextTable table;
  table.columns = {
      {"tensor", false}, {"dtype", false}, {"shape", false}, {"bytes"}, {"XXH3", false, 1}};
  for (const auto& [name, hashes] : state.files) {
    const SafetensorsFile file(folder / name);
    for (const TensorSpec& tensor : file.tensors()) {
      const auto found = hashes.tensors.find(tensor.name);
      table.add({fmt::format("{}: {}", name, tensor.name), safetensors_dtype(tensor.dtype),
                 shape_text(tensor.sizes), with_thousands(bytes_of(tensor)),
                 found == hashes.tensors.end() ? "none" : hash_words(found->second)});
    }
  }
  return table;
}

int inspect(const fs::path& folder, const Request& request) {
  const CheckpointState state = read_state(folder);
  std::cout << fmt::format(
      "{}: after step {} ({}), of {}, strategy {}, precision {}, optimizer {}; "
      "written by ddprun {} with LibTorch {}\n",
      printable_line(folder.string()), state.step, counted(state.updates, "update"),
      counted(state.ranks, "rank"), state.strategy, state.precision, state.optimizer, state.ddprun,
      state.torch);
  const Terminal terminal = table_terminal(request.columns);
  std::cout << tensors_of(folder, state).render(terminal.width, terminal.colour);
  if (request.verbosity > 0) std::cout << "\n" << state.config << "\n";
  return kExitDone;
}

int verify(const fs::path& folder) {
  const std::string damage = first_damage(folder, read_state(folder));
  const std::string name = printable_line(folder.string());
  if (damage.empty()) {
    std::cout << name << ": all bytes are what was saved\n";
    return kExitDone;
  }
  std::cerr << "error: " << name << " is damaged: " << printable_line(damage) << "\n";
  return kExitFailed;
}

int diff(const fs::path& first, const fs::path& second) {
  const std::vector<CheckpointDifference> found = differences(first, second);
  for (const CheckpointDifference& each : found) {
    std::cout << fmt::format("{}{}{}: {}\n", each.file, each.name.empty() ? "" : ": ",
                             printable_line(each.name), each.words);
  }
  if (found.empty()) std::cout << "the same tensors, bit for bit\n";
  return found.empty() ? kExitDone : kExitFailed;
}

int export_hf(const fs::path& folder, const fs::path& target) {
  const CheckpointState state = read_state(folder);
  if (verify(folder) != kExitDone) return kExitFailed;
  const ConfigNode experiment = parse_yaml(state.config, (folder / kStateFile).string());
  write_llama(SafetensorsFile(folder / kModelFile), read_section<ModelConfig>(experiment, "model"),
              new_folder(target));
  std::cout << printable_line(target.string()) << ": the weights in Llama's layout\n";
  return kExitDone;
}

/// What cannot be read of a checkpoint that is there is damaged.
int unless_damaged(const std::function<int()>& read) {
  try {
    return read();
  } catch (const ConfigError& damage) {
    std::cerr << "error: " << damage.what() << "\n";
    return kExitFailed;
  }
}

}  // namespace

int checkpoint_command(const Request& request) {
  const CheckpointAction action = request.checkpoint_action;
  const bool two = action == CheckpointAction::diff || action == CheckpointAction::export_hf;
  if (request.paths.size() != (two ? 2u : 1u)) {
    throw ConfigError({.what = "another number of checkpoints",
                       .where = "the command line",
                       .got = std::to_string(request.paths.size()),
                       .expected = two ? "two paths" : "one checkpoint",
                       .hint = "ddprun checkpoint inspect PATH, or verify PATH, diff PATH PATH, "
                               "export PATH NEW_FOLDER"});
  }
  const fs::path first = checkpoint_at(request.paths.front());
  switch (action) {
    case CheckpointAction::inspect:
      return unless_damaged([&] { return inspect(first, request); });
    case CheckpointAction::verify:
      return unless_damaged([&] { return verify(first); });
    case CheckpointAction::diff:
      return unless_damaged(
          [&, second = checkpoint_at(request.paths.back())] { return diff(first, second); });
    case CheckpointAction::export_hf:
      return export_hf(first, request.paths.back());
  }
  return kExitFailed;
}

}  // namespace ddprun
