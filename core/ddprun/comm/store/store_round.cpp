// One key that ranks append to, one that counts them, one that the last of them sets; others for
// the pieces of a long text.
#include "ddprun/comm/store/store_round.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <charconv>
#include <cmath>
#include <optional>
#include <string_view>

#include "ddprun/comm/store/comm_failure.h"
#include "ddprun/comm/store/foreign_text.h"

namespace ddprun {

namespace {

/// A TCPStore refuses messages above 8 MiB; the samples of a long run are more.
constexpr std::size_t kPieceBytes = std::size_t{4} << 20;
constexpr std::size_t kMostPieces = 1024;

std::string count_key(const std::string& name) { return name + "/count"; }
std::string all_key(const std::string& name) { return name + "/all"; }

/// Takes "17 " from the beginning of what is left.
std::optional<std::size_t> take_number(std::string_view& left) {
  std::size_t number = 0;
  const char* last = left.data() + left.size();
  const auto [end, error] = std::from_chars(left.data(), last, number);
  if (error != std::errc() || end == last || *end != ' ') return {};
  left.remove_prefix(static_cast<std::size_t>(end - left.data()) + 1);
  return number;
}

}  // namespace

std::string StoreRound::piece_key(int rank, std::size_t piece) const {
  return fmt::format("{}/{}/{}", name_, rank, piece);
}

bool StoreRound::bring(int rank, const std::string& text) {
  std::size_t pieces = 0;
  std::size_t bytes = text.size();
  if (bytes > kPieceBytes / static_cast<std::size_t>(size_)) {  // else all texts fit one answer
    for (std::size_t begin = 0; begin < text.size(); begin += kPieceBytes) {
      store_.set(piece_key(rank, pieces++), text.substr(begin, kPieceBytes));
    }
    bytes = 0;
  }
  const std::string record = fmt::format("{} {} {} ", rank, pieces, bytes) + text.substr(0, bytes);
  store_.append(name_, {record.begin(), record.end()});
  if (store_.add(count_key(name_), 1) != size_) return false;
  store_.set(all_key(name_), std::string("1"));
  try {
    store_.check({all_key(name_)});
  } catch (const CommError&) {  // who waited for this alone has read it, and left with the store
  }
  return true;
}

std::vector<StoreRound::Record> StoreRound::records() {
  const std::string text = store_.get_to_str(name_);
  std::vector<Record> records(static_cast<std::size_t>(size_));
  for (std::string_view left = text; !left.empty();) {
    const std::string_view begin = left;
    const auto rank = take_number(left);
    const auto pieces = take_number(left);
    const auto bytes = take_number(left);
    const bool ours = rank && *rank < records.size() && !records[*rank].came && pieces &&
                      *pieces <= kMostPieces && bytes && *bytes <= left.size();
    if (!ours) throw foreign_text_error(std::string(begin), where_);
    records[*rank] = {true, *pieces, std::string(left.substr(0, *bytes))};
    left.remove_prefix(*bytes);
  }
  return records;
}

void StoreRound::wait(std::chrono::milliseconds timeout) {
  try {
    store_.wait({all_key(name_)}, timeout);
  } catch (const c10::Error&) {  // the time is over
    check_all_came(timeout);
  }
}

void StoreRound::check_all_came(std::chrono::milliseconds waited) {
  std::vector<int> missing;
  const std::vector<Record> brought =
      store_.check({name_}) ? records() : std::vector<Record>(static_cast<std::size_t>(size_));
  for (int rank = 0; rank < size_; ++rank) {
    if (!brought[rank].came) missing.push_back(members_.empty() ? rank : members_[rank]);
  }
  if (missing.empty()) return;
  throw TimeoutError(
      {.what = "not all ranks came",
       .where = where_,
       .got = fmt::format(
           "{} of {} within {:g} s; missing: rank {}", brought.size() - missing.size(), size_,
           std::round(static_cast<double>(waited.count()) * 1e-2) * 0.1, fmt::join(missing, ", ")),
       .expected = "all of them",
       .hint = "see the messages of those ranks; `timeout_s` under `world:` is the limit"});
}

std::vector<std::string> StoreRound::texts() {
  std::vector<std::string> texts;
  for (Record& record : records()) {
    const int rank = static_cast<int>(texts.size());
    std::string& text = texts.emplace_back(std::move(record.text));
    for (std::size_t piece = 0; piece < record.pieces; ++piece) {
      text += store_.get_to_str(piece_key(rank, piece));
    }
  }
  return texts;
}

void StoreRound::remove() {
  const std::vector<Record> brought = records();
  for (int rank = 0; rank < size_; ++rank) {
    for (std::size_t piece = 0; piece < brought[rank].pieces; ++piece) {
      store_.deleteKey(piece_key(rank, piece));
    }
  }
  for (const std::string& key : {name_, count_key(name_), all_key(name_)}) store_.deleteKey(key);
}

}  // namespace ddprun
