// What Python's pickle says (protocol 2), as far as state dicts need it. Nothing is called.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace ddprun {

/// A value, whose parts are numbers of other values: nothing is nested in memory, whatever a file
/// says.
struct PickledValue {
  enum class Kind {
    other,   ///< None, a float, an object of a class that is not known
    number,  ///< an int or a bool
    text,
    sequence,  ///< a tuple or a list
    dict,      ///< keys and values in turn
    global,    ///< `text` is "module name"
    call,      ///< of the global items[0]; the others are its arguments
    external,  ///< what lies outside the pickle; items[0] says what
  };
  Kind kind = Kind::other;
  std::int64_t number = 0;
  std::string text = {};
  std::vector<std::size_t> items = {};
};

/// Reads a pickle. OrderedDicts are dicts; attributes of objects are left out.
class Pickle {
 public:
  /// Throws std::runtime_error with the reason: an end too early, a code that torch.save does not
  /// write, a value that is missing.
  explicit Pickle(std::string_view bytes);

  /// The value that was pickled.
  const PickledValue& root() const { return values_[root_]; }
  /// `number`: one of some value's items.
  const PickledValue& operator[](std::size_t number) const { return values_[number]; }

 private:
  using Kind = PickledValue::Kind;
  std::string_view take(std::size_t bytes);
  template <class Number>
  Number take_number();
  std::string_view take_line();
  bool step();
  bool step_scalar(unsigned char code);
  bool step_container(unsigned char code);
  bool step_memo(unsigned char code);
  void step_object(unsigned char code);
  void push(PickledValue value);
  std::size_t pop();
  std::vector<std::size_t> pop_to_mark();
  void push_sequence(std::vector<std::size_t> items);
  void add_to_top(const std::vector<std::size_t>& items);
  void call(std::size_t function, std::size_t arguments);

  std::string_view bytes_;
  std::size_t at_ = 0;
  std::vector<PickledValue> values_;
  std::vector<std::size_t> stack_, marks_;
  std::map<std::uint64_t, std::size_t> memo_;
  std::size_t root_ = 0;
};

}  // namespace ddprun
