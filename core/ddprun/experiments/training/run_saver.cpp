// A checkpoint in three parts: rank 0 makes the files, all ranks write, rank 0 names the folder.
#include "ddprun/experiments/training/run_saver.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/tensor.h>
#include <c10/core/GradMode.h>
#include <fmt/format.h>
#include <spdlog/spdlog.h>
#include <torch/headeronly/version.h>

#include <algorithm>
#include <system_error>
#include <utility>

#include "ddprun/base/choice.h"
#include "ddprun/base/clock.h"
#include "ddprun/base/error.h"
#include "ddprun/base/failure.h"
#include "ddprun/base/hash.h"
#include "ddprun/base/text.h"
#include "ddprun/checkpoint/checkpoint_state.h"
#include "ddprun/device/device.h"
#include "ddprun/experiments/training/training_config.h"
#include "ddprun/kernels/rows/convert.h"
#include "ddprun/parallel/first_of_all.h"
#include "ddprun/parallel/training_state.h"

namespace ddprun {

namespace {

namespace fs = std::filesystem;

/// Returns the words of what `work` threw, on one line; a peer that is gone is no such failure.
std::string words_of_failure(const std::function<void()>& work) {
  try {
    work();
  } catch (const CommError&) {
    throw;
  } catch (const Error& error) {
    return fmt::format("{}: {}: {}", error.text().what, error.text().where, error.text().got);
  } catch (const std::exception& error) {  // memory, too
    return first_line_of(error);
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

/// `place` is on the CPU, and both are 1-D.
void copy_to(const at::Tensor& place, const at::Tensor& values) {
  if (!values.is_cpu() || !values.is_contiguous()) {
    place.copy_(values);
    return;
  }
  kernels::copy_past_caches(static_cast<std::int64_t>(values.nbytes()), values.const_data_ptr(),
                            place.mutable_data_ptr());
}

std::int64_t bytes_of_files(const fs::path& folder) {
  std::int64_t bytes = 0;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
    bytes += static_cast<std::int64_t>(entry.file_size());
  }
  return bytes;
}

}  // namespace

fs::path checkpoint_folder(const Experiment& experiment) {
  const CheckpointConfig& config = training(experiment).train.checkpoint;
  if (config.path.empty()) return {};
  constexpr std::size_t kLongestName = 255;  // of file systems
  std::string point = experiment.label;
  std::erase(point, ' ');
  std::ranges::replace(point, '/', '_');
  if (point.size() > kLongestName) {
    const std::string tail = fmt::format("-{:016x}", hash64(experiment.label));
    point = point.substr(0, kLongestName - tail.size()) + tail;
  }
  return fs::absolute(fs::path(config.path) / point).lexically_normal();
}

void check_checkpoint_folder(const Experiment& experiment, const fs::path& resumed) {
  const fs::path folder = checkpoint_folder(experiment);
  if (!training(experiment).train.checkpoint.saves() || !fs::exists(folder)) return;
  const auto there = checkpoints_in(folder);
  if (there.empty()) return;
  std::error_code ignored;
  if (!resumed.empty() && fs::equivalent(resumed.parent_path(), folder, ignored)) return;
  throw ConfigError(
      {.what = "the folder has checkpoints of an earlier run",
       .where = folder.string(),
       .got = there.rbegin()->second.filename().string(),
       .expected = "a folder without checkpoints, or a run that goes on from them",
       .hint = "train.resume_from: latest goes on; to begin anew, remove the folder or set another "
               "train.checkpoint.path"});
}

RunSaver::RunSaver(const Experiment& experiment, Trainer& trainer, ProcessGroup& group,
                   const fs::path& resumed)
    : experiment_(experiment), trainer_(trainer), group_(group), last_ns_(now_ns()) {
  const CheckpointConfig& config = training(experiment).train.checkpoint;
  if (!config.saves()) return;
  check_carried_is_declared(trainer.data_parallel());
  path_ = checkpoint_folder(experiment);
  if (config.on_signal) signals_.emplace();
  if (group.rank() != 0) return;
  folder_.emplace(path_);
  check_checkpoint_folder(experiment_, resumed);
}

RunSaver::Asked RunSaver::ask_all() {
  const CheckpointConfig& config = training(experiment_).train.checkpoint;
  if (config.minutes == 0 && !signals_ && !pending_) return {};
  const double minutes = seconds_since(last_ns_) / 60;
  const bool time = group_.rank() == 0 && config.minutes > 0 && minutes >= config.minutes;
  const bool save = signals_ && signals_->take_save();
  const bool end = signals_ && signals_->to_end();
  const bool works = pending_ && !pending_->done;
  at::Tensor votes = at::tensor(std::vector<float>{time || save ? 1.0F : 0.0F, end ? 1.0F : 0.0F,
                                                   works ? 1.0F : 0.0F})
                         .to(group_.device().torch_device());
  group_.all_reduce(votes, ReduceOp::sum, "checkpoint").wait();
  votes = votes.cpu();
  const float* const sums = votes.const_data_ptr<float>();
  return {.save = sums[0] > 0, .end = sums[1] > 0, .all_done = sums[2] == 0};
}

bool RunSaver::due(std::int64_t step, const Asked& asked) const {
  const std::int64_t every = training(experiment_).train.checkpoint.every;
  return asked.save || asked.end || (every > 0 && step % every == 0) ||
         step == trainer_.steps().end;
}

void RunSaver::after_step(std::int64_t index) {
  if (path_.empty()) return;
  const std::int64_t step = index + 1;
  if (pending_) ++pending_->steps_beside;
  const Asked asked = ask_all();
  const bool now = due(step, asked);
  if (pending_ && asked.all_done) go_on();
  if (!now) return;
  while (pending_) go_on();
  begin(step);
  const bool goes_on = !asked.end && step != trainer_.steps().end;
  while (pending_ && !(training(experiment_).train.checkpoint.async && goes_on)) go_on();
  if (!asked.end) return;
  const bool good = saved_.back().failure.empty();
  if (group_.rank() == 0 && good)
    spdlog::warn("saved as {}, as SIGTERM asked", saved_.back().folder);
  throw Error({.what = "the run was asked to end",
               .where = "SIGTERM",
               .got = fmt::format("{} of {} done, {}", step, counted(trainer_.steps().end, "step"),
                                  good ? "saved as " + saved_.back().folder : "not saved"),
               .expected = "to end, with train.checkpoint.on_signal after a save",
               .hint = "train.resume_from: latest goes on"});
}

void RunSaver::begin(std::int64_t step) {
  pending_ = std::make_unique<Pending>();
  Pending& pending = *pending_;
  pending.step = step;
  pending.updates = trainer_.data_parallel().optimizer().updates();
  pending.begin_ns = last_ns_ = now_ns();
  const std::string failure = words_of_failure([&] {
    pending.shared = shared_files();
    pending.alone = as_file(own_state(trainer_.data_parallel()));
    if (!folder_) return;
    folder_->begin(step);
    for (const SharedFile& file : pending.shared) {
      create_tensor_file(hidden_checkpoint(path_, step) / file.name, file.layout);
    }
  });
  if (const std::string refused = first_of_all(group_, failure); !refused.empty()) {
    pending.stall_s = seconds_since(pending.begin_ns);
    end_save(refused);
    return;
  }
  const bool async = training(experiment_).train.checkpoint.async;
  pending.failure = words_of_failure([&] {
    if (async) copy_state(pending);
  });
  if (pending.failure.empty()) {
    work_on([this](Pending& own) { write_own(own); });
  } else {
    pending.done = true;
  }
  pending.stall_s = seconds_since(pending.begin_ns);
}

void RunSaver::work_on(const std::function<void(Pending&)>& part) {
  pending_->done = false;
  const auto work = [&pending = *pending_, part] {
    pending.failure = words_of_failure([&] { part(pending); });
    pending.done = true;
  };
  if (!training(experiment_).train.checkpoint.async) return work();
  pending_->failure = words_of_failure([&] { pending_->worker = std::jthread(work); });
  if (!pending_->failure.empty()) pending_->done = true;
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

void RunSaver::copy_state(Pending& pending) {
  const c10::NoGradGuard no_grad;
  std::size_t number = 0;
  const auto copy = [&](TensorPart& part) {
    if (!part.writes) return;
    if (number == copies_.size()) copies_.emplace_back();
    at::Tensor& place = copies_[number++];
    const bool fits = place.defined() && place.sizes() == part.values.sizes() &&
                      place.scalar_type() == part.values.scalar_type();
    if (!fits) place = at::empty_like(part.values, at::TensorOptions(at::kCPU));
    copy_to(place, part.values);
    part.values = place;
  };
  for (SharedFile& file : pending.shared) std::ranges::for_each(file.own, copy);
  std::ranges::for_each(pending.alone.own, copy);
}

void RunSaver::write_own(Pending& pending) const {
  const fs::path hidden = hidden_checkpoint(path_, pending.step);
  for (const SharedFile& file : pending.shared) {
    pending.hashes[file.name] = write_parts(hidden / file.name, file.layout, file.own);
  }
  const std::string name = rank_file(group_.rank());
  if (!pending.alone.all.empty()) {
    pending.hashes[name] = write_tensor_file(hidden / name, pending.alone);
  }
}

void RunSaver::go_on() {
  Pending& pending = *pending_;
  const std::int64_t begin_ns = now_ns();
  wait_for_work();
  const std::string failure = first_of_all(group_, pending.failure);
  const bool names = failure.empty() && !pending.named;
  if (names) {
    CheckpointState own;
    own.files = pending.hashes;
    const std::vector<std::string> hashes = group_.all_gather_object(to_json_text(own));
    pending.named = true;
    if (folder_) work_on([this, hashes](Pending& mine) { name(mine, hashes); });
  }
  pending.stall_s += seconds_since(begin_ns);
  if (!names) end_save(failure);
}

void RunSaver::name(Pending& pending, const std::vector<std::string>& hashes) {
  const CheckpointConfig& config = training(experiment_).train.checkpoint;
  folder_->complete(state_of(pending, hashes));
  folder_->prune(pending.step, config.keep, config.keep_every);
  pending.bytes = bytes_of_files(path_ / checkpoint_name(pending.step));
}

void RunSaver::end_save(const std::string& failure) {
  SavedCheckpoint saved{.step = pending_->step,
                        .seconds = seconds_since(pending_->begin_ns),
                        .stall_seconds = pending_->stall_s,
                        .steps_beside = pending_->steps_beside,
                        .failure = failure};
  if (failure.empty()) {
    saved.folder = (path_ / checkpoint_name(pending_->step)).string();
    saved.bytes = pending_->bytes;
  } else if (group_.rank() == 0) {
    spdlog::warn("the checkpoint of step {} was not saved: {}", pending_->step, failure);
    words_of_failure([this] { folder_->remove_unfinished(); });  // else the next save says why
  }
  saved_.push_back(std::move(saved));
  pending_.reset();
}

void RunSaver::wait_for_work() {
  if (pending_ && pending_->worker.joinable()) pending_->worker.join();
}

CheckpointState RunSaver::state_of(const Pending& pending,
                                   const std::vector<std::string>& hashes) const {
  CheckpointState state{.step = pending.step,
                        .updates = pending.updates,
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
  return state;
}

}  // namespace ddprun
