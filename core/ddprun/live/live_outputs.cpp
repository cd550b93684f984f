// Tells each writer in turn.
#include "ddprun/live/live_outputs.h"

#include <spdlog/spdlog.h>

namespace ddprun {

LiveOutputs::LiveOutputs(const LiveConfig& config, const std::filesystem::path& folder) {
  if (config.jsonl) writers_.push_back({"jsonl", make_json_lines(folder / "steps.jsonl")});
  if (config.tensorboard) writers_.push_back({"tensorboard", make_tfevents(folder)});
  if (config.mllog) writers_.push_back({"mllog", make_mllog(folder / "mllog.txt")});
  if (!config.prometheus.empty()) {
    writers_.push_back({"prometheus", make_prometheus_file(config.prometheus)});
  }
}

LiveOutputs::~LiveOutputs() { end(kLiveFailed); }

void LiveOutputs::begin(const LiveRun& run) {
  tell_all([&run](LiveWriter& writer) { writer.begin(run); });
}

void LiveOutputs::steps_begin(const LiveFormats& formats) {
  tell_all([&formats](LiveWriter& writer) { writer.steps_begin(formats); });
}

void LiveOutputs::step(const LiveSample& sample) {
  tell_all([&sample](LiveWriter& writer) { writer.step(sample); });
}

void LiveOutputs::end(const std::string& status) {
  tell_all([&status](LiveWriter& writer) { writer.end(status); });
  writers_.clear();
}

void LiveOutputs::tell_all(const std::function<void(LiveWriter&)>& tell) {
  std::erase_if(writers_, [&tell](Writer& each) {
    try {
      tell(*each.writer);
      return false;
    } catch (const std::exception& error) {
      spdlog::warn("output.{} is off from here on, and training goes on: {}", each.key,
                   error.what());
      return true;
    }
  });
}

}  // namespace ddprun
