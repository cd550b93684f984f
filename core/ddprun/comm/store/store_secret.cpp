// HMAC-SHA256 of libsodium.
#include "ddprun/comm/store/store_secret.h"

#include <sodium.h>

#include <stdexcept>

namespace ddprun {

namespace {

void start_library() {
  if (sodium_init() < 0) throw std::runtime_error("libsodium finds no random numbers");
}

}  // namespace

Digest random_digest() {
  start_library();
  Digest digest;
  randombytes_buf(digest.data(), digest.size());
  return digest;
}

Digest proof_of(StoreEnd whose, const std::string& secret, const Digest& client,
                const Digest& server) {
  start_library();
  crypto_auth_hmacsha256_state state;
  crypto_auth_hmacsha256_init(&state, reinterpret_cast<const unsigned char*>(secret.data()),
                              secret.size());
  const auto end = static_cast<unsigned char>(whose);
  crypto_auth_hmacsha256_update(&state, &end, 1);
  for (const Digest* each : {&client, &server}) {
    crypto_auth_hmacsha256_update(&state, each->data(), each->size());
  }
  Digest proof;
  crypto_auth_hmacsha256_final(&state, proof.data());
  return proof;
}

bool same_digest(const Digest& a, const Digest& b) {
  return sodium_memcmp(a.data(), b.data(), a.size()) == 0;
}

}  // namespace ddprun
