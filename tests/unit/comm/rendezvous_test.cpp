// How ranks find each other: real processes that meet, fail, die and leave.
#include "ddprun/comm/launch/rendezvous.h"

#include <ATen/Functions.h>

#include <dlfcn.h>
#include <netdb.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdlib>
#include <thread>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include "ddprun/base/clock.h"
#include "ddprun/comm/store/launch_board.h"
#include "support/free_port.h"
#include "support/matchers.h"
#include "support/process_ranks.h"

namespace ddprun {
namespace {

using test::expect_comm_error;
using test::free_port;
using test::joined;
using test::listen_on_free_port;
using test::run_process_ranks;

/// Sum over ranks of (rank + 1), through the group.
bool sums_ranks(ProcessGroup& group) {
  const at::Tensor tensor = at::full({1000}, group.rank() + 1.0f);
  group.all_reduce(tensor, ReduceOp::sum, "x").wait();
  return at::equal(tensor, at::full({1000}, group.size() * (group.size() + 1) / 2.0f));
}

TEST(Connect, ProcessesMeetAndLeaveInOrder) {
  for (int run = 0; run < 5; ++run) {
    for (const int world_size : {1, 2, 3}) {
      const auto ends = run_process_ranks(world_size, [](const RankInfo& info) {
        const auto group = connect(info, {}, "run");
        const bool right = sums_ranks(*group) &&
                           group->all_gather_object("hello").size() == std::size_t(info.world_size);
        group->shutdown();
        return right ? 0 : 1;
      });
      EXPECT_THAT(ends, Each(0)) << "exit status, or minus the signal";
    }
  }
}

TEST(Connect, AllGatherObjectTakesMoreThanOneMessageOfTheStoreHolds) {
  const auto ends = run_process_ranks(2, [](const RankInfo& info) {
    const auto group = connect(info, {}, "run");
    const auto text_of = [](int rank, int round) {
      std::string text(std::size_t{20'000'000} + static_cast<std::size_t>(rank), 'x');
      for (std::size_t i = 0; i < text.size(); i += 1000) text[i] = char('a' + (i + round) % 26);
      return text;
    };
    bool right = true;
    for (const int round : {0, 1}) {
      const auto texts = group->all_gather_object(text_of(info.rank, round));
      right = right && texts[0] == text_of(0, round) && texts[1] == text_of(1, round);
    }
    right = right && group->all_gather_object("").at(1).empty();
    group->shutdown();
    return right ? 0 : 1;
  });
  EXPECT_THAT(ends, Each(0)) << "exit status, or minus the signal";
}

TEST(DecideInLaunch, TakesTextsLargerThanOneMessageOfTheStore) {
  const int port = free_port();
  const auto ends = run_process_ranks(3, [&](const RankInfo& own) {
    const RankInfo info = joined(own, port);
    const auto text_of = [](int rank) {
      return std::string(9'000'000, static_cast<char>('a' + rank));
    };
    const std::vector<std::string> all = {text_of(0), text_of(1), text_of(2)};
    const auto decide = [&](const std::vector<std::string>& texts) {
      return std::string(texts == all ? "these" : "others");
    };
    for (const char* topic : {"first", "second"}) {
      if (decide_in_launch(info, topic, text_of(own.rank), 30, decide) != "these") return 1;
      if (own.rank == 0) wait_until_heard(info, topic, 30);
    }
    return 0;
  });
  EXPECT_THAT(ends, Each(0)) << "exit status, or minus the signal";
}

TEST(DecideInLaunch, StandsThoughARankIsGoneBeforeItHeard) {
  const int port = free_port();
  const auto ends = run_process_ranks(2, [port](const RankInfo& own) {
    if (own.rank == 1) return 0;  // it ends before it has heard anything
    const RankInfo info = joined(own, port);
    if (impose_in_launch(info, "end", "now", 10) != "now") return 1;
    wait_until_heard(info, "end", 0.2);
    return 0;
  });
  EXPECT_THAT(ends, Each(0)) << "exit status, or minus the signal";
}

// The store of torchrun's agent outlives the ranks that it starts again.
TEST(DecideInLaunch, RanksThatAreStartedAgainHearNothingOfTheFirstStart) {
  const int port = free_port();
  const pid_t agent = ::fork();
  if (agent == 0) {
    const c10d::TCPStore store(
        "127.0.0.1",
        {.port = static_cast<std::uint16_t>(port), .isServer = true, .waitWorkers = false});
    while (true) ::pause();
  }
  while (test::connection_to(port).get() < 0) ::usleep(10'000);  // until it listens
  const auto decided = [&](const RankInfo& own, const char* start, double timeout_s) {
    ::setenv("TORCHELASTIC_RESTART_COUNT", start, 1);
    RankInfo info = joined(own, port);
    info.agent_store = true;
    return decide_in_launch(info, "rows", start + std::to_string(own.rank), timeout_s,
                            [](const auto& texts) { return texts[0] + texts[1]; });
  };
  const auto first = run_process_ranks(2, [&](const RankInfo& own) {
    if (own.rank == 1) return 0;  // it ends before it has said anything
    return expect_comm_error([&] { decided(own, "0", 0.5); }, {"rank 1"});
  });
  EXPECT_THAT(first, Each(0)) << "exit status, or minus the signal";
  const auto second = run_process_ranks(
      2, [&](const RankInfo& own) { return decided(own, "1", 20) == "1011" ? 0 : 1; });
  EXPECT_THAT(second, Each(0)) << "exit status, or minus the signal";
  ::kill(agent, SIGKILL);
  ::waitpid(agent, nullptr, 0);
}

TEST(Connect, AKilledPeerIsACommErrorWithinSeconds) {
  const auto ends = run_process_ranks(3, [](const RankInfo& info) {
    const auto group = connect(info, {}, "run");
    if (!sums_ranks(*group)) return 1;
    if (info.rank == 1) ::raise(SIGKILL);
    const std::int64_t begin = now_ns();
    try {
      for (;;) sums_ranks(*group);
    } catch (const CommError& error) {
      return to_ms(now_ns() - begin) < 5000 &&
                     error.text().where.find("all_reduce 'x'") != std::string::npos
                 ? 0
                 : 2;
    }
  });
  EXPECT_THAT(ends, ElementsAre(0, -SIGKILL, 0));
}

TEST(Connect, APeerThatThrowsEndsWithoutAbort) {
  const auto ends = run_process_ranks(2, [](const RankInfo& info) {
    const auto group = connect(info, {}, "run");
    const at::Tensor tensor = at::zeros({10});
    Work work = group->all_reduce(tensor, ReduceOp::sum, "first");
    if (info.rank == 1) return 7;  // as an exception would: no wait, no shutdown
    try {
      work.wait();
      for (;;) sums_ranks(*group);
    } catch (const CommError&) {
      return 0;
    }
  });
  EXPECT_THAT(ends, ElementsAre(0, 7));
}

TEST(Connect, ARankThatIsAheadMeetsTheOthersInTheNextRun) {
  const int port = free_port();
  const auto ends = run_process_ranks(2, [&](const RankInfo& own) {
    const RankInfo info = joined(own, port);  // of a launch that runs several rows at one port
    for (const char* run : {"first", "second", "third"}) {
      const auto group = connect(info, {}, run);
      if (!sums_ranks(*group)) return 1;
      group->shutdown();
      if (info.rank == 0) std::this_thread::sleep_for(std::chrono::milliseconds(300));
    }
    return 0;
  });
  EXPECT_THAT(ends, ElementsAre(0, 0));
}

TEST(Connect, SaysWhichRanksDidNotCome) {
  const auto ends = test::run_ranks_in_time(3, [](const RankInfo& info, int limit_s) {
    if (info.rank == 1) return 0;
    try {
      connect(info, {.timeout_s = double(limit_s)}, "run");
    } catch (const CommError& error) {
      if (info.rank != 0) return 0;               // when rank 0 has given up, the store is gone
      const std::string& got = error.text().got;  // the store took some of the time
      if (got.starts_with("2 of 3 within ") && got.ends_with(" s; missing: rank 1")) return 0;
      throw;  // rank 2 is late
    }
    return 2;
  });
  EXPECT_THAT(ends, ElementsAre(0, 0, 0));
}

TEST(Connect, SaysThatRankZeroDidNotCome) {
  const auto ends = run_process_ranks(2, [](const RankInfo& info) {
    if (info.rank == 0) return 0;
    CommConfig config;
    config.timeout_s = 1.0;
    const std::int64_t begin = now_ns();
    try {
      connect(info, config, "run");
    } catch (const CommError& error) {
      std::puts(error.what());
      return to_ms(now_ns() - begin) < 10'000 ? 0 : 1;
    }
    return 2;
  });
  EXPECT_THAT(ends, ElementsAre(0, 0));
}

/// Names of hosts that this process has asked the name service for.
std::atomic<int> name_look_ups = 0;

TEST(Connect, RanksOfOneHostAskNoNameService) {
  const int port = free_port();
  const auto ends = run_process_ranks(3, [&](const RankInfo& own) {
    name_look_ups = 0;  // other cases, in the process that was forked, may have asked
    for (const BackendKind backend : {BackendKind::shm, BackendKind::gloo}) {
      const RankInfo info = joined(own, port);
      const auto group = connect(info, {.backend = backend}, name_of(backend));
      if (!sums_ranks(*group)) return 1;
      group->shutdown();
    }
    return name_look_ups == 0 ? 0 : 2;
  });
  EXPECT_THAT(ends, Each(0)) << "2: a name was looked up";
}

TEST(Connect, ASizeThatDiffersIsRefusedBeforeGlooAborts) {
  for (const BackendKind backend : {BackendKind::gloo, BackendKind::shm}) {
    LaunchBoard board(2);
    const auto ends = run_process_ranks(2, [&](const RankInfo& info) {
      board.attach(info.rank);
      const auto group = connect(info, {.backend = backend}, "run");
      group->barrier();
      const at::Tensor tensor = at::zeros({1000 + info.rank});
      try {
        group->all_reduce(tensor, ReduceOp::sum, "layers.0.w").wait();
      } catch (const CommError& error) {
        const ErrorText& text = error.text();
        if (text.what != "the ranks called different collectives") return 1;  // the peer has left
        const bool names =
            text.got.find("rank 0: all_reduce 'layers.0.w' of 4000 bytes") != std::string::npos &&
            text.got.find("rank 1: all_reduce 'layers.0.w' of 4004 bytes") != std::string::npos;
        return names && text.where.find("call 2 of each") != std::string::npos ? 0 : 2;
      }
      return 3;
    });
    EXPECT_THAT(ends, Contains(0)) << "the rank that comes last refuses";
    EXPECT_THAT(ends, Each(AnyOf(0, 1))) << "no signal";
  }
}

TEST(Connect, SaysThatThePortIsTaken) {
  const auto [listener, port] = listen_on_free_port();
  const auto ends = run_process_ranks(2, [port = port](const RankInfo& own) {
    if (own.rank == 1) return 0;
    try {
      connect(joined(own, port), {}, "run");
    } catch (const CommError& error) {
      return error.text().what == "the store of this run cannot listen" ? 0 : 1;
    }
    return 2;
  });
  EXPECT_THAT(ends, ElementsAre(0, 0));
}

TEST(Connect, TheStoreListensAtTheMastersAddressAlone) {
  const int port = free_port();
  const auto ends = run_process_ranks(2, [&](const RankInfo& own) {
    const auto group = connect(joined(own, port), {}, "run");
    const bool here = test::connection_to(port).get() >= 0;
    const bool beside = test::connection_to(port, "127.0.0.2").get() >= 0;
    group->shutdown();
    return here && !beside ? 0 : 1;
  });
  EXPECT_THAT(ends, ElementsAre(0, 0));
}

TEST(Connect, RefusesAnUnknownInterfaceAndHost) {
  CommConfig config;
  config.backend = BackendKind::gloo;
  config.interface = "nosuch0";
  const ErrorText error = test::error_text_of<CommError>([&] { connect({}, config, "run"); });
  EXPECT_THAT(error.where, HasSubstr("interface nosuch0"));
  RankInfo info;
  info.world_size = 2;
  info.master_addr = "no.such.host.invalid";
  info.master_port = 1;
  EXPECT_THROW(connect(info, {}, "run"), CommError);
}

TEST(Connect, InterfacesOfTheEnvironmentAreTakenWhereNoneIsAskedFor) {
  const auto connects = [](const char* of_environment, const std::string& asked_for) {
    return run_process_ranks(2, [&](const RankInfo& info) {
      ::setenv("GLOO_SOCKET_IFNAME", of_environment, 1);
      try {
        const auto group =
            connect(info, {.backend = BackendKind::gloo, .interface = asked_for}, "run");
        const bool right = sums_ranks(*group);
        group->shutdown();
        return right ? 0 : 1;
      } catch (const CommError& error) {
        return error.text().where.ends_with(", interface no_such_if") ? 2 : 3;
      }
    });
  };
  EXPECT_THAT(connects("no_such_if", ""), Contains(2));
  EXPECT_THAT(connects("no_such_if", "lo"), Each(0));
  EXPECT_THAT(connects("lo,lo", ""), Each(0));
}

TEST(Connect, WhatEveryRankRefusesNeedsNobodyElse) {
  RankInfo info;  // there is no rank 0
  info.rank = info.local_rank = 1;
  info.world_size = 3;
  info.local_size = 2;
  EXPECT_THROW(connect(info, {.backend = BackendKind::shm}, "run"), ConfigError);
  EXPECT_THROW(connect(info, {.backend = BackendKind::nccl}, "run"), ConfigError);
}

TEST(Connect, RefusesLoopbackBetweenHosts) {
  RankInfo info;
  info.rank = 1;
  info.world_size = 2;
  info.local_size = 1;
  info.master_port = 1;
  const ErrorText error = test::error_text_of<CommError>([&] { connect(info, {}, "run"); });
  EXPECT_THAT(error.hint, HasSubstr("interface"));
}

}  // namespace
}  // namespace ddprun

// Take the place of the C library's: a numeric address costs no look-up, anything else is counted.
extern "C" int getnameinfo(const sockaddr* address, socklen_t length, char* host, socklen_t hosts,
                           char* service, socklen_t services, int flags) {
  static const auto real =
      reinterpret_cast<decltype(&::getnameinfo)>(::dlsym(RTLD_NEXT, "getnameinfo"));
  if (host != nullptr && (flags & NI_NUMERICHOST) == 0) ++ddprun::name_look_ups;
  return real(address, length, host, hosts, service, services, flags);
}

extern "C" int getaddrinfo(const char* host, const char* service, const addrinfo* hints,
                           addrinfo** found) {
  static const auto real =
      reinterpret_cast<decltype(&::getaddrinfo)>(::dlsym(RTLD_NEXT, "getaddrinfo"));
  if (host != nullptr && std::string_view(host) != "127.0.0.1") ++ddprun::name_look_ups;
  return real(host, service, hints, found);
}
