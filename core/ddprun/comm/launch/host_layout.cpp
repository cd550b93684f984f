// Compares what launchers say about hosts with what the hosts say.
#include "ddprun/comm/launch/host_layout.h"
#include "ddprun/base/text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>

namespace ddprun {

namespace {

std::vector<std::size_t> ranks_on(const std::string& host, const std::vector<HostClaim>& ranks) {
  std::vector<std::size_t> found;
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    if (ranks[rank].host == host) found.push_back(rank);
  }
  return found;
}

/// Says what is wrong with the host of `rank`, if every host should have `local_size` ranks.
std::optional<ErrorText> refuse_host_of(std::size_t rank, const std::vector<HostClaim>& ranks,
                                        std::size_t local_size) {
  if (ranks[rank].host.empty()) {
    return ErrorText{.what = "a rank cannot tell which host it is on",
                     .got = fmt::format("rank {}", rank),
                     .expected = "/proc/sys/kernel/random/boot_id and /proc/self/ns/",
                     .hint = "`backend: gloo` needs neither"};
  }
  const auto neighbours = ranks_on(ranks[rank].host, ranks);
  if (neighbours.size() != local_size) {
    return ErrorText{
        .what = "the launcher and the hosts disagree about who is on one host",
        .got = fmt::format("rank {} shares its host with {} in all (rank {}); its launcher says {}",
                           rank, counted(std::ssize(neighbours), "rank"),
                           fmt::join(neighbours, ", "), local_size),
        .expected = "the same of both",
        .hint =
            "LOCAL_WORLD_SIZE or its like is the number of ranks of the host; a host is a "
            "machine and its PID and network namespace"};
  }
  const std::size_t first = rank / local_size * local_size;
  if (neighbours.front() != first || neighbours.back() != first + local_size - 1 ||
      static_cast<std::size_t>(ranks[rank].local_rank) != rank - first) {
    return ErrorText{
        .what = "backend hierarchical needs the ranks of each host to follow one another",
        .got = fmt::format("rank {} is local rank {} of a host with rank {}", rank,
                           ranks[rank].local_rank, fmt::join(neighbours, ", ")),
        .expected = "rank = host x ranks of a host + local rank",
        .hint = "torchrun does so; `srun --distribution=block`, `mpirun --map-by slot`"};
  }
  return std::nullopt;
}

std::string link(const char* path) {
  std::error_code failure;
  const auto target = std::filesystem::read_symlink(path, failure);
  return failure ? "" : target.string();
}

}  // namespace

std::string HostClaim::text() const {
  return fmt::format("{} {} {}", local_rank, local_size, host);
}

HostClaim HostClaim::of(const std::string& text) {
  HostClaim claim;
  std::istringstream in(text);
  in >> claim.local_rank >> claim.local_size;
  in.get();
  std::getline(in, claim.host);
  return claim;
}

std::string host_identity() {
  std::string boot;
  std::getline(std::ifstream("/proc/sys/kernel/random/boot_id") >> std::ws, boot);
  const std::string pid = link("/proc/self/ns/pid");
  const std::string net = link("/proc/self/ns/net");
  if (boot.empty() || pid.empty() || net.empty()) return "";
  return boot + " " + pid + " " + net;
}

std::optional<ErrorText> refuse_hosts(const std::vector<HostClaim>& ranks) {
  const auto local_size = static_cast<std::size_t>(ranks[0].local_size);
  if (local_size >= ranks.size()) {
    return ErrorText{.what = "backend hierarchical needs several hosts",
                     .got = fmt::format("all ranks ({}) are on one host", ranks.size()),
                     .expected = "auto or shm",
                     .hint = "on one host `shm` does all of it"};
  }
  const auto other = std::ranges::find_if(
      ranks, [&](const HostClaim& rank) { return rank.local_size != ranks[0].local_size; });
  if (other != ranks.end() || ranks.size() % local_size != 0) {
    return ErrorText{
        .what = "backend hierarchical needs as many ranks on every host",
        .got = other == ranks.end()
                   ? fmt::format("{} ranks in all, {} on each host", ranks.size(), local_size)
                   : fmt::format("{} on the host of rank 0, {} on that of rank {}", local_size,
                                 other->local_size, other - ranks.begin()),
        .expected = "as many on every host",
        .hint = "launch so, or take `backend: gloo`"};
  }
  if (local_size == 1) {
    return ErrorText{.what = "backend hierarchical needs several ranks on each host",
                     .got = "one rank on each",
                     .expected = "two or more on each",
                     .hint = "take auto or gloo"};
  }
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    if (auto wrong = refuse_host_of(rank, ranks, local_size)) return wrong;
  }
  return std::nullopt;
}

}  // namespace ddprun
