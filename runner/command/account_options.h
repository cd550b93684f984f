// What `ddprun account` is asked: for how many ranks, how much memory, over which link.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "ddprun/comm/group/link.h"

namespace ddprun {

/// As typed; empty: not given.
struct AccountWords {
  std::string ranks = {}, memory = {}, link = {}, host_link = {}, hosts = {}, tflops = {},
              memory_rate = {};
};

struct AccountOptions {
  std::vector<std::int64_t> ranks = {};  ///< empty: what the file says
  std::int64_t ranks_per_host = 0;       ///< 0: all on one
  std::optional<double> memory_bytes = {};
  std::optional<Links> links = {};
  std::optional<double> operations_per_s = {};  ///< of a rank's products
  std::optional<double> bytes_per_s = {};       ///< of a rank's memory
};

/// Reads "1,2,8", "80GB" (GB is 1e9 bytes, GiB 2^30), "200GB/s,5us", "8x8" (hosts x ranks of each),
/// "989" (1e12 operations a second) and "3TB/s". Throws ConfigError for a number without a unit, a
/// link without a latency, ranks that are none, ranks that the hosts do not make up, and a word
/// without the one that it needs.
AccountOptions read_account_options(const AccountWords& words);

}  // namespace ddprun
