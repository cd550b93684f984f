// Texts of any length that ranks exchange through a store.
#pragma once

#include <chrono>
#include <string>
#include <torch/csrc/distributed/c10d/Store.hpp>
#include <vector>

namespace ddprun {

/// Puts the text under `key`. Who sees the key finds the whole text.
void post_text(c10d::Store& store, const std::string& key, const std::string& text);
/// The text under `key`; waits for it as the store does.
std::string fetch_text(c10d::Store& store, const std::string& key);

/// Sets the key for a rank that waits for it, and returns when the store has it: a process that
/// ends at once would take an unread request with it. It is no error if that rank, which had waited
/// for this key alone, has left with the store.
void set_and_flush(c10d::Store& store, const std::string& key);

/// Waits until all of `keys`, one a rank in rank order, are in the store. If they are not within
/// `timeout`, throws TimeoutError "not all ranks came", which names the missing ranks. Messages
/// call the caller and what it does `where`. `members`: the ranks' numbers in the run; empty: their
/// numbers in the list.
void wait_for_ranks(c10d::Store& store, const std::vector<std::string>& keys,
                    std::chrono::milliseconds timeout, const std::string& where,
                    const std::vector<int>& members = {});

/// Throws that error, after a wait of `waited`, if some of them are not there.
void check_all_came(c10d::Store& store, const std::vector<std::string>& keys,
                    std::chrono::milliseconds waited, const std::string& where,
                    const std::vector<int>& members = {});

/// Every rank's text, in rank order, on every rank: torch.distributed.all_gather_object for texts,
/// without a backend. Blocks until all texts are there, and on rank 0 until all ranks have read
/// them, because rank 0 may serve the store and end right after. Leaves no key in the store.
/// `round`: a name that is used once in this store. Throws as wait_for_ranks() does.
std::vector<std::string> all_gather_object(c10d::Store& store, const std::string& round, int rank,
                                           int size, const std::string& text,
                                           std::chrono::milliseconds timeout,
                                           const std::vector<int>& members = {});

/// The same, for rank 0 alone: the others get an empty list, and do not wait.
std::vector<std::string> gather_object(c10d::Store& store, const std::string& round, int rank,
                                       int size, const std::string& text,
                                       std::chrono::milliseconds timeout);

}  // namespace ddprun
