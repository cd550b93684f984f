// The sources of training data: where the tokens of each kind come from, and which of them a sample
// takes.
#include "ddprun/data/data.h"

#include <ATen/ops/empty.h>
#include <c10/util/Exception.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "ddprun/base/choice.h"
#include "ddprun/base/counter_hash.h"
#include "ddprun/base/error.h"
#include "ddprun/base/text.h"
#include "ddprun/data/permutation.h"
#include "ddprun/data/text_corpus.h"
#include "ddprun/data/token_files.h"

namespace ddprun {

namespace {

class RandomTokens final : public DataSource {
 public:
  RandomTokens(std::int64_t vocab_size, const SampleRule& rule)
      : DataSource(rule), vocab_size_(vocab_size) {}

  std::int64_t tokens() const override { return 0; }
  std::string description() const override {
    return "random: uniform in [0, " + with_thousands(vocab_size_) + ")";
  }
  std::uint64_t content_hash() const override { return 0; }
  void check_unchanged() const override {}
  std::vector<FilePiece> pieces(std::int64_t /*step*/, std::int64_t /*index*/) const override {
    return {};
  }

 private:
  void sample(std::int64_t step, std::int64_t index, std::int64_t* out) const override {
    const std::uint64_t own = key(step, index);
    for (std::int64_t i = 0; i <= rule_.context_length; ++i) {
      out[i] =
          static_cast<std::int64_t>(counter_hash(own, i) % static_cast<std::uint64_t>(vocab_size_));
    }
  }

  std::int64_t vocab_size_;
};

// A finite sequence of tokens. At random a sample may start wherever context_length + 1 tokens
// follow. Otherwise it is one of the windows of so many tokens that overlap by one.
template <class Tokens>
class FiniteTokens final : public DataSource {
 public:
  FiniteTokens(Tokens tokens, std::string description, const SampleRule& rule)
      : DataSource(rule), tokens_(std::move(tokens)), description_(std::move(description)) {}

  std::int64_t tokens() const override { return tokens_.size(); }
  std::string description() const override { return description_; }
  std::uint64_t content_hash() const override { return tokens_.content_hash(); }
  void check_unchanged() const override { tokens_.check_unchanged(); }
  std::vector<FilePiece> pieces(std::int64_t step, std::int64_t index) const override {
    return tokens_.pieces(begin(step, index), rule_.context_length + 1);
  }

 private:
  void sample(std::int64_t step, std::int64_t index, std::int64_t* out) const override {
    tokens_.copy(begin(step, index), rule_.context_length + 1, out);
  }

  // The first token of a sample.
  std::int64_t begin(std::int64_t step, std::int64_t index) const {
    if (rule_.order == DataOrder::random) {
      const auto starts = static_cast<std::uint64_t>(tokens_.size() - rule_.context_length);
      return static_cast<std::int64_t>(key(step, index) % starts);
    }
    return window(step, index) * rule_.context_length;
  }

  std::int64_t window(std::int64_t step, std::int64_t index) const {
    TORCH_CHECK(rule_.global_batch > 0, "data in order is opened with its global batch");
    const std::int64_t windows = (tokens_.size() - 1) / rule_.context_length;
    const std::int64_t of_run = step * rule_.global_batch + index;
    const std::int64_t of_epoch = of_run % windows;
    if (rule_.order == DataOrder::sequential) return of_epoch;
    const auto epoch = static_cast<std::uint64_t>(of_run / windows);
    return static_cast<std::int64_t>(permuted(static_cast<std::uint64_t>(of_epoch),
                                              static_cast<std::uint64_t>(windows),
                                              counter_hash(rule_.seed, epoch)));
  }

  Tokens tokens_;
  std::string description_;
};

template <class Tokens>
std::unique_ptr<DataSource> make_finite(Tokens tokens, const DataConfig& config,
                                        std::string description, const SampleRule& rule) {
  if (tokens.size() <= rule.context_length) {
    throw ConfigError({.what = "the data is too short for one sample",
                       .where = fmt::format("{}", fmt::join(config.path, ", ")),
                       .got = with_thousands(tokens.size()) + " tokens",
                       .expected = "at least model.context_length + 1 = " +
                                   with_thousands(rule.context_length + 1),
                       .hint = "add data, or lower model.context_length"});
  }
  return std::make_unique<FiniteTokens<Tokens>>(std::move(tokens), std::move(description), rule);
}

void check_paths(const DataConfig& config) {
  const bool wanted = config.source != DataKind::random;
  if (wanted && config.path.empty()) {
    throw ConfigError({.what = "data.source reads files, and none is named",
                       .where = "data.path",
                       .got = std::string("source ") + name_of(config.source) + ", no path",
                       .expected = "one or more paths",
                       .hint = "name files, or set data.source to random"});
  }
  if (!wanted && !config.path.empty()) {
    throw ConfigError({.what = "data.source random reads no files",
                       .where = "data.path",
                       .got = fmt::format("{}", fmt::join(config.path, ", ")),
                       .expected = "no path",
                       .hint = "remove data.path, or set data.source to text or tokens"});
  }
}

std::unique_ptr<DataSource> open_text(const DataConfig& config, std::int64_t vocab_size,
                                      const SampleRule& rule) {
  if (vocab_size < 256) {
    throw ConfigError({.what = "text is read as bytes, which need a vocabulary of 256",
                       .where = "model.vocab_size",
                       .got = std::to_string(vocab_size),
                       .expected = ">= 256",
                       .hint = "raise model.vocab_size"});
  }
  TextCorpus text(config.path);
  std::string description = fmt::format("text: {} bytes of {} file{} under {}",
                                        with_thousands(text.size()), with_thousands(text.files()),
                                        text.files() == 1 ? "" : "s", fmt::join(config.path, ", "));
  if (!text.skipped().empty()) description += " (skipped: " + text.skipped() + ")";
  return make_finite(std::move(text), config, std::move(description), rule);
}

template <class Token>
std::unique_ptr<DataSource> open_tokens(const DataConfig& config, std::int64_t vocab_size,
                                        const SampleRule& rule) {
  TokenFiles<Token> tokens(config.path, vocab_size);
  std::string description = fmt::format("tokens: {} {} of {}", with_thousands(tokens.size()),
                                        name_of(config.token_type), fmt::join(config.path, ", "));
  return make_finite(std::move(tokens), config, std::move(description), rule);
}

}  // namespace

DataSource::~DataSource() = default;

std::uint64_t DataSource::key(std::int64_t step, std::int64_t index) const {
  const std::uint64_t step_key = counter_hash(rule_.seed, static_cast<std::uint64_t>(step));
  return counter_hash(step_key, static_cast<std::uint64_t>(index));
}

Batch DataSource::batch(std::int64_t step, std::int64_t first, std::int64_t count) const {
  const std::int64_t length = rule_.context_length;
  Batch batch{at::empty({count, length}, at::kLong), at::empty({count, length}, at::kLong)};
  auto* ids = batch.ids.mutable_data_ptr<std::int64_t>();
  auto* targets = batch.targets.mutable_data_ptr<std::int64_t>();
  std::vector<std::int64_t> tokens(length + 1);
  for (std::int64_t i = 0; i < count; ++i) {
    sample(step, first + i, tokens.data());
    ids = std::copy(tokens.begin(), tokens.end() - 1, ids);
    targets = std::copy(tokens.begin() + 1, tokens.end(), targets);
  }
  return batch;
}

void check_planned(const DataSource& source, const DataConfig& config, std::uint64_t planned) {
  if (planned == 0 || source.content_hash() == planned) return;
  throw Error({.what = "the data is not what it was when the run was planned",
               .where = fmt::format("{}", fmt::join(config.path, ", ")),
               .got = "now " + source.description(),
               .expected = "the same contents until the last run of a batch ends",
               .hint = "run again when nothing writes to it any more"});
}

std::unique_ptr<DataSource> open_data(const DataConfig& config, std::int64_t vocab_size,
                                      std::int64_t context_length, std::uint64_t seed,
                                      std::int64_t global_batch) {
  check_paths(config);
  const SampleRule rule = {context_length, seed, config.order, global_batch};
  switch (config.source) {
    case DataKind::random:
      return std::make_unique<RandomTokens>(vocab_size, rule);
    case DataKind::text:
      return open_text(config, vocab_size, rule);
    case DataKind::tokens:
      break;
  }
  return config.token_type == TokenType::uint16
             ? open_tokens<std::uint16_t>(config, vocab_size, rule)
             : open_tokens<std::uint32_t>(config, vocab_size, rule);
}

}  // namespace ddprun
