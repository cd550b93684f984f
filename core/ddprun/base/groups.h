// Values that belong together by a text, in the order in which the texts first came.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace ddprun {

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
