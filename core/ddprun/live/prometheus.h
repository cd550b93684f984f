// `output.prometheus`: a file in the text format of Prometheus.
#pragma once

#include <cstdint>
#include <filesystem>

#include "ddprun/live/live_writer.h"

namespace ddprun {

class PrometheusFile final : public LiveWriter {
 public:
  explicit PrometheusFile(std::filesystem::path path) : path_(std::move(path)) {}
  void begin(const LiveRun& run) override;
  /// Writes the file if the last time is a second ago.
  void step(const LiveSample& sample) override;
  void end(const std::string& status) override;

 private:
  void write(bool running);

  std::filesystem::path path_;
  LiveRun run_;
  LiveSample last_;
  std::int64_t steps_done_ = 0, written_ns_ = 0;
};

}  // namespace ddprun
