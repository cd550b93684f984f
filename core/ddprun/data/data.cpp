// The sources of training data: where the tokens of each kind come from, and which of them a sample
// takes.
#include "ddprun/data/data.h"

#include <ATen/ops/empty.h>
#include <c10/util/Exception.h>
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "ddprun/base/choice.h"
#include "ddprun/base/counter_hash.h"
#include "ddprun/base/error.h"
#include "ddprun/base/ranges.h"
#include "ddprun/base/text.h"
#include "ddprun/data/sample_order.h"

namespace ddprun {

namespace {

constexpr std::int64_t kNoTarget = -100;  // as PyTorch's cross_entropy has it

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

// One sequence of tokens, or several that are mixed by their weights. At random a sample may start
// wherever context_length + 1 tokens follow. Otherwise it is one of the windows of so many tokens
// that overlap by one.
class FileData final : public DataSource {
 public:
  FileData(std::vector<std::unique_ptr<TokenSequence>> parts, const std::vector<double>& weights,
           std::string description, const SampleRule& rule)
      : DataSource(rule),
        parts_(std::move(parts)),
        mixture_(weights.empty() ? std::vector<double>{1} : weights),
        description_(std::move(description)) {}

  std::int64_t tokens() const override {
    std::int64_t sum = 0;
    for (const auto& part : parts_) sum += part->size();
    return sum;
  }
  std::string description() const override { return description_; }
  std::uint64_t content_hash() const override {
    std::uint64_t hash = parts_.front()->content_hash();
    for (std::size_t i = 1; i < parts_.size(); ++i) {
      hash = counter_hash(hash, parts_[i]->content_hash());
    }
    return hash;
  }
  void check_unchanged() const override {
    for (const auto& part : parts_) part->check_unchanged();
  }
  std::vector<FilePiece> pieces(std::int64_t step, std::int64_t index) const override {
    const auto [part, begin] = place(step, index);
    return part->pieces(begin, rule_.context_length + 1);
  }

 private:
  void sample(std::int64_t step, std::int64_t index, std::int64_t* out) const override {
    const auto [part, begin] = place(step, index);
    part->copy(begin, rule_.context_length + 1, out);
  }

  std::int64_t document_ends(std::int64_t step, std::int64_t index) const override {
    const auto [part, begin] = place(step, index);
    return part->document_ends(begin, rule_.context_length);
  }

  // The sequence that a sample is of, and its first token there.
  std::pair<const TokenSequence*, std::int64_t> place(std::int64_t step, std::int64_t index) const {
    const bool counted = rule_.order != DataOrder::random || parts_.size() > 1;
    TORCH_CHECK(!counted || rule_.global_batch > 0,
                "data in order is opened with its global batch");
    const std::int64_t number = step * rule_.global_batch + index;
    const Mixture::Dealt dealt =
        parts_.size() > 1 ? mixture_.of(number) : Mixture::Dealt{0, number};
    const TokenSequence& part = *parts_[dealt.source];
    if (rule_.order != DataOrder::random) {
      return {&part, window(part, dealt.number) * rule_.context_length};
    }
    const auto starts = static_cast<std::uint64_t>(part.size() - rule_.context_length);
    return {&part, static_cast<std::int64_t>(key(step, index) % starts)};
  }

  // That of the sequence's sample `number`, counted over the run.
  std::int64_t window(const TokenSequence& part, std::int64_t number) const {
    const std::int64_t windows = (part.size() - 1) / rule_.context_length;
    const std::int64_t of_epoch = number % windows;
    if (rule_.order == DataOrder::sequential) return of_epoch;
    const auto epoch = static_cast<std::uint64_t>(number / windows);
    return static_cast<std::int64_t>(permuted(static_cast<std::uint64_t>(of_epoch),
                                              static_cast<std::uint64_t>(windows),
                                              counter_hash(rule_.seed, epoch)));
  }

  std::vector<std::unique_ptr<TokenSequence>> parts_;
  Mixture mixture_;
  std::string description_;
};

void check_size(const TokenSequence& tokens, const std::vector<std::string>& paths,
                const SampleRule& rule) {
  if (tokens.size() > rule.context_length) return;
  throw ConfigError(
      {.what = "the data is too short for one sample",
       .where = list_text(paths),
       .got = counted(tokens.size(), "token"),
       .expected = "at least model.context_length + 1 = " + with_thousands(rule.context_length + 1),
       .hint = "add data, or lower model.context_length"});
}

// What is one sequence: all paths, or with weights each by itself.
std::vector<std::vector<std::string>> sequences_of(const DataConfig& config) {
  if (config.weights.empty()) return {matching_files(config.path)};
  if (std::ssize(config.weights) > Mixture::kCycle) {
    throw ConfigError({.what = "data.weights has more numbers than shares are counted in",
                       .where = "data.weights",
                       .got = std::to_string(config.weights.size()),
                       .expected = fmt::format("{} at most", Mixture::kCycle),
                       .hint = "one path with wildcards is one entry of one weight"});
  }
  return mapped(config.path, [](const std::string& path) { return matching_files(path); });
}

std::string paths_of(const DataConfig& config) { return list_text(config.path); }

void check_document_end(const DataConfig& config, std::int64_t vocab_size) {
  const bool text = config.source == DataKind::text;
  const bool uint16 = config.source == DataKind::tokens && config.token_type == TokenType::uint16;
  const std::int64_t there = text ? 1 << 8 : uint16 ? 1 << 16 : vocab_size;
  const std::int64_t tokens = std::min(there, vocab_size);
  if (config.document_end < tokens) return;
  throw ConfigError({.what = "no document can end with a token that there is not",
                     .where = "data.document_end",
                     .got = std::to_string(config.document_end),
                     .expected = fmt::format("a token below {}: {}", tokens,
                                             text                  ? "of text a token is a byte"
                                             : tokens < vocab_size ? "uint16 holds no other"
                                                                   : "model.vocab_size"),
                     .hint = "ddprun tokenizer and ddprun tokenize say the token's number"});
}

std::unique_ptr<DataSource> open_text(const DataConfig& config, const SampleRule& rule) {
  std::vector<std::unique_ptr<TokenSequence>> parts;
  std::int64_t bytes = 0, files = 0;
  std::string skipped;
  for (const std::vector<std::string>& paths : sequences_of(config)) {
    auto text = std::make_unique<TextCorpus>(paths, rule.document_end);
    check_size(*text, paths, rule);
    bytes += text->size();
    files += text->files();
    if (!text->skipped().empty()) skipped += " (skipped: " + text->skipped() + ")";
    parts.push_back(std::move(text));
  }
  return std::make_unique<FileData>(std::move(parts), config.weights,
                                    fmt::format("text: {} of {} under {}{}", counted(bytes, "byte"),
                                                counted(files, "file"), paths_of(config), skipped),
                                    rule);
}

std::unique_ptr<DataSource> open_tokens(const DataConfig& config, std::int64_t vocab_size,
                                        const SampleRule& rule) {
  std::vector<std::unique_ptr<TokenSequence>> parts;
  std::int64_t count = 0;
  for (const std::vector<std::string>& paths : sequences_of(config)) {
    parts.push_back(open_token_files(paths, config.token_type, vocab_size, rule.document_end));
    check_size(*parts.back(), paths, rule);
    count += parts.back()->size();
  }
  return std::make_unique<FileData>(std::move(parts), config.weights,
                                    fmt::format("tokens: {} {} of {}", with_thousands(count),
                                                name_of(config.token_type), paths_of(config)),
                                    rule);
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
  if (rule_.document_end >= 0) mark_documents(step, batch);
  return batch;
}

void DataSource::mark_documents(std::int64_t step, Batch& batch) const {
  TORCH_CHECK(rule_.global_batch > 0, "data of documents is opened with its global batch");
  batch.first_keys = at::empty(batch.ids.sizes(), at::kInt);
  const auto* const ids = batch.ids.const_data_ptr<std::int64_t>();
  auto* const targets = batch.targets.mutable_data_ptr<std::int64_t>();
  auto* const first_keys = batch.first_keys.mutable_data_ptr<std::int32_t>();
  std::int32_t first = 0;
  for (std::int64_t i = 0; i < batch.ids.numel(); ++i) {
    const auto place = static_cast<std::int32_t>(i % rule_.context_length);
    if (place == 0) first = 0;
    first_keys[i] = first;
    if (ids[i] != rule_.document_end) continue;
    targets[i] = kNoTarget;
    first = place + 1;
  }
  std::int64_t all = rule_.global_batch * rule_.context_length;
  for (std::int64_t i = 0; i < rule_.global_batch; ++i) all -= document_ends(step, i);
  batch.divisor = static_cast<double>(std::max<std::int64_t>(all, 1) * batch.ids.size(0)) /
                  static_cast<double>(rule_.global_batch);
}

void check_planned(const DataSource& source, const DataConfig& config, std::uint64_t planned) {
  if (planned == 0 || source.content_hash() == planned) return;
  throw Error({.what = "the data is not what it was when the run was planned",
               .where = list_text(config.path),
               .got = "now " + source.description(),
               .expected = "the same contents until the last run of a batch ends",
               .hint = "run again when nothing writes to it any more"});
}

std::unique_ptr<DataSource> open_data(const DataConfig& config, std::int64_t vocab_size,
                                      std::int64_t context_length, std::uint64_t seed,
                                      std::int64_t global_batch) {
  check_document_end(config, vocab_size);
  const SampleRule rule = {context_length, seed, config.order, global_batch, config.document_end};
  switch (config.source) {
    case DataKind::random:
      return std::make_unique<RandomTokens>(vocab_size, rule);
    case DataKind::text:
      return open_text(config, rule);
    case DataKind::tokens:
      break;
  }
  return open_tokens(config, vocab_size, rule);
}

}  // namespace ddprun
