// `output.tensorboard`: the messages Event and Summary of TensorFlow in the encoding of Protocol
// Buffers: each field is a key, which has its number and its wire type, and a value.
#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <boost/crc.hpp>
#include <optional>
#include <utility>

#include "ddprun/base/text.h"
#include "ddprun/live/live_file.h"
#include "ddprun/live/live_writer.h"

namespace ddprun {

namespace {

/// Fields of Event, Summary and Summary.Value.
enum Field : std::uint8_t {
  kWallTime = 1,
  kStep = 2,
  kFileVersion = 3,
  kSummary = 5,
  kValue = 1,
  kTag = 1,
  kSimpleValue = 2,
};
enum WireType : std::uint8_t { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 };

std::string varint(std::uint64_t value) {
  std::string out;
  for (; value >= 0x80; value >>= 7) out += static_cast<char>((value & 0x7F) | 0x80);
  return out += static_cast<char>(value);
}

std::string key(Field field, WireType type) { return varint((field << 3) | type); }

std::string bytes_field(Field field, std::string_view bytes) {
  return key(field, kBytes) + varint(bytes.size()) + std::string(bytes);
}

std::string event(const std::string& more) {
  const double seconds = static_cast<double>(unix_ms()) * 1e-3;
  return tf_record(key(kWallTime, kFixed64) + bytes_in_memory(seconds) + more);
}

std::string scalar(std::string_view tag, double value) {
  return bytes_field(kValue, bytes_field(kTag, tag) + key(kSimpleValue, kFixed32) +
                                 bytes_in_memory(static_cast<float>(value)));
}

std::string host_name() {
  std::array<char, HOST_NAME_MAX + 1> name{};
  return gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "localhost";
}

class TfEvents final : public LiveWriter {
 public:
  explicit TfEvents(std::filesystem::path folder) : folder_(std::move(folder)) {}
  void begin(const LiveRun& /*run*/) override {
    file_.emplace(folder_ / fmt::format("events.out.tfevents.{:010}.{}.{}", unix_ms() / 1000,
                                        host_name(), getpid()));
    file_->append(event(bytes_field(kFileVersion, "brain.Event:2")));
  }
  void step(const LiveSample& sample) override {
    std::string values = scalar("train/loss", sample.loss);
    const auto add = [&values](const char* tag, const std::optional<double>& value) {
      if (value) values += scalar(tag, *value);
    };
    add("train/lr", sample.lr);
    add("train/gradient_norm", sample.gradient_norm);
    add("train/step_ms", sample.step_ms);
    add("train/tokens_per_s", sample.tokens_per_s);
    add("validation/loss", sample.validation_loss);
    add("validation/bits_per_byte", sample.bits_per_byte);
    const std::string step = key(kStep, kVarint) + varint(static_cast<std::uint64_t>(sample.step));
    file_->append(event(step + bytes_field(kSummary, values)));
  }
  void end(const std::string& /*status*/) override {}

 private:
  std::filesystem::path folder_;
  std::optional<LiveFile> file_;
};

}  // namespace

std::uint32_t crc32c(std::string_view bytes) {
  boost::crc_optimal<32, 0x1EDC6F41, 0xFFFFFFFF, 0xFFFFFFFF, true, true> sum;
  sum.process_bytes(bytes.data(), bytes.size());
  return sum.checksum();
}

std::string tf_record(std::string_view bytes) {
  const auto masked = [](std::string_view of) {
    return bytes_in_memory(std::rotr(crc32c(of), 15) + 0xA282EAD8U);
  };
  const std::string length = bytes_in_memory<std::uint64_t>(bytes.size());
  return length + masked(length) + std::string(bytes) + masked(bytes);
}

std::unique_ptr<LiveWriter> make_tfevents(const std::filesystem::path& folder) {
  return std::make_unique<TfEvents>(folder);
}

}  // namespace ddprun
