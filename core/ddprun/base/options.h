// Options are declared once, beside the variable that they set. Reading, describing, validating and
// writing all visit that declaration.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "ddprun/base/choice.h"

namespace ddprun {

/// What values an option may take. Bounds are inclusive and hold for every element of a list. An
/// enum has no limits of its own: it takes its names.
struct Limits {
  std::optional<double> min = {};
  std::optional<double> max = {};
  std::vector<std::string> one_of = {};  ///< for text: the allowed values; empty: any
};

/// The variable that an option sets. Its value on declaration is the option's default. If the
/// possible values are known, the variable is an enum with names (choice.h), so that no text is
/// compared. An optional without a value is an option that was not given.
using OptionTarget =
    std::variant<bool*, std::int64_t*, std::optional<std::int64_t>*, double*,
                 std::optional<double>*, std::string*, ChoiceTarget, std::vector<double>*,
                 std::vector<std::int64_t>*, std::vector<std::string>*>;

/// One declared option.
struct OptionSpec {
  std::string key;   ///< snake_case, unit in the name: "bucket_mb"
  std::string help;  ///< one line, no full stop
  Limits limits;
};

class Options;

/// A list of mappings that have the same options, in a variable of the declaring class.
struct SectionList {
  std::size_t size;                                    ///< of the variable now
  std::function<void(std::size_t)> resize;             ///< to so many elements, all new
  std::function<void(std::size_t, Options&)> declare;  ///< the options of an element
  std::function<void(Options&)> declare_new;           ///< those of an element that is new
};

/// A visitor over declared options. A class declares its options in one function:
///     void declare_options(Options& o) { o.option("bucket_mb", &bucket_mb_, "size of a bucket in
///     MB", {.min = 0.001}); }
/// That function is called to read the user's YAML (the variables then hold the values), to list
/// the options for `ddprun describe`, and to write the resolved configuration. It must do nothing
/// but declare. Not thread-safe. Reading throws ConfigError with file, line, column, the value got
/// and what is allowed.
class Options {
 public:
  virtual ~Options();

  /// Declares one option. Returns true if the user's input gave it a value.
  bool option(const std::string& key, OptionTarget target, const std::string& help,
              Limits limits = {});

  /// Declares a nested mapping. `declare` is called once, with the options inside it.
  virtual void section(const std::string& key, const std::string& help,
                       const std::function<void(Options&)>& declare) = 0;

  /// Declares a list of mappings. One mapping stands for a list of one.
  virtual void list(const std::string& key, const std::string& help,
                    const SectionList& elements) = 0;

  /// Declares an option that is one name of `choice` or, to say more, a mapping:
  ///     recompute: every_block
  ///     recompute: {every: 2, keep_last: 1}
  /// `declare` is called once, with the options of the mapping, all of them optional. A mapping
  /// must give one at least, and leaves `choice` as it is.
  virtual void choice_or_section(const std::string& key, ChoiceTarget choice,
                                 const std::string& help,
                                 const std::function<void(Options&)>& declare) = 0;

 protected:
  virtual bool visit(const OptionSpec& spec, OptionTarget target) = 0;
};

/// The elements of `list`, of which a new one is `fresh`. `declare(options, element)` declares one.
/// `list` outlives it.
template <class T, class Declare>
SectionList sections(std::vector<T>* list, const T& fresh, const Declare& declare) {
  return {
      .size = list->size(),
      .resize = [list, fresh](std::size_t size) { list->assign(size, fresh); },
      .declare = [list, declare](std::size_t i, Options& options) { declare(options, (*list)[i]); },
      .declare_new =
          [fresh, declare](Options& options) {
            T element = fresh;
            declare(options, element);
          }};
}

}  // namespace ddprun
