// A checkpoint in three parts: rank 0 makes the files, all ranks write, rank 0 names the folder.
#include "ddprun/experiments/training/run_saver.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <spdlog/spdlog.h>
#include <sys/file.h>
#include <torch/headeronly/version.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <functional>
#include <string_view>
#include <system_error>
#include <utility>

#include "ddprun/base/choice.h"
#include "ddprun/base/clock.h"
#include "ddprun/base/durable_file.h"
#include "ddprun/base/error.h"
#include "ddprun/checkpoint/checkpoint_state.h"
#include "ddprun/experiments/training/training_config.h"
#include "ddprun/parallel/first_of_all.h"
#include "ddprun/parallel/training_state.h"

namespace ddprun {

namespace {

namespace fs = std::filesystem;

constexpr std::string_view kUnfinished = ".unfinished";

[[noreturn]] void throw_cannot_save(const fs::path& path, const std::string& why) {
  throw Error({.what = "checkpoints cannot be saved there",
               .where = path.string(),
               .got = why,
               .expected = "a folder that can be written, which all ranks see",
               .hint = "train.checkpoint.path says where"});
}

/// Returns the words of what `work` threw, on one line; a peer that is gone is no such failure.
std::string words_of_failure(const std::function<void()>& work) {
  try {
    work();
  } catch (const CommError&) {
    throw;
  } catch (const Error& error) {
    return fmt::format("{}: {}: {}", error.text().what, error.text().where, error.text().got);
  } catch (const fs::filesystem_error& error) {
    return error.what();
  }
  return {};
}

/// What a rank has of its own, as a file that it writes alone.
SharedTensors as_file(const std::vector<NamedTensor>& tensors) {
  SharedTensors out;
  for (const NamedTensor& each : tensors) {
    out.all.push_back({each.name, each.tensor.scalar_type(), each.tensor.sizes().vec()});
    out.own.push_back({.name = each.name, .values = each.tensor.detach().reshape({-1})});
  }
  return out;
}

fs::path hidden_path(const fs::path& folder, std::int64_t step) {
  return folder / fmt::format(".{}{}", checkpoint_name(step), kUnfinished);
}

void remove_unfinished(const fs::path& folder) {
  std::vector<fs::path> unfinished;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
    const std::string name = entry.path().filename();
    const bool ours = name.starts_with('.') && name.ends_with(kUnfinished);
    if (ours && checkpoint_step(name.substr(1, name.size() - 1 - kUnfinished.size())) >= 0) {
      unfinished.push_back(entry.path());
    }
  }
  for (const fs::path& path : unfinished) fs::remove_all(path);
}

/// Takes away what stands at the place of a checkpoint: of a run that was gone on from before it,
/// it gets another name. One that `latest` has never named is the same, of a save that was cut
/// short.
void make_room(const fs::path& folder, std::int64_t step) {
  const fs::path named = folder / checkpoint_name(step);
  const fs::path latest = find_checkpoint(folder);
  if (latest != named && checkpoint_step(latest.filename()) < step) {
    fs::rename(named, hidden_path(folder, step + 1));
    fs::remove_all(hidden_path(folder, step + 1));
    return;
  }
  fs::path aside;
  for (int number = 1; aside.empty() || fs::exists(aside); ++number) {
    aside = fmt::format("{}.replaced-{}", named.string(), number);
  }
  fs::rename(named, aside);
}

std::int64_t bytes_of_files(const fs::path& folder) {
  std::int64_t bytes = 0;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
    bytes += static_cast<std::int64_t>(entry.file_size());
  }
  return bytes;
}

/// Open and locked until it goes, with the process if need be.
Descriptor lock(const fs::path& folder) {
  const fs::path file = folder / ".lock";
  Descriptor opened(::open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644));
  if (opened.get() < 0) throw_cannot_save(file, std::strerror(errno));
  if (::flock(opened.get(), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
    throw Error({.what = "another run saves its checkpoints there",
                 .where = folder.string(),
                 .got = "a lock that a running process holds",
                 .expected = "a folder for each run",
                 .hint = "end that run, or set another train.checkpoint.path"});
  }
  return opened;
}

}  // namespace

fs::path checkpoint_folder(const Experiment& experiment) {
  const CheckpointConfig& config = training(experiment).train.checkpoint;
  if (config.path.empty()) return {};
  std::string point = experiment.label;
  std::erase(point, ' ');
  std::ranges::replace(point, '/', '_');
  return fs::absolute(fs::path(config.path) / point).lexically_normal();
}

void check_checkpoint_folder(const Experiment& experiment, const fs::path& resumed) {
  const fs::path folder = checkpoint_folder(experiment);
  if (training(experiment).train.checkpoint.every == 0 || !fs::exists(folder)) return;
  const auto there = checkpoints_in(folder);
  if (there.empty()) return;
  std::error_code ignored;
  if (!resumed.empty() && fs::equivalent(resumed.parent_path(), folder, ignored)) return;
  throw ConfigError(
      {.what = "the folder has checkpoints of an earlier run",
       .where = folder.string(),
       .got = there.rbegin()->second.filename().string(),
       .expected = "a folder without checkpoints, or a run that goes on from them",
       .hint = "train.resume_from: latest goes on; or set another train.checkpoint.path"});
}

RunSaver::RunSaver(const Experiment& experiment, Trainer& trainer, ProcessGroup& group,
                   const fs::path& resumed)
    : experiment_(experiment), trainer_(trainer), group_(group) {
  if (training(experiment).train.checkpoint.every == 0) return;
  folder_ = checkpoint_folder(experiment);
  if (group.rank() == 0) begin(resumed);
}

void RunSaver::begin(const fs::path& resumed) {
  try {
    fs::create_directories(folder_);
    lock_ = lock(folder_);
    check_checkpoint_folder(experiment_, resumed);
    remove_unfinished(folder_);
  } catch (const fs::filesystem_error& error) {
    throw_cannot_save(folder_, error.code().message());
  }
}

void RunSaver::after_step(std::int64_t index) {
  if (folder_.empty()) return;
  const std::int64_t step = index + 1, every = training(experiment_).train.checkpoint.every;
  if (step % every != 0 && step != trainer_.steps().end) return;
  const std::int64_t begin_ns = now_ns();
  const std::string failure = save(step);
  SavedCheckpoint saved{.step = step, .seconds = to_ms(now_ns() - begin_ns) * 1e-3};
  saved.failure = failure;
  if (failure.empty()) {
    saved.folder = (folder_ / checkpoint_name(step)).string();
    saved.bytes = bytes_of_files(saved.folder);
  } else if (group_.rank() == 0) {
    spdlog::warn("the checkpoint of step {} was not saved: {}", step, failure);
  }
  saved_.push_back(std::move(saved));
}

std::string RunSaver::save(std::int64_t step) {
  const fs::path hidden = hidden_path(folder_, step);
  const bool first = group_.rank() == 0;
  std::vector<SharedFile> shared;
  std::string failure = words_of_failure([&] {
    shared = shared_files();
    if (first) create_files(hidden, shared);
  });
  failure = first_of_all(group_, failure);
  if (!failure.empty()) return failure;
  CheckpointState own;
  failure = words_of_failure([&] { own.files = write_own(hidden, shared); });
  const std::vector<std::string> hashes = group_.all_gather_object(to_json_text(own));
  failure = first_of_all(group_, failure);
  if (!failure.empty()) return failure;
  failure = words_of_failure([&] {
    if (first) complete(hidden, step, hashes);
  });
  return first_of_all(group_, failure);
}

std::vector<RunSaver::SharedFile> RunSaver::shared_files() {
  DataParallel& data_parallel = trainer_.data_parallel();
  std::vector<SharedFile> out;
  const auto add = [&](const char* name, SharedTensors tensors) {
    out.push_back({name, TensorFileLayout(std::move(tensors.all)), std::move(tensors.own)});
  };
  add(kModelFile, shared_parameters(data_parallel));
  add(kOptimizerFile, shared_moments(data_parallel));
  return out;
}

void RunSaver::create_files(const fs::path& hidden, const std::vector<SharedFile>& shared) {
  fs::remove_all(hidden);
  fs::create_directory(hidden);
  for (const SharedFile& file : shared) create_tensor_file(hidden / file.name, file.layout);
}

std::map<std::string, FileHashes> RunSaver::write_own(const fs::path& hidden,
                                                      const std::vector<SharedFile>& shared) {
  std::map<std::string, FileHashes> hashes;
  for (const SharedFile& file : shared) {
    hashes[file.name] = write_parts(hidden / file.name, file.layout, file.own);
  }
  const SharedTensors alone = as_file(own_state(trainer_.data_parallel()));
  const std::string name = rank_file(group_.rank());
  if (!alone.all.empty()) hashes[name] = write_tensor_file(hidden / name, alone);
  return hashes;
}

void RunSaver::complete(const fs::path& hidden, std::int64_t step,
                        const std::vector<std::string>& hashes) {
  CheckpointState state{.step = step,
                        .updates = trainer_.data_parallel().optimizer().updates(),
                        .ranks = group_.size(),
                        .global_batch = global_batch(experiment_),
                        .strategy = experiment_.plugin(PluginKind::strategy).name,
                        .precision = experiment_.plugin(PluginKind::precision).name,
                        .optimizer = name_of(training(experiment_).optimizer.name),
                        .ddprun = DDPRUN_VERSION,
                        .torch = TORCH_VERSION,
                        .config = to_yaml(resolve(experiment_)),
                        .data = planned_hash(experiment_, kDataPath)};
  for (const std::string& text : hashes) {
    for (const auto& [file, hashes_of_rank] : state_from_text(text).files) {
      FileHashes& hashes_of_all = state.files[file];
      hashes_of_all.header = hashes_of_rank.header;
      for (const auto& [name, parts] : hashes_of_rank.tensors) {
        auto& all = hashes_of_all.tensors[name];
        all.insert(all.end(), parts.begin(), parts.end());
      }
    }
  }
  const auto check = [](int error, const fs::path& path) {
    if (error != 0) throw_cannot_save(path, std::strerror(error));
  };
  check(write_durably(hidden / kStateFile, to_json_text(state)), hidden);
  const fs::path named = folder_ / checkpoint_name(step);
  if (fs::exists(named)) make_room(folder_, step);
  fs::rename(hidden, named);
  check(sync_to_disk(folder_), folder_);
  check(write_durably(folder_ / kLatestFile, checkpoint_name(step) + "\n"), folder_);
  prune(step);
}

void RunSaver::prune(std::int64_t step) {
  const std::int64_t keep = training(experiment_).train.checkpoint.keep;
  if (keep == 0) return;
  auto there = checkpoints_in(folder_);
  there.erase(there.upper_bound(step), there.end());
  while (std::ssize(there) > keep) {
    const fs::path& oldest = there.begin()->second;
    const fs::path hidden = hidden_path(folder_, there.begin()->first);
    fs::rename(oldest, hidden);  // it is whole, or it is not there
    fs::remove_all(hidden);
    there.erase(there.begin());
  }
}

}  // namespace ddprun
