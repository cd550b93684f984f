// One key a rank in the store.
#include "ddprun/comm/exchange.h"

namespace ddprun {

std::vector<std::string> exchange(c10d::Store& store, const std::string& round, int rank, int size,
                                  const std::string& text, std::chrono::milliseconds timeout) {
  std::vector<std::string> keys;
  for (int peer = 0; peer < size; ++peer) keys.push_back(round + "/" + std::to_string(peer));
  store.set(keys[rank], text);
  store.wait(keys, timeout);
  std::vector<std::string> texts;
  for (const auto& key : keys) texts.push_back(store.get_to_str(key));
  // Rank 0 may serve the store, and end when it has seen a text that is a refusal.
  if (store.add(round + "/readers", 1) == size) store.set(round + "/read", std::string("1"));
  if (rank == 0) store.wait({round + "/read"}, timeout);
  return texts;
}

}  // namespace ddprun
