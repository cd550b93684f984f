// A connection as the store's server sees it, and the requests that come over it.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ddprun/base/descriptor.h"
#include "ddprun/base/text.h"
#include "ddprun/comm/store/store_protocol.h"
#include "ddprun/comm/store/store_secret.h"

namespace ddprun {

/// Reads the fields of one request from the bytes that have come so far.
class ReceivedRequest {
 public:
  explicit ReceivedRequest(std::string_view bytes) : bytes_(bytes) {}

  template <typename T>
  T value() {
    T result{};
    if (const std::string_view raw = take(sizeof(T)); !raw.empty()) {
      std::memcpy(&result, raw.data(), sizeof(T));
    }
    return result;
  }
  std::string text(std::size_t longest = store_protocol::kLongestValue) {
    const auto length = value<std::uint64_t>();
    malformed_ = malformed_ || length > longest;
    return malformed_ ? "" : std::string(take(length));
  }
  std::string key() { return text(store_protocol::kLongestKey); }
  std::vector<std::string> keys() {
    const auto count = value<std::uint64_t>();
    malformed_ = malformed_ || count > store_protocol::kMostKeys;
    std::vector<std::string> result;
    while (whole() && result.size() < count) result.push_back(key());
    return result;
  }
  bool whole() const { return whole_ && !malformed_; }
  bool malformed() const { return malformed_; }
  std::size_t size() const { return taken_; }

 private:
  std::string_view take(std::size_t size) {
    whole_ = whole_ && bytes_.size() - taken_ >= size;
    if (!whole_) return {};
    const std::string_view part = bytes_.substr(taken_, size);
    taken_ += size;
    return part;
  }

  std::string_view bytes_;
  std::size_t taken_ = 0;
  bool whole_ = true;
  bool malformed_ = false;
};

/// What a connection has shown of itself.
enum class Stage : std::uint8_t {
  stranger,    ///< nothing
  challenged,  ///< it was asked for a proof that it knows the secret
  known        ///< its requests are served
};

struct Connection {
  Connection(Descriptor connected, Stage at) : socket(std::move(connected)), stage(at) {}
  Descriptor socket;
  Stage stage;
  Digest nonces[2] = {};  ///< the client's and the server's
  std::string in;
  std::string out;
  std::vector<std::string> awaited;  ///< keys of the wait that is under way
  bool last = false;                 ///< closed when `out` has been sent
  bool closed = false;

  template <typename T>
  void answer(T value) {
    out += bytes_in_memory(value);
  }
  void answer_text(const std::string& text) {
    answer(static_cast<std::uint64_t>(text.size()));
    out += text;
  }
};

}  // namespace ddprun
