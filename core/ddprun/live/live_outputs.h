// All live outputs of one run. One that fails is off from then on, and training goes on.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "ddprun/live/live_config.h"
#include "ddprun/live/live_writer.h"

namespace ddprun {

class LiveOutputs {
 public:
  /// `folder`: of the run, for files of the result folder; not there yet. Nothing is asked for on
  /// ranks other than 0.
  LiveOutputs(const LiveConfig& config, const std::filesystem::path& folder);
  /// A run that did not come to end() has failed.
  ~LiveOutputs();
  LiveOutputs(const LiveOutputs&) = delete;
  LiveOutputs& operator=(const LiveOutputs&) = delete;

  bool any() const { return !writers_.empty(); }
  void begin(const LiveRun& run);
  void steps_begin(const LiveFormats& formats);
  void step(const LiveSample& sample);
  void end(const std::string& status);

 private:
  struct Writer {
    const char* key;  ///< of `output:`
    std::unique_ptr<LiveWriter> writer;
  };
  void tell_all(const std::function<void(LiveWriter&)>& tell);

  std::vector<Writer> writers_;
};

}  // namespace ddprun
