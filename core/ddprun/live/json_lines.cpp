// `output.jsonl`: a line of JSON a step.
// A line is written at once, so `tail -f` and jq see whole lines.
#include <nlohmann/json.hpp>
#include <optional>

#include "ddprun/base/json.h"
#include "ddprun/live/live_file.h"
#include "ddprun/live/live_writer.h"

namespace ddprun {

namespace {

using Json = nlohmann::ordered_json;

std::string text_of(const Json& line) {
  return line.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

void add_time(Json& line, const LiveRun& run) {
  const std::int64_t ms = unix_ms();
  line["row"] = run.row;
  line["run"] = run.run;
  line["time"] = iso_time(ms);
  line["time_s"] = static_cast<double>(ms) / 1e3;
}

class JsonLines final : public LiveWriter {
 public:
  explicit JsonLines(std::filesystem::path path) : path_(std::move(path)) {}
  void begin(const LiveRun& run) override {
    run_ = run;
    steps_done_ = run.first_step;
    file_.emplace(path_);
  }
  void step(const LiveSample& sample) override {
    Json line = {
        {"step", sample.step}, {"warmup", sample.warmup}, {"loss", json_number(sample.loss)}};
    const auto add = [&line](const char* key, const std::optional<double>& value) {
      if (value) line[key] = json_number(*value);
    };
    add("lr", sample.lr);
    add("gradient_norm", sample.gradient_norm);
    add("step_ms", sample.step_ms);
    add("tokens_per_s", sample.tokens_per_s);
    add("validation_loss", sample.validation_loss);
    add("bits_per_byte", sample.bits_per_byte);
    add_time(line, run_);
    file_->append(text_of(line));
    steps_done_ = sample.step + 1;
  }
  void end(const std::string& status) override {
    Json line = {{"status", status}, {"steps_done", steps_done_}, {"steps", run_.steps}};
    add_time(line, run_);
    file_->append(text_of(line));
  }

 private:
  std::filesystem::path path_;
  std::optional<LiveFile> file_;
  LiveRun run_;
  std::int64_t steps_done_ = 0;
};

}  // namespace

std::unique_ptr<LiveWriter> make_json_lines(const std::filesystem::path& path) {
  return std::make_unique<JsonLines>(path);
}

}  // namespace ddprun
