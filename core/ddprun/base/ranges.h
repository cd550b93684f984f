// What C++20 has no short word for: a vector or a text made of a range, whether a value is in it,
// and values that belong together by a text.
#pragma once

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstddef>
#include <functional>
#include <map>
#include <ranges>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace ddprun {

/// What `of`, a function or a member, makes of each element, in order.
template <class Range, class Of>
auto mapped(Range&& range, const Of& of) {
  using Element = std::ranges::range_reference_t<Range>;
  std::vector<std::remove_cvref_t<std::invoke_result_t<const Of&, Element>>> out;
  for (auto&& each : range) out.push_back(std::invoke(of, each));
  return out;
}

/// Whether an element, or what `projection` makes of one, is `value`.
template <class Range, class Value, class Projection = std::identity>
bool contains(const Range& range, const Value& value, Projection projection = {}) {
  return std::ranges::find(range, value, projection) != std::ranges::end(range);
}

/// All elements as one text: "1, 2, 3".
template <class Range>
std::string list_text(Range&& range, std::string_view separator = ", ") {
  return fmt::format("{}", fmt::join(range, separator));
}

/// Values by a text, in the order in which the texts first came.
template <class Value>
class Groups {
 public:
  /// The value of `key`, made by its default constructor if the key is new. The reference is valid
  /// until the next new key.
  Value& operator[](const std::string& key) {
    const auto [place, is_new] = places_.try_emplace(key, groups_.size());
    if (is_new) groups_.emplace_back(key, Value());
    return groups_[place->second].second;
  }

  /// Over pairs of key and value.
  auto begin() const { return groups_.begin(); }
  auto end() const { return groups_.end(); }

 private:
  std::vector<std::pair<std::string, Value>> groups_;
  std::map<std::string, std::size_t> places_;  // in groups_
};

}  // namespace ddprun
