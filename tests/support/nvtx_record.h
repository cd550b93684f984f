// Reads what nvtx_recorder.cpp, the library in a profiler's place, has recorded.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

namespace ddprun::test {

inline constexpr const char* kNvtxRecorder = DDPRUN_BUILD_DIR "/tests/libnvtx_recorder.so";

/// One call of NVTX, in the order in which they were made.
struct NvtxEvent {
  int process = 0, thread = 0;
  std::string what;      ///< push | pop | start | end
  std::uint64_t id = 0;  ///< of start and end
  std::int64_t payload = 0;
  std::string name;  ///< of an end: of its start

  std::string text() const {
    if (what == "pop") return what;
    return what + " " + name + (what == "end" ? "" : " " + std::to_string(payload));
  }
};

/// Reads the record. It is empty if there is no such file.
inline std::vector<NvtxEvent> read_nvtx_record(const std::string& file) {
  std::vector<NvtxEvent> events;
  std::map<std::pair<int, std::uint64_t>, std::string> names;
  std::ifstream in(file);
  for (std::string line; std::getline(in, line);) {
    NvtxEvent event;
    std::istringstream fields(line);
    fields >> event.process >> event.thread >> event.what >> event.id >> event.payload;
    std::getline(fields >> std::ws, event.name);
    std::string& name = names[{event.process, event.id}];
    if (event.what == "start") name = event.name;
    if (event.what == "end") event.name = name;
    events.push_back(event);
  }
  return events;
}

/// One step of one rank, as the timeline shows it.
struct NvtxStep {
  std::vector<std::string> phases;              ///< "step", "step/forward", as they began
  std::map<std::string, std::size_t> enqueued;  ///< collectives, by the phase that called them
  std::map<std::string, std::size_t> ended;     ///< the same, by the phase in which they ended
};

/// Returns the steps of each rank's process. Fails the test if ranges do not nest.
inline std::map<int, std::vector<NvtxStep>> nvtx_steps(const std::vector<NvtxEvent>& events) {
  std::map<int, std::vector<NvtxStep>> steps;
  std::map<std::pair<int, int>, std::vector<std::string>> open;  // of each thread
  std::map<int, std::string> phase;                              // of each process's step
  for (const NvtxEvent& event : events) {
    auto& stack = open[{event.process, event.thread}];
    if (event.what == "push") {
      if (event.name == "step") steps[event.process].emplace_back();
      stack.push_back(stack.empty() ? event.name : stack.back() + "/" + event.name);
    } else if (event.what == "pop") {
      EXPECT_FALSE(stack.empty());
      if (!stack.empty()) stack.pop_back();
    }
    if (event.what == "push" || event.what == "pop") {
      std::string& now = phase[event.process];
      now = stack.empty() ? "" : stack.back();
      if (event.what == "push" && now.starts_with("step")) {
        steps[event.process].back().phases.push_back(now);
      }
    } else if (const std::string& now = phase[event.process]; now.starts_with("step")) {
      NvtxStep& step = steps[event.process].back();
      ++(event.what == "start" ? step.enqueued : step.ended)[now];
    }
  }
  for (const auto& [thread, stack] : open) EXPECT_TRUE(stack.empty()) << stack.back();
  return steps;
}

}  // namespace ddprun::test
