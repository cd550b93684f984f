// Collectives measured in turns between ranks that are processes, each as slow as its slowest rank.
#pragma once

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "ddprun/base/clock.h"
#include "ddprun/comm/group/process_group.h"

namespace ddprun::test {

/// What is measured, and the memory that it works on. Its rank writes that memory before each call,
/// as backward writes gradients.
struct Side {
  std::string name;
  at::Tensor memory;
  std::function<void()> call;
};

inline double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

inline nlohmann::json summary(const std::vector<double>& values) {
  const auto [least, most] = std::minmax_element(values.begin(), values.end());
  return {{"median_ms", median(values)}, {"min_ms", *least}, {"max_ms", *most}};
}

/// This rank's times of each side, one a round. The sides take turns.
inline std::map<std::string, std::vector<double>> measure(ProcessGroup& group,
                                                          const std::vector<Side>& sides,
                                                          int rounds) {
  std::map<std::string, std::vector<double>> times;
  for (int round = -1; round < rounds; ++round) {  // the first is a warm-up
    for (const auto& [name, memory, call] : sides) {
      memory.fill_(1.0);
      group.barrier();
      const std::int64_t begin = now_ns();
      call();
      if (round >= 0) times[name].push_back(to_ms(now_ns() - begin));
    }
  }
  return times;
}

/// The times of the slowest rank, because a collective is as slow as that.
inline nlohmann::json slowest(const std::vector<std::string>& ranks,
                              const std::vector<Side>& sides) {
  nlohmann::json result;
  for (const auto& [name, memory, call] : sides) {
    std::vector<double> times;
    for (const auto& text : ranks) {
      const auto mine = nlohmann::json::parse(text).at(name).get<std::vector<double>>();
      if (times.empty()) times.assign(mine.size(), 0.0);
      for (std::size_t i = 0; i < mine.size(); ++i) times[i] = std::max(times[i], mine[i]);
    }
    result[name] = summary(times);
  }
  return result;
}

}  // namespace ddprun::test
