// 64-bit hashes of bytes: they tell contents apart, and protect from nobody.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>

namespace ddprun {

/// XXH3 (xxhash.com) of bytes that come piece by piece; where they are cut makes no difference. The
/// value is the same on every machine.
class Hash64 {
 public:
  Hash64();
  ~Hash64();
  Hash64(const Hash64&) = delete;
  Hash64& operator=(const Hash64&) = delete;

  void add(const void* data, std::size_t bytes);
  /// Of all bytes added so far.
  std::uint64_t value() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// The hash of a whole text.
std::uint64_t hash64(std::string_view text);

/// Reads 1 to 16 hexadecimal digits: the form of a hash in JSON, as most readers of JSON keep only
/// 53 bits of an integer.
std::optional<std::uint64_t> hash_from_hex(std::string_view text);

}  // namespace ddprun
