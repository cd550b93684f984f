// The wire protocol of c10d's TCPStore, as far as ddprun speaks it; PyTorch does not publish it.
// Source: torch/csrc/distributed/c10d/TCPStoreBackend.hpp of PyTorch 2.11 to 2.13, in c10d/store/
// since 2.14: these numbers are the same in all.
#pragma once

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
  cancel_wait = 12,  // Wait::canceled
  ping = 13,         // uint32; the same
};

enum class Check : std::uint8_t { ready = 0, not_ready = 1 };
enum class Wait : std::uint8_t { ended = 0, canceled = 1 };

constexpr std::uint32_t kMagic = 0x3C85F7CE;

}  // namespace ddprun::store_protocol
