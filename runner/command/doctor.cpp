// Collects the findings of `ddprun doctor` and prints them.
#include "runner/command/doctor.h"

#include <fmt/format.h>

#include <algorithm>
#include <iostream>
#include <nlohmann/json.hpp>

#include "ddprun/config/registry.h"
#include "runner/report/terminal.h"

namespace ddprun {

namespace {

using nlohmann::json;

const char* colour_of(Health health) {
  switch (health) {
    case Health::ok:
      return "\033[32m";
    case Health::absent:
      return "\033[2m";
    case Health::warning:
      return "\033[33m";
    case Health::failed:
      return "\033[31m";
  }
  return "";
}

void print_json(const std::vector<Observation>& findings) {
  json lines = json::array();
  for (const Observation& f : findings) {
    lines.push_back(
        {{"name", f.name}, {"health", to_string(f.health)}, {"text", f.text}, {"hint", f.hint}});
  }
  std::cout << json{{"findings", std::move(lines)}}.dump(2, ' ', false,
                                                         json::error_handler_t::replace)
            << "\n";
}

void print_text(const std::vector<Observation>& findings) {
  const bool colour = terminal_of(stdout).colour;
  std::size_t name_width = 0;
  for (const Observation& f : findings) name_width = std::max(name_width, f.name.size());
  for (const Observation& f : findings) {
    std::cout << fmt::format("{}{:<7}{}  {:<{}}  {}\n", colour ? colour_of(f.health) : "",
                             to_string(f.health), colour ? "\033[0m" : "", f.name, name_width,
                             f.text);
    if (!f.hint.empty()) std::cout << fmt::format("{:>{}}{}\n", "", 11 + name_width, f.hint);
  }
}

}  // namespace

const char* to_string(Health health) {
  switch (health) {
    case Health::ok:
      return "ok";
    case Health::absent:
      return "absent";
    case Health::warning:
      return "warning";
    case Health::failed:
      return "failed";
  }
  return "unknown";
}

std::vector<Observation> examine_plugins(const Request& request) {
  const PluginRegistry registry(
      plugin_search_path({request.plugin_paths.begin(), request.plugin_paths.end()}));
  std::vector<Observation> findings;
  for (const PluginKind kind :
       {PluginKind::strategy, PluginKind::precision, PluginKind::attention}) {
    std::string names;
    for (const PluginInfo& info : registry.list()) {
      if (info.kind == kind) names += (names.empty() ? "" : ", ") + info.name;
    }
    const std::string name = std::string(to_string(kind)) + " plugins";
    findings.push_back(names.empty()
                           ? Observation{name, Health::failed, "none was found",
                                         "`ddprun list -v` shows where they were looked for"}
                           : Observation{name, Health::ok, names});
  }
  for (const std::string& refusal : registry.refused()) {
    std::string line = refusal;
    std::replace(line.begin(), line.end(), '\n', ';');
    findings.push_back({"refused plugin", Health::failed, line});
  }
  return findings;
}

int doctor_command(const Request& request) {
  std::vector<Observation> findings;
  const auto add = [&findings](std::vector<Observation> more) {
    findings.insert(findings.end(), more.begin(), more.end());
  };
  std::vector<Observation> ranks = examine_ranks();  // forks, so before what starts threads
  std::vector<Observation> cuda = examine_cuda();
  add(examine_machine());
  add(std::move(ranks));
  add({examine_mpi()});
  add(examine_plugins(request));
  add(std::move(cuda));
  if (request.json) {
    print_json(findings);
  } else {
    print_text(findings);
  }
  const bool failed = std::any_of(findings.begin(), findings.end(),
                                  [](const Observation& f) { return f.health == Health::failed; });
  return failed ? kExitFailed : kExitDone;
}

}  // namespace ddprun
