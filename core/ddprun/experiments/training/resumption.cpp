// What fits, what is read, and the proof that it was.
#include "ddprun/experiments/training/resumption.h"

#include <c10/core/GradMode.h>
#include <fmt/format.h>
#include <spdlog/spdlog.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>

#include "ddprun/base/choice.h"
#include "ddprun/base/clock.h"
#include "ddprun/base/error.h"
#include "ddprun/base/ranges.h"
#include "ddprun/base/text.h"
#include "ddprun/checkpoint/checkpoint_files.h"
#include "ddprun/checkpoint/safetensors.h"
#include "ddprun/experiments/training/run_saver.h"
#include "ddprun/experiments/training/training_config.h"
#include "ddprun/model/model_parameters.h"
#include "ddprun/model/pretrained_weights.h"
#include "ddprun/parallel/first_of_all.h"
#include "ddprun/parallel/training_state.h"
#include "ddprun/proof/drawn_run.h"

namespace ddprun {

namespace {

namespace fs = std::filesystem;

[[noreturn]] void refuse_checkpoint(const fs::path& folder, std::string what, std::string got,
                                    std::string expected, std::string hint) {
  throw ConfigError({.what = std::move(what),
                     .where = folder.string(),
                     .got = std::move(got),
                     .expected = std::move(expected),
                     .hint = std::move(hint)});
}

/// Sections and keys that do not change what is trained, or of which a checkpoint says more.
constexpr std::array kOfNoMatter = {"name",
                                    "plugin_path",
                                    "world",
                                    "output",
                                    "report",
                                    "profile",
                                    "train.checkpoint",
                                    "train.resume_from",
                                    "train.proof_seed",
                                    "train.eval",
                                    "train.sample"};

/// Adds what differs, as in "optimizer.lr 0.001, now 0.003".
void add_changes(const std::string& path, const ConfigNode& then, const ConfigNode& now,
                 std::vector<std::string>& out) {
  if (contains(kOfNoMatter, path)) return;
  static const ConfigNode none;
  if (then.map.empty() || now.map.empty()) {
    if (compact(then) == compact(now)) return;
    out.push_back(fmt::format("{} {}, now {}", path, compact(then), compact(now)));
    return;
  }
  const auto visit = [&](const std::string& key) {
    const ConfigNode* const before = then.find(key);
    const ConfigNode* const after = now.find(key);
    add_changes(path.empty() ? key : path + "." + key, before == nullptr ? none : *before,
                after == nullptr ? none : *after, out);
  };
  for (const auto& [key, value] : then.map) visit(key);
  for (const auto& [key, value] : now.map) {
    if (then.find(key) == nullptr) visit(key);
  }
}

/// Which file it is: equal on ranks that see the same one, over a network too. Those share the work
/// of comparing its bytes.
std::string copy_of(const fs::path& file) {
  struct stat found = {};
  if (::stat(file.c_str(), &found) != 0) return {};
  return fmt::format("{}, {} s {} ns", found.st_ino, found.st_ctim.tv_sec, found.st_ctim.tv_nsec);
}

}  // namespace

fs::path Resumption::folder_of(const Experiment& experiment) {
  const std::string& from = training(experiment).train.resume_from;
  if (from.empty()) return {};
  if (from == kLatest) return find_checkpoint(checkpoint_folder(experiment));
  return checkpoint_at(fs::absolute(from),
                       "train.resume_from: latest begins at step 0 where there is none yet");
}

std::optional<Resumption> Resumption::find(const Experiment& experiment) {
  const fs::path folder = folder_of(experiment);
  if (folder.empty()) return {};
  Resumption out(folder, read_state(folder));
  out.check_fits(experiment);
  return out;
}

void Resumption::check_unfinished(const Experiment& experiment) {
  const fs::path folder = folder_of(experiment);
  if (folder.empty()) return;
  const TrainConfig& train = training(experiment).train;
  const std::int64_t step = read_state(folder).step;
  if (step < train.all_steps()) return;
  refuse_checkpoint(
      folder, "the run of the checkpoint has done all steps that are asked for",
      counted(step, "step"),
      fmt::format("fewer than train.warmup_steps + train.steps = {}", train.all_steps()),
      "raise train.steps to go on; --resume takes over the row that has them");
}

void Resumption::check_fits(const Experiment& experiment) const {
  const TrainingConfig& config = training(experiment);
  if (state_.optimizer != name_of(config.optimizer.name)) {
    refuse_checkpoint(folder_, "the checkpoint has the moments of another optimizer",
                      "optimizer.name " + state_.optimizer,
                      std::string("optimizer.name ") + name_of(config.optimizer.name),
                      "set optimizer.name as it was");
  }
  const SafetensorsFile file(folder_ / kModelFile);
  const std::string other =
      misfit(config.model, [&](const std::string& name) { return file.find(name); });
  const std::size_t count = model_parameters(config.model).size();
  if (other.empty() && count == file.tensors().size()) return check_moments(config.model);
  refuse_checkpoint(
      folder_, "the checkpoint is of another model",
      other.empty() ? fmt::format("{}, and {} are needed",
                                  counted(std::ssize(file.tensors()), "parameter"), count)
                    : other,
      "the parameters of `model:`", "the `model:` section must be that of the run that wrote it");
}

/// Moments from zero beside a count of updates are those of no optimizer: AdamW would not correct
/// them.
void Resumption::check_moments(const ModelConfig& model) const {
  const SafetensorsFile file(folder_ / kOptimizerFile);
  if (file.tensors().empty()) return;  // SGD without momentum has none
  for (const std::string& name : trained_names(model)) {
    const bool found = std::ranges::any_of(file.tensors(), [&](const TensorSpec& tensor) {
      return tensor.name.starts_with(name + ".");
    });
    if (found) continue;
    refuse_checkpoint(
        folder_, "the checkpoint has no moments of a parameter that is trained now",
        name + ", which was frozen when it was saved",
        "moments of all that model.frozen leaves to train",
        "freeze it as it was, or `model.init_from` begins at step 0 with the weights");
  }
}

Beginning Resumption::beginning() {
  return {.step = state_.step, .load = [this](const std::vector<NamedTensor>& parameters) {
            const c10::NoGradGuard no_grad;
            const std::int64_t begin_ns = now_ns();
            const SafetensorsFile file(folder_ / kModelFile);
            for (const NamedTensor& parameter : parameters) {
              if (file.find(parameter.name) == nullptr) continue;  // tied to one that is there
              file.read_to(parameter.name, 0, parameter.tensor);
            }
            read_ns_ += now_ns() - begin_ns;
          }};
}

void Resumption::check_files(ProcessGroup& group) const {
  const auto copies = group.all_gather_object(copy_of(folder_ / kStateFile));
  const auto own = copies.begin() + group.rank();
  const auto before = std::count(copies.begin(), own, *own);
  const auto all = std::ranges::count(copies, *own);
  const std::string damage = first_of_all(
      group, first_damage(folder_, state_, static_cast<int>(before), static_cast<int>(all)));
  if (damage.empty()) return;
  throw Error({.what = "a checkpoint is not what was saved",
               .where = folder_.string(),
               .got = damage,
               .expected = "the bytes whose hashes state.json has, and finite numbers",
               .hint = "go on from another checkpoint of the run"});
}

void Resumption::read_moments(DataParallel& data_parallel) const {
  const SafetensorsFile file(folder_ / kOptimizerFile);
  for (const TensorPart& part : shared_moments(data_parallel).own) {
    if (file.find(part.name) == nullptr) continue;  // of SGD that had no momentum: from zero
    file.read_to(part.name, part.begin, part.values);
  }
  data_parallel.optimizer().set_updates(state_.updates);
}

void Resumption::check_ranks(const Experiment& experiment, DataParallel& data_parallel) const {
  if (experiment.world.size == state_.ranks) return;
  for (const NamedTensor& each : own_state(data_parallel)) {
    if (each.name.starts_with(kPrecisionState)) continue;
    refuse_checkpoint(folder_, "what the strategy carries belongs to the ranks that wrote it",
                      fmt::format("{}, of {}", each.name, counted(state_.ranks, "rank")),
                      fmt::format("world.size {}", state_.ranks),
                      "go on with as many ranks, or with another strategy");
  }
}

void Resumption::read_own(const Experiment& experiment, DataParallel& data_parallel,
                          int rank) const {
  const auto same = [&](PluginKind kind, const std::string& saved) {
    const std::string& now = experiment.plugin(kind).name;
    if (now != saved && rank == 0) {
      spdlog::info("the checkpoint is of {} {}: what that carried is left, {} begins anew",
                   to_string(kind), saved, now);
    }
    return now == saved;
  };
  const WhoseState whose = {.strategy = same(PluginKind::strategy, state_.strategy),
                            .precision = same(PluginKind::precision, state_.precision)};
  if (whose.strategy) check_ranks(experiment, data_parallel);
  // Of a rank that there was not, what another one carries: precisions carry much the same.
  const std::string name = rank_file(rank % state_.ranks);
  std::optional<SafetensorsFile> file;
  if (state_.files.contains(name)) file.emplace(folder_ / name);
  read_own_state(data_parallel, whose, [&](const std::string& wanted) {
    return file && file->find(wanted) != nullptr ? file->read(wanted) : at::Tensor();
  });
}

std::string Resumption::changes(const Experiment& experiment) const {
  std::vector<std::string> found;
  const auto parsed = [this](const std::string& yaml) {
    return parse_yaml(yaml, (folder_ / kStateFile).string());
  };
  add_changes("", parsed(state_.config), parsed(to_yaml(resolve(experiment))), found);
  if (state_.global_batch !=
      global_batch(experiment)) {  // the position in the data follows from it
    found.push_back(
        fmt::format("a global batch of {}, now {}", state_.global_batch, global_batch(experiment)));
  }
  if (state_.data != planned_hash(experiment, kDataPath)) found.push_back("the data's contents");
  return list_text(found, "; ");
}

std::int64_t Resumption::differing_parameters(DataParallel& data_parallel) const {
  const SafetensorsFile file(folder_ / kModelFile);
  std::int64_t differing = 0;
  for (const TensorPart& part : shared_parameters(data_parallel).own) {
    const at::Tensor values = part.values.detach().cpu();
    file.visit(part.name, part.begin, values.numel(),
               [&](std::int64_t first, const at::Tensor& in) {
                 const at::Tensor own = values.narrow(0, first - part.begin, in.numel());
                 differing += count_unequal(own, in.to(values.scalar_type()));
               });
  }
  return differing;
}

void check_planned(const std::optional<Resumption>& resumed, const Experiment& experiment) {
  const std::uint64_t planned = planned_hash(experiment, kResumeFrom);
  if ((resumed ? hash_of(resumed->state()) : 0) == planned) return;
  throw Error({.what = "the checkpoint to go on from is not what it was when the run was planned",
               .where = "train.resume_from",
               .got = resumed ? resumed->folder().string() : "none",
               .expected = "the same one on all ranks until the run has read it",
               .hint = "run again when nothing else saves there"});
}

Check Resumption::read(const Experiment& experiment, Trainer& trainer, ProcessGroup& group) {
  const c10::NoGradGuard no_grad;
  const std::int64_t begin_ns = now_ns();
  DataParallel& data_parallel = trainer.data_parallel();
  check_files(group);
  const std::int64_t differing = differing_parameters(data_parallel);  // before ranks differ
  read_moments(data_parallel);
  read_own(experiment, data_parallel, group.rank());
  const std::string words = first_of_all(
      group, differing == 0 ? "" : counted(differing, "parameter") + " not as in the file");
  if (!words.empty()) return make_check("resumed", false, words);
  read_ns_ += now_ns() - begin_ns;
  const std::string changed = changes(experiment);
  return make_check("resumed", true,
                    fmt::format("step {} of {}, bit for bit, from {} in {:.2f} s{}", state_.step,
                                counted(state_.ranks, "rank"), folder_.string(), to_s(read_ns_),
                                changed.empty() ? "" : "; what is not as it was: " + changed));
}

}  // namespace ddprun
