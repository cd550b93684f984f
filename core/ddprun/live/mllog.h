// `output.mllog`: lines as mlperf-logging writes them. They are no MLPerf result.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <source_location>

#include "ddprun/live/live_file.h"
#include "ddprun/live/live_writer.h"

namespace ddprun {

class Mllog final : public LiveWriter {
 public:
  explicit Mllog(std::filesystem::path path) : path_(std::move(path)) {}
  void begin(const LiveRun& run) override;
  void steps_begin(const LiveFormats& formats) override;
  void step(const LiveSample& sample) override;
  void end(const std::string& status) override;

 private:
  void log(const char* event_type, const char* key, const nlohmann::json& value,
           const nlohmann::json& metadata,
           std::source_location place = std::source_location::current());
  void point(const char* key, const nlohmann::json& value,
             std::source_location place = std::source_location::current());
  void log_batches();
  void log_optimizer();
  void log_formats(const LiveFormats& formats);
  void begin_block();
  void end_block();
  /// {"samples_count": sequences that were trained on}
  nlohmann::json samples() const;

  std::filesystem::path path_;
  std::optional<LiveFile> file_;
  LiveRun run_;
  std::int64_t steps_done_ = 0;
  bool run_began_ = false, in_block_ = false;
};

}  // namespace ddprun
