// Training data: text as bytes, token files, or random tokens. The samples of a step do not depend
// on the rank count.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "ddprun/data/data_config.h"
#include "ddprun/data/token_sequence.h"

namespace ddprun {

/// ids and targets: (samples, context_length) int64; targets are ids shifted by one. With
/// data.document_end the first token of a document is nobody's target (-100).
struct Batch {
  at::Tensor ids;
  at::Tensor targets;
  /// (samples, context_length) int32: where in the sample the token's document begins; undefined
  /// without data.document_end.
  at::Tensor first_keys = {};
  /// What the sum of the targets' losses is divided by: how many targets as many samples of the
  /// step have on average, so that the mean over batches is that of the step's targets. 0 without
  /// data.document_end: all are targets.
  double divisor = 0;
};

/// Which samples a source gives.
struct SampleRule {
  std::int64_t context_length = 0;
  std::uint64_t seed = 0;
  DataOrder order = DataOrder::random;
  std::int64_t global_batch = 0;  ///< samples a step; order random without documents needs none
  std::int64_t document_end = -1;
};

/// A stream of tokens, cut into samples at positions that depend on SampleRule, the step and the
/// sample only.
class DataSource {
 public:
  virtual ~DataSource();
  /// Returns samples [first, first + count) of the global batch of `step`. Every rank that asks
  /// gets the same values. Thread-safe.
  Batch batch(std::int64_t step, std::int64_t first, std::int64_t count) const;
  /// The context_length + 1 tokens that batch(step, index, 1) reads, file by file; random: none.
  virtual std::vector<FilePiece> pieces(std::int64_t step, std::int64_t index) const = 0;
  /// Tokens in the source (0: endless).
  virtual std::int64_t tokens() const = 0;
  /// One line for the report: "text: 412,345 bytes of 37 files under /usr/share/games/fortunes".
  virtual std::string description() const = 0;
  /// Tells contents apart, whatever the files are called; 0: random.
  virtual std::uint64_t content_hash() const = 0;
  /// Throws Error if a file from which samples are read changed since it was opened.
  virtual void check_unchanged() const = 0;

 private:
  void mark_documents(std::int64_t step, Batch& batch) const;

 protected:
  explicit DataSource(const SampleRule& rule) : rule_(rule) {}
  /// Writes the context_length + 1 tokens of sample `index` of the global batch of `step` to out.
  virtual void sample(std::int64_t step, std::int64_t index, std::int64_t* out) const = 0;
  /// How many of its first context_length tokens end a document.
  virtual std::int64_t document_ends(std::int64_t /*step*/, std::int64_t /*index*/) const {
    return 0;
  }
  /// Random bits of that sample.
  std::uint64_t key(std::int64_t step, std::int64_t index) const;

  SampleRule rule_;
};

/// Throws Error if the source is not the one that the plan opened. `planned`: its content_hash(); 0
/// is no plan.
void check_planned(const DataSource& source, const DataConfig& config, std::uint64_t planned);

/// Opens the source. Throws ConfigError if a file is missing, empty, too short for one sample, not
/// UTF-8, or holds a token that is not below vocab_size. `global_batch`: samples a step, without
/// which data in an order other than random, or of documents, can be opened, but not read.
std::unique_ptr<DataSource> open_data(const DataConfig& config, std::int64_t vocab_size,
                                      std::int64_t context_length, std::uint64_t seed,
                                      std::int64_t global_batch = 0);

}  // namespace ddprun
