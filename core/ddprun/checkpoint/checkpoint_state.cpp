// state.json, and the names of folders and files.
#include "ddprun/checkpoint/checkpoint_state.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <stdexcept>

#include "ddprun/base/error.h"
#include "ddprun/base/hash.h"
#include "ddprun/base/json.h"
#include "ddprun/base/regular_file.h"
#include "ddprun/base/text.h"

namespace ddprun {

namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr int kFormat = 1;
constexpr std::string_view kPrefix = "step-";
constexpr const char* kOwnHash = "hash";

[[noreturn]] void throw_unreadable(const fs::path& file, const std::string& why) {
  throw ConfigError({.what = "no checkpoint can be read there",
                     .where = file.string(),
                     .got = why,
                     .expected = "what train.checkpoint writes",
                     .hint = "name the folder of another checkpoint of the run: PATH/step-..."});
}

std::string hash_text(std::uint64_t hash) { return fmt::format("{:016x}", hash); }

std::uint64_t hash_in(const json& in) {
  const auto text = in.get<std::string>();
  const auto hash = hash_from_hex(text);
  if (!hash) throw std::runtime_error("no hash: " + text);
  return *hash;
}

/// Of the text without it, so that a state is not taken for another's.
std::string own_hash(const json& state) { return hash_text(hash64(json_text(state))); }

std::string read_line(const fs::path& file) {
  try {
    const std::string text = read_whole(file);
    return text.substr(0, text.find('\n'));
  } catch (const std::runtime_error& error) {
    throw_unreadable(file, error.what());
  }
}

}  // namespace

/// [begin, count, "hash"]
static void to_json(json& out, const PartHash& part) {
  out = {part.begin, part.count, hash_text(part.hash)};
}

static void from_json(const json& in, PartHash& part) {
  part = {in.at(0).get<std::int64_t>(), in.at(1).get<std::int64_t>(), hash_in(in.at(2))};
}

static void to_json(json& out, const FileHashes& file) {
  out = {{"header", hash_text(file.header)}, {"tensors", file.tensors}};
}

static void from_json(const json& in, FileHashes& file) {
  file.header = hash_in(in.at("header"));
  in.at("tensors").get_to(file.tensors);
}

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(CheckpointState, step, updates, ranks, global_batch, strategy,
                                   precision, optimizer, ddprun, torch, config, files)

std::string rank_file(std::int64_t rank) { return fmt::format("rank-{:05}.safetensors", rank); }

std::string to_json_text(const CheckpointState& state) {
  json out = state;
  out["format"] = kFormat;
  out["data"] = hash_text(state.data);
  const std::string hash = own_hash(out);
  out[kOwnHash] = hash;
  return json_text(out) + "\n";
}

std::uint64_t hash_of(const CheckpointState& state) { return hash64(to_json_text(state)); }

CheckpointState state_from_text(const std::string& text) {
  json in = parse_json(text);
  const std::string hash = in.at(kOwnHash);
  in.erase(kOwnHash);
  if (hash != own_hash(in)) throw std::runtime_error("another hash of itself than when saved");
  if (in.at("format") != kFormat) throw std::runtime_error("format " + in.at("format").dump());
  auto state = in.get<CheckpointState>();
  state.data = hash_in(in.at("data"));
  if (state.step < 0 || state.updates < 0 || state.ranks < 1) throw std::runtime_error("a number");
  return state;
}

CheckpointState read_state(const fs::path& folder) {
  const fs::path file = folder / kStateFile;
  try {
    return state_from_text(read_whole(file));
  } catch (const std::runtime_error& error) {
    throw_unreadable(file, error.what());
  } catch (const json::exception& error) {
    throw_unreadable(file, error.what());
  }
}

std::string checkpoint_name(std::int64_t step) { return fmt::format("{}{:08}", kPrefix, step); }

std::int64_t checkpoint_step(const std::string& name) {
  if (!name.starts_with(kPrefix)) return -1;
  return number_from<std::int64_t>(name.substr(kPrefix.size())).value_or(-1);
}

std::map<std::int64_t, fs::path> checkpoints_in(const fs::path& folder) {
  std::map<std::int64_t, fs::path> out;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
    const std::int64_t step = checkpoint_step(entry.path().filename());
    if (step >= 0 && fs::exists(entry.path() / kStateFile)) out[step] = entry.path();
  }
  return out;
}

fs::path find_checkpoint(const fs::path& path) {
  std::error_code ignored;
  if (fs::exists(path / kStateFile, ignored)) return path;
  const fs::path latest = path / kLatestFile;
  if (!fs::exists(latest, ignored)) {  // whoever saved the first one died before it wrote that
    if (!fs::is_directory(path, ignored)) return {};
    const auto there = checkpoints_in(path);
    return there.empty() ? fs::path() : there.rbegin()->second;
  }
  const std::string name = read_line(latest);
  if (checkpoint_step(name) < 0 || !fs::exists(path / name / kStateFile, ignored)) {
    throw_unreadable(latest, "'" + name + "', which is not there");
  }
  return path / name;
}

fs::path checkpoint_at(const fs::path& path, const std::string& hint) {
  fs::path found = find_checkpoint(path);
  if (!found.empty()) return found;
  throw ConfigError({.what = "there is no checkpoint",
                     .where = path.string(),
                     .got = fs::is_directory(path) ? "a folder without one"
                            : fs::exists(path)     ? "no folder"
                                                   : "nothing of that name",
                     .expected = "a checkpoint, or a folder of them",
                     .hint = hint});
}

}  // namespace ddprun
