// `output.jsonl`: a line of JSON a step.
#pragma once

#include <optional>

#include "ddprun/live/live_file.h"
#include "ddprun/live/live_writer.h"

namespace ddprun {

class JsonLines final : public LiveWriter {
 public:
  explicit JsonLines(std::filesystem::path path) : path_(std::move(path)) {}
  void begin(const LiveRun& run) override;
  void step(const LiveSample& sample) override;
  void end(const std::string& status) override;

 private:
  std::filesystem::path path_;
  std::optional<LiveFile> file_;
  LiveRun run_;
  std::int64_t steps_done_ = 0;
};

}  // namespace ddprun
