// One key a rank in the store, and one for each piece of its text.
#include "ddprun/comm/all_gather_object.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "ddprun/base/error.h"

namespace ddprun {

namespace {

/// A TCPStore refuses messages above 8 MiB; the samples of a long run are more.
constexpr std::size_t kPieceBytes = std::size_t{4} << 20;

std::string piece_key(const std::string& key, std::size_t piece) {
  return key + "/" + std::to_string(piece);
}

/// Puts the text under `key`, piece by piece.
void post(c10d::Store& store, const std::string& key, const std::string& text) {
  std::size_t pieces = 0;
  for (std::size_t begin = 0; begin < text.size(); begin += kPieceBytes) {
    store.set(piece_key(key, pieces++), text.substr(begin, kPieceBytes));
  }
  store.set(key, std::to_string(pieces));  // last: whoever sees it finds the pieces
}

std::size_t count_pieces(c10d::Store& store, const std::string& key) {
  return std::stoull(store.get_to_str(key));
}

std::string fetch(c10d::Store& store, const std::string& key) {
  std::string text;
  for (std::size_t piece = 0, pieces = count_pieces(store, key); piece < pieces; ++piece) {
    text += store.get_to_str(piece_key(key, piece));
  }
  return text;
}

void remove(c10d::Store& store, const std::string& key) {
  for (std::size_t piece = 0, pieces = count_pieces(store, key); piece < pieces; ++piece) {
    store.deleteKey(piece_key(key, piece));
  }
  store.deleteKey(key);
}

}  // namespace

void wait_for_ranks(c10d::Store& store, const std::vector<std::string>& keys,
                    std::chrono::milliseconds timeout, const std::string& where) {
  try {
    return store.wait(keys, timeout);
  } catch (const CommError&) {
    throw;
  } catch (const c10::Error&) {  // the time is over
  }
  std::vector<std::size_t> missing;
  for (std::size_t rank = 0; rank < keys.size(); ++rank) {
    if (!store.check({keys[rank]})) missing.push_back(rank);
  }
  throw CommError(
      {.what = "not all ranks came",
       .where = where,
       .got = fmt::format("{} of {} within {:g} s; missing: rank {}", keys.size() - missing.size(),
                          keys.size(), static_cast<double>(timeout.count()) * 1e-3,
                          fmt::join(missing, ", ")),
       .expected = "all of them",
       .hint = "see the messages of those ranks; `timeout_s` under `world:` is the limit"});
}

std::vector<std::string> all_gather_object(c10d::Store& store, const std::string& round, int rank,
                                           int size, const std::string& text,
                                           std::chrono::milliseconds timeout) {
  std::vector<std::string> keys;
  std::vector<std::string> read;
  for (int peer = 0; peer < size; ++peer) {
    keys.push_back(fmt::format("{}/{}", round, peer));
    read.push_back(fmt::format("{}/{}/read", round, peer));
  }
  const std::string where = fmt::format("rank {} of {}, {}", rank, size, round);
  post(store, keys[rank], text);
  wait_for_ranks(store, keys, timeout, where);
  std::vector<std::string> texts;
  for (const auto& key : keys) texts.push_back(fetch(store, key));
  store.set(read[rank], std::string("1"));
  if (rank == 0) {  // nobody needs the keys any more when all have read them
    wait_for_ranks(store, read, timeout, where);
    for (const auto& key : keys) remove(store, key);
    for (const auto& key : read) store.deleteKey(key);
  }
  return texts;
}

}  // namespace ddprun
