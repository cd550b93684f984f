// Whether the store that torchrun's agent serves speaks the protocol that ddprun speaks: one
// question of each kind, and the version of PyTorch that the agent has loaded.
#include "ddprun/comm/store/store_client.h"

#include <fmt/format.h>
#include <torch/headeronly/version.h>

#include <fstream>

#include "ddprun/base/error.h"

namespace ddprun {

namespace {

/// The first answer that is not TCPStore's, in words; empty if all are.
std::string wrong_answer(c10d::Store& store, const std::string& key) {
  store.deleteKey(key);  // of a launch that the agent has started again
  store.set(key, std::string("5"));
  if (const auto text = store.get_to_str(key); text != "5") return "SET 5, then GET: " + text;
  store.append(key, {'0'});
  if (const auto text = store.get_to_str(key); text != "50") return "APPEND 0 to 5: " + text;
  if (const auto sum = store.add(key, -52); sum != -2) return fmt::format("ADD -52 to 50: {}", sum);
  if (store.compareSet(key, std::string("-2"), std::string("x")) != "x") {
    return "COMPARE_SET of what is there: it was not set";
  }
  if (!store.check({key})) return "CHECK of a key that is there: no";
  if (!store.deleteKey(key)) return "DELETE_KEY of a key that is there: no";
  if (store.check({key})) return "CHECK of a key that was deleted: yes";
  return {};
}

/// What the version of the PyTorch is whose library this process has loaded; "unknown" if none is
/// seen.
std::string torch_of_process(int pid) {
  std::ifstream maps(fmt::format("/proc/{}/maps", pid));
  for (std::string line; std::getline(maps, line);) {
    const auto begin = line.find('/');
    const auto end = line.find("/lib/libc10.so");
    if (begin == line.npos || end == line.npos) continue;
    std::ifstream source(line.substr(begin, end - begin) + "/version.py");
    for (std::string text; std::getline(source, text);) {
      if (const auto quote = text.find('\''); text.starts_with("__version__") && quote != text.npos)
        return text.substr(quote + 1, text.find('\'', quote + 1) - quote - 1);
    }
  }
  return "unknown";
}

}  // namespace

void check_agent_store(const StorePlace& place, std::chrono::milliseconds timeout, int rank,
                       int agent) {
  std::string wrong;
  try {
    const auto store = c10::make_intrusive<StoreClient>(place, timeout);
    wrong = wrong_answer(*store, fmt::format("ddprun/protocol/{}", rank));
  } catch (const PeerGoneError& error) {
    wrong = error.text().got;
  }
  if (wrong.empty()) return;
  throw CommError({.what = "the launcher's store does not speak the protocol that ddprun speaks",
                   .where = place.where,
                   .got = fmt::format("the agent's PyTorch {}; {}", torch_of_process(agent), wrong),
                   .expected = "the TCPStore of PyTorch " TORCH_VERSION
                               ", which ddprun was built with, or of another from 2.11 to 2.15",
                   .hint = "take the torchrun of such a version, or start with ddprun alone"});
}

}  // namespace ddprun
