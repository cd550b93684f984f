// Collects the findings of `ddprun doctor` and prints them.
#include "runner/doctor/doctor.h"

#include <fmt/format.h>

#include <algorithm>
#include <iostream>

#include "ddprun/base/json.h"
#include "ddprun/base/ranges.h"
#include "runner/command/commands.h"
#include "runner/report/terminal.h"

namespace ddprun {

namespace {

using nlohmann::json;

constexpr std::array kColours = {Colour::green, Colour::dim, Colour::yellow, Colour::red};

void print_json(const std::vector<Observation>& findings) {
  const auto line = [](const Observation& f) {
    return json{
        {"name", f.name}, {"health", name_of(f.health)}, {"text", f.text}, {"hint", f.hint}};
  };
  std::cout << json_text({{"findings", mapped(findings, line)}}, 2) << "\n";
}

void print_text(const std::vector<Observation>& findings) {
  const bool colour = terminal_of(stdout).colour;
  std::size_t name_width = 0;
  for (const Observation& f : findings) name_width = std::max(name_width, f.name.size());
  for (const Observation& f : findings) {
    const std::string health = fmt::format("{:<7}", name_of(f.health));
    std::cout << fmt::format("{}  {:<{}}  {}\n",
                             coloured(health, kColours[static_cast<std::size_t>(f.health)], colour),
                             f.name, name_width, f.text);
    if (!f.hint.empty()) std::cout << fmt::format("{:>{}}{}\n", "", 11 + name_width, f.hint);
  }
}

}  // namespace

std::vector<Observation> examine_plugins(const Request& request) {
  const PluginRegistry registry = open_registry(request);
  std::vector<Observation> findings;
  for (const PluginKind kind : kPluginKinds) {
    std::vector<PluginInfo> plugins = registry.list();
    std::erase_if(plugins, [kind](const PluginInfo& info) { return info.kind != kind; });
    const std::string names = list_text(mapped(plugins, &PluginInfo::name));
    const std::string name = std::string(to_string(kind)) + " plugins";
    findings.push_back(names.empty()
                           ? Observation{name, Health::failed, "none was found",
                                         "`ddprun list -v` shows where they were looked for"}
                           : Observation{name, Health::ok, names});
  }
  for (const std::string& refusal : registry.refused()) {
    std::string line = refusal;
    std::ranges::replace(line, '\n', ';');
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
  return contains(findings, Health::failed, &Observation::health) ? kExitFailed : kExitDone;
}

}  // namespace ddprun
