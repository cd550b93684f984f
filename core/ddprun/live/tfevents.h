// `output.tensorboard`: an event file, as TensorBoard reads it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "ddprun/live/live_file.h"
#include "ddprun/live/live_writer.h"

namespace ddprun {

/// CRC-32C (Castagnoli).
std::uint32_t crc32c(std::string_view bytes);
/// A record of the format TFRecord: length, masked sum of the length, bytes, masked sum of these.
std::string tf_record(std::string_view bytes);

class TfEvents final : public LiveWriter {
 public:
  /// The file gets a name of its own in `folder`.
  explicit TfEvents(std::filesystem::path folder) : folder_(std::move(folder)) {}
  void begin(const LiveRun& run) override;
  void step(const LiveSample& sample) override;
  void end(const std::string& /*status*/) override {}

 private:
  std::filesystem::path folder_;
  std::optional<LiveFile> file_;
};

}  // namespace ddprun
