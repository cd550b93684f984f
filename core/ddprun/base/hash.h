// 64-bit hashes of bytes: they tell contents apart, and protect from nobody.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
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

}  // namespace ddprun
