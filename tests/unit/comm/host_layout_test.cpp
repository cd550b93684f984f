// Which places of ranks allow collectives host by host, and the words for those that do not.
#include "ddprun/comm/launch/host_layout.h"

#include <sys/wait.h>
#include <unistd.h>

#include "support/matchers.h"

namespace ddprun {
namespace {

/// Ranks on hosts named by letters, with the local ranks and sizes that a launcher counts: "aabb".
std::vector<HostClaim> claims(const std::string& hosts) {
  std::vector<HostClaim> ranks;
  for (std::size_t rank = 0; rank < hosts.size(); ++rank) {
    const auto before =
        std::count(hosts.begin(), hosts.begin() + static_cast<long>(rank), hosts[rank]);
    const auto all = std::count(hosts.begin(), hosts.end(), hosts[rank]);
    ranks.push_back({std::string(1, hosts[rank]), static_cast<int>(before), static_cast<int>(all)});
  }
  return ranks;
}

ErrorText refusal(const std::vector<HostClaim>& ranks) {
  const auto text = refuse_hosts(ranks);
  if (!text) ADD_FAILURE() << "accepted";
  return text.value_or(ErrorText{});
}

TEST(HostLayout, HostsOfEqualSizeAreTaken) {
  EXPECT_FALSE(refuse_hosts(claims("aabb")));
  EXPECT_FALSE(refuse_hosts(claims("bbaacc")));
  EXPECT_FALSE(refuse_hosts(claims("aaabbb")));
}

TEST(HostLayout, OneHostIsForShm) {
  EXPECT_EQ(refusal(claims("aaaa")).got, "all ranks (4) are on one host");
  EXPECT_THAT(refusal(claims("a")).hint, HasSubstr("shm"));
}

TEST(HostLayout, OneRankAHostIsForGloo) {
  EXPECT_EQ(refusal(claims("abc")).what, "backend hierarchical needs several ranks on each host");
}

TEST(HostLayout, HostsOfDifferentSizes) {
  const ErrorText text = refusal(claims("aab"));
  EXPECT_EQ(text.what, "backend hierarchical needs as many ranks on every host");
  EXPECT_EQ(text.got, "2 on the host of rank 0, 1 on that of rank 2");
  EXPECT_THAT(text.hint, HasSubstr("gloo"));
  auto cut_short = claims("aabb");
  cut_short.pop_back();
  EXPECT_EQ(refusal(cut_short).what, text.what);
  EXPECT_EQ(refusal(cut_short).got, "3 ranks in all, 2 on each host");
}

TEST(HostLayout, RanksOfAHostFollowOneAnother) {
  const ErrorText text = refusal(claims("abab"));
  EXPECT_EQ(text.what, "backend hierarchical needs the ranks of each host to follow one another");
  EXPECT_THAT(text.hint, HasSubstr("--distribution=block"));
  auto swapped = claims("aabb");
  std::swap(swapped[2].local_rank, swapped[3].local_rank);
  EXPECT_EQ(refusal(swapped).got, "rank 2 is local rank 1 of a host with rank 2, 3");
}

TEST(HostLayout, TheLauncherIsNotTrusted) {
  auto one_host = claims("aabb");
  for (auto& rank : one_host) rank.host = "a";  // two launches on one machine
  const ErrorText text = refusal(one_host);
  EXPECT_EQ(text.what, "the launcher and the hosts disagree about who is on one host");
  EXPECT_EQ(text.got,
            "rank 0 shares its host with 4 ranks in all (rank 0, 1, 2, 3); its launcher says 2");
  auto apart = claims("aabb");
  apart[3].host = "c";  // a container of its own
  EXPECT_THAT(refusal(apart).got, HasSubstr("rank 2 shares its host with 1 rank in all (rank 2)"));
}

TEST(HostLayout, AnUnknownHostIsRefused) {
  auto unknown = claims("aabb");
  unknown[2].host = "";
  EXPECT_EQ(refusal(unknown).got, "rank 2");
}

TEST(HostLayout, AClaimIsReadAsItWasWritten) {
  const HostClaim claim = HostClaim::of(HostClaim{"boot pid:[1] net:[2]", 3, 8}.text());
  EXPECT_EQ(claim.host, "boot pid:[1] net:[2]");
  EXPECT_EQ(claim.local_rank, 3);
  EXPECT_EQ(claim.local_size, 8);
  EXPECT_EQ(HostClaim::of(HostClaim{"", 1, 2}.text()).host, "");
}

TEST(HostIdentity, IsThatOfTheMachineAndItsNamespaces) {
  EXPECT_THAT(host_identity(), ContainsRegex("^[0-9a-f-]+ pid:.* net:.*"));
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  const pid_t child = ::fork();
  if (child == 0)
    ::_exit(::write(ends[1], host_identity().data(), host_identity().size()) > 0 ? 0 : 1);
  std::string theirs(1000, '\0');
  theirs.resize(static_cast<std::size_t>(::read(ends[0], theirs.data(), theirs.size())));
  ::waitpid(child, nullptr, 0);
  EXPECT_EQ(theirs, host_identity());
}

}  // namespace
}  // namespace ddprun
