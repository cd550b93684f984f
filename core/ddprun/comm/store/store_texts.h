// Texts of any length in a store.
#pragma once

#include <string>
#include <torch/csrc/distributed/c10d/Store.hpp>

namespace ddprun {

/// Puts the text under `key`. Who sees the key finds the whole text.
void post_text(c10d::Store& store, const std::string& key, const std::string& text);
/// The text under `key`; waits for it as the store does.
std::string fetch_text(c10d::Store& store, const std::string& key);
void remove_text(c10d::Store& store, const std::string& key);

/// Sets the key for a rank that waits for it, and returns when the store has it: a process that
/// ends at once would take an unread request with it. It is no error if that rank, which had waited
/// for this key alone, has left with the store.
void set_and_flush(c10d::Store& store, const std::string& key);

}  // namespace ddprun
