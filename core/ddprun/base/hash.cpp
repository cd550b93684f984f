// XXH3 by xxHash, whose code is all in its header.
#include "ddprun/base/hash.h"

#include "ddprun/base/text.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace ddprun {

struct Hash64::State {
  XXH3_state_t xxh3;
};

Hash64::Hash64() : state_(std::make_unique<State>()) { XXH3_64bits_reset(&state_->xxh3); }

Hash64::~Hash64() = default;

void Hash64::add(const void* data, std::size_t bytes) {
  XXH3_64bits_update(&state_->xxh3, data, bytes);
}

std::uint64_t Hash64::value() const { return XXH3_64bits_digest(&state_->xxh3); }

std::uint64_t hash64(std::string_view text) { return XXH3_64bits(text.data(), text.size()); }

std::optional<std::uint64_t> hash_from_hex(std::string_view text) {
  return number_from<std::uint64_t>(text, 16);
}

}  // namespace ddprun
