// Choices of an experiment are enums. The names that users write stand once, beside the enum:
//     enum class Schedule { constant, cosine };
//     constexpr std::array choice_names(Schedule) { return std::array{"constant", "cosine"}; }
#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <span>
#include <string_view>
#include <type_traits>

namespace ddprun {

/// An enum whose enumerators count from 0. A function choice_names(E) beside it returns their names
/// in this order.
template <class E>
concept NamedEnum = std::is_enum_v<E> && requires(E value) {
  choice_names(value).front();
};

/// The names of all values.
template <NamedEnum E>
inline constexpr auto kChoiceNames = choice_names(E{});

/// All values, in the same order.
template <NamedEnum E>
inline constexpr auto kChoices = [] {
  std::array<E, kChoiceNames<E>.size()> values{};
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<E>(i);
  return values;
}();

/// The name of one value, as YAML, messages and JSON have it.
template <NamedEnum E>
constexpr const char* name_of(E value) {
  return kChoiceNames<E>.at(static_cast<std::size_t>(value));
}

/// The value of that name, or nothing.
template <NamedEnum E>
constexpr std::optional<E> choice_of(std::string_view name) {
  for (const E value : kChoices<E>) {
    if (name_of(value) == name) return value;
  }
  return std::nullopt;
}

/// Throws Error: `name` is none of `names`. A text of ours says so, from an earlier version.
[[noreturn]] void throw_unknown_name(std::string_view name, std::span<const char* const> names);

/// The value of that name in a text that ddprun wrote itself. Throws Error if there is none.
template <NamedEnum E>
E value_named(std::string_view name) {
  if (const auto value = choice_of<E>(name)) return *value;
  throw_unknown_name(name, kChoiceNames<E>);
}

/// Refers to a variable of any such enum, for code that reads and writes options.
class ChoiceTarget {
 public:
  template <NamedEnum E>
  ChoiceTarget(E* variable)  // NOLINT: an option is declared with the variable's address
      : variable_(variable),
        names_(kChoiceNames<E>),
        get_([](const void* from) {
          return static_cast<std::size_t>(*static_cast<const E*>(from));
        }),
        set_([](void* to, std::size_t index) { *static_cast<E*>(to) = static_cast<E>(index); }) {}

  std::span<const char* const> names() const { return names_; }
  const char* name() const { return names_[get_(variable_)]; }
  /// Sets the variable to the value whose name is names()[index].
  void set(std::size_t index) const { set_(variable_, index); }

 private:
  void* variable_;
  std::span<const char* const> names_;
  std::size_t (*get_)(const void*);
  void (*set_)(void*, std::size_t);
};

}  // namespace ddprun
