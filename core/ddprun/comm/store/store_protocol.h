// The wire protocol of c10d's TCPStore, as far as ddprun speaks it; PyTorch does not publish it.
// Source: torch/csrc/distributed/c10d/TCPStoreBackend.hpp of PyTorch 2.11 to 2.13, in c10d/store/
// since 2.14: these numbers are the same in all.
#pragma once

#include <cstddef>
#include <cstdint>

namespace ddprun::store_protocol {

/// A request is one of these, then its fields. A text is its length (uint64), then its bytes;
/// texts are their count, then each. Numbers are in the machine's byte order.
enum class Query : std::uint8_t {
  validate = 0,      // kMagic; no answer
  set = 1,           // key, value; no answer
  compare_set = 2,   // key, expected, desired; the value
  get = 3,           // key; the value
  add = 4,           // key, int64; the sum, int64
  check = 5,         // keys; a Check
  wait = 6,          // keys; Wait::ended when all are there
  delete_key = 8,    // key; how many were deleted, int64
  append = 9,        // key, value that follows what is there; no answer
  cancel_wait = 12,  // Wait::canceled
  ping = 13,         // uint32; the same
  /// Ddprun's own, and the first request where the launch has a secret: a random number of the
  /// client; one of the server. Then come the client's proof, and the server's (store_secret.h).
  prove = 200,
};

enum class Check : std::uint8_t { ready = 0, not_ready = 1 };
enum class Wait : std::uint8_t { ended = 0, canceled = 1 };

constexpr std::uint32_t kMagic = 0x3C85F7CE;
/// Answers the ping of a client that has not proved that it knows the secret.
constexpr std::uint32_t kSecretWanted = 0xDD5EC2E7;

/// What clients of ours may send. A TCPStore refuses a message above 8 MiB, too.
constexpr std::size_t kLongestKey = std::size_t{64} << 10;  // names of groups are long
constexpr std::size_t kLongestValue = std::size_t{8} << 20;
constexpr std::size_t kMostKeys = std::size_t{1} << 16;  // of one request

}  // namespace ddprun::store_protocol
