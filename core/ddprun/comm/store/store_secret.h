// How both ends of a connection to the store prove that they know the secret of their launch.
#pragma once

#include <array>
#include <cstdint>
#include <string>

namespace ddprun {

/// 32 bytes: a random number that is used once, or an HMAC-SHA256.
using Digest = std::array<std::uint8_t, 32>;

/// What an end sends instead of an answer; neither a proof nor a random number.
constexpr Digest kRefused = {};

enum class StoreEnd : std::uint8_t { client = 'c', server = 's' };

Digest random_digest();
/// Of one connection. `client` and `server`: the random number that each of its ends has sent.
Digest proof_of(StoreEnd whose, const std::string& secret, const Digest& client,
                const Digest& server);
/// Takes as long for different ones as for equal ones, so it tells nobody how far a guess was
/// right.
bool same_digest(const Digest& a, const Digest& b);

}  // namespace ddprun
