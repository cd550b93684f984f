// One key for each piece of a text, and one for their number.
#include "ddprun/comm/store/store_texts.h"

#include "ddprun/base/error.h"

namespace ddprun {

namespace {

/// A TCPStore refuses messages above 8 MiB; the samples of a long run are more.
constexpr std::size_t kPieceBytes = std::size_t{4} << 20;

std::string piece_key(const std::string& key, std::size_t piece) {
  return key + "/" + std::to_string(piece);
}

std::size_t count_pieces(c10d::Store& store, const std::string& key) {
  return std::stoull(store.get_to_str(key));
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

void remove_text(c10d::Store& store, const std::string& key) {
  for (std::size_t piece = 0, pieces = count_pieces(store, key); piece < pieces; ++piece) {
    store.deleteKey(piece_key(key, piece));
  }
  store.deleteKey(key);
}

void set_and_flush(c10d::Store& store, const std::string& key) {
  store.set(key, std::string("1"));
  try {
    store.check({key});
  } catch (const CommError&) {  // the rank has read it, and left
  }
}

}  // namespace ddprun
