// One key for each piece of a text, and one for their number; of each rank a text, and a key to say
// that it has read the others.
#include "ddprun/comm/store/all_gather_object.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <charconv>
#include <cmath>
#include <iterator>

#include "ddprun/comm/store/comm_failure.h"
#include "ddprun/comm/store/foreign_text.h"

namespace ddprun {

namespace {

/// A TCPStore refuses messages above 8 MiB; the samples of a long run are more.
constexpr std::size_t kPieceBytes = std::size_t{4} << 20;
constexpr std::size_t kMostPieces = 1024;

std::string piece_key(const std::string& key, std::size_t piece) {
  return key + "/" + std::to_string(piece);
}

std::size_t count_pieces(c10d::Store& store, const std::string& key) {
  const std::string text = store.get_to_str(key);
  std::size_t pieces = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), pieces);
  if (error == std::errc() && end == text.data() + text.size() && pieces <= kMostPieces) {
    return pieces;
  }
  throw foreign_text_error(text, key);
}

void remove_text(c10d::Store& store, const std::string& key) {
  for (std::size_t piece = 0, pieces = count_pieces(store, key); piece < pieces; ++piece) {
    store.deleteKey(piece_key(key, piece));
  }
  store.deleteKey(key);
}

/// Where each rank's text of that round lies.
std::vector<std::string> text_keys(const std::string& round, int size) {
  std::vector<std::string> keys;
  for (int peer = 0; peer < size; ++peer) keys.push_back(fmt::format("{}/{}", round, peer));
  return keys;
}

std::string place_of(int rank, int size, const std::string& round) {
  return fmt::format("rank {} of {}, {}", rank, size, round);
}

}  // namespace

void post_text(c10d::Store& store, const std::string& key, const std::string& text) {
  std::size_t pieces = 0;
  for (std::size_t begin = 0; begin < text.size(); begin += kPieceBytes) {
    store.set(piece_key(key, pieces++), text.substr(begin, kPieceBytes));
  }
  store.set(key, std::to_string(pieces));  // last: whoever sees it finds the pieces
}

std::string fetch_text(c10d::Store& store, const std::string& key) {
  std::string text;
  for (std::size_t piece = 0, pieces = count_pieces(store, key); piece < pieces; ++piece) {
    text += store.get_to_str(piece_key(key, piece));
  }
  return text;
}

void set_and_flush(c10d::Store& store, const std::string& key) {
  store.set(key, std::string("1"));
  try {
    store.check({key});
  } catch (const CommError&) {  // the rank has read it, and left
  }
}

void wait_for_ranks(c10d::Store& store, const std::vector<std::string>& keys,
                    std::chrono::milliseconds timeout, const std::string& where,
                    const std::vector<int>& members) {
  try {
    store.wait(keys, timeout);
  } catch (const c10::Error&) {  // the time is over
    check_all_came(store, keys, timeout, where, members);
  }
}

void check_all_came(c10d::Store& store, const std::vector<std::string>& keys,
                    std::chrono::milliseconds waited, const std::string& where,
                    const std::vector<int>& members) {
  std::vector<int> missing;
  for (int rank = 0; rank < std::ssize(keys); ++rank) {
    if (!store.check({keys[rank]})) missing.push_back(members.empty() ? rank : members[rank]);
  }
  if (missing.empty()) return;
  throw TimeoutError(
      {.what = "not all ranks came",
       .where = where,
       .got = fmt::format("{} of {} within {:g} s; missing: rank {}", keys.size() - missing.size(),
                          keys.size(), std::round(static_cast<double>(waited.count()) * 1e-2) * 0.1,
                          fmt::join(missing, ", ")),
       .expected = "all of them",
       .hint = "see the messages of those ranks; `timeout_s` under `world:` is the limit"});
}

std::vector<std::string> all_gather_object(c10d::Store& store, const std::string& round, int rank,
                                           int size, const std::string& text,
                                           std::chrono::milliseconds timeout,
                                           const std::vector<int>& members) {
  const std::vector<std::string> keys = text_keys(round, size);
  std::vector<std::string> read;
  for (const std::string& key : keys) read.push_back(key + "/read");
  const std::string where = place_of(rank, size, round);
  post_text(store, keys[rank], text);
  wait_for_ranks(store, keys, timeout, where, members);
  std::vector<std::string> texts;
  for (const auto& key : keys) texts.push_back(fetch_text(store, key));
  set_and_flush(store, read[rank]);
  if (rank == 0) {  // nobody needs the keys any more when all have read them
    wait_for_ranks(store, read, timeout, where, members);
    for (const auto& key : keys) remove_text(store, key);
    for (const auto& key : read) store.deleteKey(key);
  }
  return texts;
}

std::vector<std::string> gather_object(c10d::Store& store, const std::string& round, int rank,
                                       int size, const std::string& text,
                                       std::chrono::milliseconds timeout) {
  const std::vector<std::string> keys = text_keys(round, size);
  post_text(store, keys[rank], text);
  if (rank != 0) {
    store.check({keys[rank]});  // the store has it: this process may end
    return {};
  }
  wait_for_ranks(store, keys, timeout, place_of(rank, size, round));
  std::vector<std::string> texts;
  for (const std::string& key : keys) {
    texts.push_back(fetch_text(store, key));
    remove_text(store, key);
  }
  return texts;
}

}  // namespace ddprun
