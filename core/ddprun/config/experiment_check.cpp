// Settings of any kind that contradict each other, or that would be ignored: refused before any
// rank starts.
#include "ddprun/config/experiment_check.h"

#include <fmt/format.h>

#include <string_view>
#include <utility>

#include "ddprun/base/choice.h"
#include "ddprun/base/text.h"
#include "ddprun/config/sweep.h"

namespace ddprun {

namespace {

void check_name(const Experiment& e) {
  constexpr std::string_view kLetters =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-";
  constexpr std::size_t kLongest = 255;  // of a folder's name on Linux
  const bool letters = e.name.find_first_not_of(kLetters) == std::string::npos;
  const bool fits = !e.name.empty() && e.name.size() <= kLongest;
  if (letters && fits && !e.name.starts_with('.') && e.name != "latest") return;
  const bool given = e.document.find("name") != nullptr;
  refuse(
      e, "name",
      {.what = "the experiment's name cannot name a folder",
       .got = printable_line(e.name),
       .expected = "at most 255 letters, digits, '.', '_' and '-', not starting with '.', and not "
                   "\"latest\"",
       .hint = given ? "results stand in a folder of this name"
                     : "it is the file's name; add name: to the file"});
}

// Options of gloo, where another backend may run.
void check_backend(const Experiment& e) {
  const CommConfig& comm = e.world.comm;
  const CommConfig defaults;
  if (comm.backend == BackendKind::gloo || comm.backend == BackendKind::hierarchical) return;
  for (const auto& [changed, key] :
       {std::pair{comm.gloo_threads != defaults.gloo_threads, "world.gloo_threads"},
        {comm.interface != defaults.interface, "world.interface"}}) {
    refuse_if(e, changed, key,
              {.what = std::string(key) + " is an option of gloo",
               .got = said("world.backend", name_of(comm.backend)),
               .expected = "world.backend gloo or hierarchical",
               .hint = "add one of them, or remove it"});
  }
}

// A backend of the other device.
void check_backend_of_device(const Experiment& e) {
  const bool cuda = e.world.device == DeviceKind::cuda;
  const BackendKind backend = e.world.comm.backend;
  refuse_if(e, cuda && backend != BackendKind::automatic && backend != BackendKind::nccl,
            "world.backend",
            {.what = said("world.backend", name_of(backend)) + " joins ranks on the CPU",
             .got = "world.device cuda",
             .expected = "nccl or auto",
             .hint = "remove `backend:`, or run on device cpu"});
  refuse_if(e, !cuda && backend == BackendKind::nccl, "world.backend",
            {.what = "world.backend nccl joins ranks on GPUs",
             .got = said("world.device", name_of(e.world.device)),
             .expected = "auto, gloo, shm, hierarchical or mpi",
             .hint = "add `device: cuda`, or take another backend"});
}

// What the CPU has no need of.
void check_emulation(const Experiment& e) {
  refuse_if(e, e.world.device == DeviceKind::cpu && e.world.emulate_ranks_on_one_gpu,
            "world.emulate_ranks_on_one_gpu",
            {.what = "world.emulate_ranks_on_one_gpu needs a GPU",
             .got = said("world.device", name_of(e.world.device)),
             .expected = "world.device cuda",
             .hint = "ranks on the CPU share it anyway: remove the option"});
}

// A GPU's memory is not the process's.
void check_memory_limit(const Experiment& e) {
  const bool limited = e.world.memory_limit_gb != 0;
  refuse_if(e, e.world.device != DeviceKind::cpu && limited, "world.memory_limit_gb",
            {.what = "world.memory_limit_gb limits the memory of the host",
             .got = said("world.device", name_of(e.world.device)),
             .expected = "world.device cpu",
             .hint = "remove it"});
}

// What only a kind writes that has live outputs.
void check_live_outputs(const Experiment& e) {
  if (e.kind->has_live_outputs()) return;
  const std::string kind = said("experiment", e.kind->name());
  refuse_unused(e, e.live.jsonl, "output.jsonl", kind);
  refuse_unused(e, e.live.tensorboard, "output.tensorboard", kind);
  refuse_unused(e, e.live.mllog, "output.mllog", kind);
  refuse_unused(e, !e.live.prometheus.empty(), "output.prometheus", kind);
}

}  // namespace

std::string said(const char* key, const std::string& value) { return key + (" " + value); }

std::string origin_of(const ConfigNode& document, const std::string& path) {
  const ConfigNode* node = &document;
  for (const std::string& key : split_at(path, '.')) {
    const ConfigNode* child = node->find(key);
    if (child == nullptr) break;
    node = child;
  }
  return node->key_origin.empty() ? node->origin : node->key_origin;
}

void refuse(const Experiment& e, const std::string& path, ErrorText text) {
  text.where = origin_of(e.document, path);
  throw ConfigError(std::move(text));
}

void refuse_if(const Experiment& e, bool wrong, const std::string& path, ErrorText text) {
  if (wrong) refuse(e, path, std::move(text));
}

void refuse_above(const Experiment& e, const std::string& path, const MemoryNeed& need,
                  double available, ErrorText text) {
  const double all = static_cast<double>(need.ranks) * need.each;
  if (all <= available) return;
  text.got = fmt::format("{} of {:.2f} GB each {}, {:.2f} GB more than there is",
                         need.ranks == 1 ? "a rank" : fmt::format("{} ranks", need.ranks),
                         need.each * 1e-9, need.of, (all - available) * 1e-9);
  text.expected = fmt::format("at most {:.2f} GB, which are available", available * 1e-9);
  refuse(e, path, std::move(text));
}

ErrorText at_point(ErrorText text, const std::string& label) {
  if (label.empty()) return text;
  text.where += (text.where.empty() ? "" : ", ") + ("in the sweep at " + label);
  return text;
}

void refuse_unused(const Experiment& e, bool changed, const std::string& path,
                   const std::string& neighbour) {
  if (!changed) return;
  const ConfigNode* const given = at_path(e.document, path);
  refuse(e, path,
         {.what = path + " has no effect with " + neighbour,
          .got = given == nullptr ? "a value that is not the default" : compact(*given),
          .expected = "no " + path,
          .hint = "remove it, or change what it depends on"});
}

void refuse_several_ranks(const Experiment& e, ErrorText text) {
  if (e.world.size == 1) return;
  text.got = said("world.size", std::to_string(e.world.size));
  text.expected = "world.size 1";
  refuse(e, "world.size", std::move(text));
}

void check_experiment(const Experiment& experiment) {
  check_name(experiment);
  check_backend(experiment);
  check_backend_of_device(experiment);
  check_emulation(experiment);
  check_memory_limit(experiment);
  check_live_outputs(experiment);
}

}  // namespace ddprun
