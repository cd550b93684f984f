// `output.prometheus`: a file in the text format of Prometheus.
// Each metric with its HELP and TYPE. Base units, as Prometheus asks for: seconds, not ms.
#include <fmt/format.h>

#include <boost/algorithm/string/replace.hpp>
#include <cmath>
#include <utility>

#include "ddprun/base/clock.h"
#include "ddprun/live/live_file.h"
#include "ddprun/live/live_writer.h"

namespace ddprun {

namespace {

constexpr std::int64_t kSecond = 1'000'000'000;

std::string label(std::string text) {
  for (const auto& [special, escaped] :
       {std::pair{"\\", R"(\\)"}, {"\"", R"(\")"}, {"\n", R"(\n)"}}) {
    boost::replace_all(text, special, escaped);
  }
  return text;
}

std::string metric_value(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "+Inf" : "-Inf";
  return fmt::format("{}", value);
}

class PrometheusFile final : public LiveWriter {
 public:
  explicit PrometheusFile(std::filesystem::path path) : path_(std::move(path)) {}
  void begin(const LiveRun& run) override {
    run_ = run;
    steps_done_ = run.first_step;
  }
  /// Writes the file if the last time is a second ago.
  void step(const LiveSample& sample) override {
    const LiveSample before = std::exchange(last_, sample);
    if (!last_.validation_loss) last_.validation_loss = before.validation_loss;
    steps_done_ = sample.step + 1;
    if (written_ns_ != 0 && now_ns() - written_ns_ < kSecond) return;
    write(/*running=*/true);
  }
  void end(const std::string& /*status*/) override { write(/*running=*/false); }

 private:
  void write(bool running) {
    written_ns_ = now_ns();
    const auto labels = fmt::format("{{row=\"{}\",run=\"{}\"}}", label(run_.row), label(run_.run));
    std::string text;
    const auto add = [&](const char* name, const char* type, const char* help,
                         std::optional<double> value) {
      if (!value) return;
      text += fmt::format("# HELP ddprun_{0} {1}\n# TYPE ddprun_{0} {2}\nddprun_{0}{3} {4}\n", name,
                          help, type, labels, metric_value(*value));
    };
    const auto count = [](std::int64_t value) { return static_cast<double>(value); };
    add("running", "gauge", "Whether the run still trains.", running ? 1 : 0);
    add("steps", "gauge", "Steps of the run in all, warm-up included.", count(run_.steps));
    add("step", "gauge", "Steps that are done.", count(steps_done_));
    const std::int64_t done = steps_done_ - run_.first_step;
    add("tokens_total", "counter", "Tokens that this run trained on.",
        count(done * run_.tokens_per_step()));
    if (done > 0) {
      add("loss", "gauge", "Loss of the last step, on rank 0.", last_.loss);
      add("learning_rate", "gauge", "Learning rate of the last step.", last_.lr);
      add("gradient_norm", "gauge", "Norm of the last gradient before clipping.",
          last_.gradient_norm);
      add("step_seconds", "gauge", "Time of the last step, on rank 0.", last_.step_ms / 1e3);
      add("tokens_per_second", "gauge", "Tokens of all ranks over that time.", last_.tokens_per_s);
      add("validation_loss", "gauge", "Loss of the last evaluation.", last_.validation_loss);
    }
    add("updated_timestamp_seconds", "gauge", "When this file was written.",
        static_cast<double>(unix_ms()) / 1e3);
    replace_file(path_, text);
  }

  std::filesystem::path path_;
  LiveRun run_;
  LiveSample last_;
  std::int64_t steps_done_ = 0, written_ns_ = 0;
};

}  // namespace

std::unique_ptr<LiveWriter> make_prometheus_file(const std::filesystem::path& path) {
  return std::make_unique<PrometheusFile>(path);
}

}  // namespace ddprun
