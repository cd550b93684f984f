// Damaged vocabularies: what is accepted must give back each text that it encoded.
#include <fmt/format.h>

#include <numeric>
#include <stdexcept>

#include "ddprun/tokenizer/tokenizer.h"
#include "ddprun/tokenizer/train_tokenizer.h"
#include "faults/fuzz/target.h"

namespace ddprun::fuzz {

namespace fs = std::filesystem;

namespace {

const std::string kEnd = "<|end|>";

std::string base64(const std::string& bytes) {
  static constexpr std::string_view kDigits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    std::uint32_t three = 0;
    for (std::size_t k = 0; k < 3; ++k) {
      three = three << 8 | (i + k < bytes.size() ? static_cast<unsigned char>(bytes[i + k]) : 0);
    }
    for (std::size_t k = 0; k < 4; ++k) {
      out += i + k <= bytes.size() ? kDigits[three >> (18 - 6 * k) & 63] : '=';
    }
  }
  return out;
}

/// The first byte of an input says whether it is ranks, which name no pattern of their own.
class VocabularyFile final : public Target {
 public:
  VocabularyFile() : Target({"tokenizer", "tokenizer.bin", 30}) {
    PieceCounts counts;
    const std::string text = "the cat sat on the mat; the hats of cats: 12 and 345, \n\n it's";
    count_pieces({text}, SplitPattern(kGpt2Pattern), {kEnd}, counts);
    const Vocabulary vocabulary = train_vocabulary(counts, 280, kGpt2Pattern, {kEnd});
    json_ = to_tokenizer_json(vocabulary);
    for (std::size_t i = 0; i + 1 < vocabulary.tokens.size(); ++i) {
      ranks_ += fmt::format("{} {}\n", base64(vocabulary.tokens[i]), i);
    }
    std::string bytes(256, '\0');
    std::iota(bytes.begin(), bytes.end(), '\0');
    text_ = text + kEnd + bytes + " \u00e9\u4e2d\U0001F600 " + text;
  }

  std::string make(Dice& dice) const override {
    const bool ranks = dice.one_in(3);
    const std::string& good = ranks ? ranks_ : json_;
    return std::string(1, ranks ? '\1' : '\0') +
           (dice.one_in(3) ? flip_bytes(good, 1 + dice.below(4), dice)
                           : mutate_text(good, ranks ? json_ : ranks_, dice));
  }

  Verdict run(const std::string& input, const fs::path& scratch) override {
    const fs::path file = scratch / "vocabulary";
    write(file, behind_it(input));
    const Tokenizer tokenizer = read_tokenizer(file, first_byte(input) == 1 ? "cl100k" : "");
    const std::vector<std::int32_t> tokens = tokenizer.encode(text_);
    if (tokenizer.decode({tokens.begin(), tokens.end()}) != text_) {
      throw std::logic_error("another text came back");
    }
    return Verdict::accepted;
  }

 private:
  std::string json_, ranks_, text_;
};

}  // namespace

std::unique_ptr<Target> tokenizer_target() { return std::make_unique<VocabularyFile>(); }

}  // namespace ddprun::fuzz
