// A round of texts: each rank of a group brings one to the store, and reads all when all are there.
#pragma once

#include <chrono>
#include <string>
#include <torch/csrc/distributed/c10d/Store.hpp>
#include <utility>
#include <vector>

namespace ddprun {

/// A rank takes as many requests as in a group of two, however many ranks there are.
class StoreRound {
 public:
  /// `name`: used once in this store. `size`: of the group. `where`: how messages call the caller
  /// and what it does. `members`: the ranks' numbers in the run; empty: their numbers in the group.
  StoreRound(c10d::Store& store, std::string name, int size, std::string where,
             std::vector<int> members = {})
      : store_(store),
        name_(std::move(name)),
        size_(size),
        where_(std::move(where)),
        members_(std::move(members)) {}

  /// Brings the text of `rank`, and returns when the store has it: a process that ends at once
  /// would take an unread request with it. Returns whether this rank is the last.
  bool bring(int rank, const std::string& text = {});
  /// Returns when all ranks have brought their texts. If they have not within `timeout`, throws
  /// TimeoutError "not all ranks came", which names the missing ranks.
  void wait(std::chrono::milliseconds timeout);
  /// Throws that error, after a wait of `waited`, if some have not.
  void check_all_came(std::chrono::milliseconds waited);
  /// Of all ranks, in rank order; all have brought them.
  std::vector<std::string> texts();
  /// Leaves no key in the store.
  void remove();

 private:
  /// What a rank has brought: the text itself, or in how many pieces it lies under other keys.
  struct Record {
    bool came = false;
    std::size_t pieces = 0;
    std::string text;
  };
  std::vector<Record> records();
  std::string piece_key(int rank, std::size_t piece) const;

  c10d::Store& store_;
  const std::string name_;
  const int size_;
  const std::string where_;
  const std::vector<int> members_;
};

}  // namespace ddprun
