// What is told of a run while it trains, and who writes it down.
//
// Family: json_lines.cpp mllog.cpp prometheus.cpp tfevents.cpp
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "ddprun/optim/optimizer_config.h"

namespace ddprun {

/// The formats of numbers in which a run computes and communicates: "float32", "bfloat16" ...
struct LiveFormats {
  std::string products = {};       ///< of the linear layers' factors
  std::string attention = {};      ///< of queries, keys and values
  std::string communication = {};  ///< of gradients or gathered parameters, the narrower one
};

struct LiveRun {
  std::string name = {};  ///< the experiment's
  std::string row = {};   ///< its label; without a sweep the name
  std::string run = {};   ///< its number in the result folder: "01"
  std::int64_t seed = 0, ranks = 0;
  std::int64_t first_step = 0, steps = 0;  ///< where this run begins; where it ends
  std::int64_t global_batch = 0, context_length = 0;
  std::int64_t micro_batch = 0, accumulate = 1;  ///< sequences of a forward; forwards of a step
  std::int64_t eval_samples = 0;                 ///< sequences of an evaluation; 0: there is none
  OptimizerConfig optimizer = {};

  std::int64_t tokens_per_step() const { return global_batch * context_length; }
};

/// A step of rank 0. What is not known is not there.
struct LiveSample {
  std::int64_t step = 0;  ///< 0 is the first warm-up step
  bool warmup = false;
  double loss = 0, step_ms = 0, tokens_per_s = 0;
  std::optional<double> lr = {}, gradient_norm = {}, validation_loss = {}, bits_per_byte = {};
};

/// How a run ended, as far as rank 0 knows: the words of a row's status.
inline constexpr const char* kLiveOk = "ok";
inline constexpr const char* kLiveFailed = "failed";

/// Writes one format. Called in this order, on one thread, outside of measured time. What fails
/// throws std::runtime_error.
class LiveWriter {
 public:
  virtual ~LiveWriter() = default;
  /// Before set-up.
  virtual void begin(const LiveRun& run) = 0;
  /// Set-up and the checks before the first step are over.
  virtual void steps_begin(const LiveFormats&) {}
  virtual void step(const LiveSample& sample) = 0;
  virtual void end(const std::string& status) = 0;
};

std::unique_ptr<LiveWriter> make_json_lines(const std::filesystem::path& path);
std::unique_ptr<LiveWriter> make_mllog(const std::filesystem::path& path);
std::unique_ptr<LiveWriter> make_prometheus_file(const std::filesystem::path& path);
/// An event file, as TensorBoard reads it, which gets a name of its own in `folder`.
std::unique_ptr<LiveWriter> make_tfevents(const std::filesystem::path& folder);

/// CRC-32C (Castagnoli).
std::uint32_t crc32c(std::string_view bytes);
/// A record of the format TFRecord: length, masked sum of the length, bytes, masked sum of these.
std::string tf_record(std::string_view bytes);

}  // namespace ddprun
