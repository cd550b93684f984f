// What is given bad inputs: each target makes one from a seed, and tries it in process.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "faults/fuzz/mutate.h"

namespace ddprun::fuzz {

/// What became of an input that did no harm.
enum class Verdict { accepted, refused };

struct TargetFacts {
  std::string name;          ///< "yaml", "plugin"
  std::string file_name;     ///< of an input's file, which says what it is
  int share;                 ///< of a thousand inputs, how many are this target's
  std::size_t batch = 1000;  ///< inputs that one process tries
};

class Target {
 public:
  explicit Target(TargetFacts facts) : facts(std::move(facts)) {}
  virtual ~Target() = default;

  virtual std::string make(Dice& dice) const = 0;
  /// Writes what it must into `scratch`, an empty folder of the process. ddprun::Error is a
  /// refusal too; anything else that is thrown is a finding.
  virtual Verdict run(const std::string& input, const std::filesystem::path& scratch) = 0;
  /// Whether the program ends so with a sentence about the input.
  virtual bool is_refusal(const std::string& /*death*/) const { return false; }
  /// Arguments of ddprun with which an input's file is tried from outside; empty: it is not.
  virtual std::vector<std::string> replay(const std::filesystem::path& /*file*/) const {
    return {};
  }

  const TargetFacts facts;
};

/// All targets. Good inputs come from `source`, the repository, and `build`, where it was built.
std::vector<std::unique_ptr<Target>> all_targets(const std::filesystem::path& source,
                                                 const std::filesystem::path& build);

std::unique_ptr<Target> yaml_target(const std::filesystem::path& source);
std::unique_ptr<Target> tree_target(const std::filesystem::path& source);
std::unique_ptr<Target> set_target(const std::filesystem::path& source);
std::unique_ptr<Target> data_target();
std::unique_ptr<Target> result_target();
/// It makes a good one in `build` first.
std::unique_ptr<Target> checkpoint_target(const std::filesystem::path& build);
std::unique_ptr<Target> tokenizer_target();
std::unique_ptr<Target> plugin_target(const std::filesystem::path& build);

/// What precedes a file's bytes in an input, and says what they are; 0 of an empty input.
inline unsigned char first_byte(const std::string& input) { return input.empty() ? 0 : input[0]; }
inline std::string behind_it(const std::string& input) { return input.substr(!input.empty()); }

std::string read(const std::filesystem::path& file);
void write(const std::filesystem::path& file, const std::string& bytes);

}  // namespace ddprun::fuzz
