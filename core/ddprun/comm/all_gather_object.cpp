// One key a rank in the store, and one for each piece of its text.
#include "ddprun/comm/all_gather_object.h"

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

std::vector<std::string> all_gather_object(c10d::Store& store, const std::string& round, int rank,
                                           int size, const std::string& text,
                                           std::chrono::milliseconds timeout) {
  std::vector<std::string> keys;
  for (int peer = 0; peer < size; ++peer) keys.push_back(round + "/" + std::to_string(peer));
  const std::string readers = round + "/readers";
  const std::string read = round + "/read";
  post(store, keys[rank], text);
  store.wait(keys, timeout);
  std::vector<std::string> texts;
  for (const auto& key : keys) texts.push_back(fetch(store, key));
  if (store.add(readers, 1) == size) {  // the last reader: nobody needs the keys any more
    for (const auto& key : keys) remove(store, key);
    store.deleteKey(readers);
    store.set(read, std::string("1"));
  }
  if (rank == 0) {
    store.wait({read}, timeout);
    store.deleteKey(read);
  }
  return texts;
}

}  // namespace ddprun
