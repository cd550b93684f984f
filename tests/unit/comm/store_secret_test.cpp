// Who may use the store of a launch that has a secret, and how much anybody may ask of it.
#include "ddprun/comm/store/store_secret.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>

#include <functional>
#include <thread>

#include "ddprun/base/text.h"
#include "ddprun/comm/store/store_client.h"
#include "ddprun/comm/store/store_protocol.h"
#include "support/free_port.h"
#include "support/matchers.h"
#include "support/served_store.h"

namespace ddprun {
namespace {

using std::chrono::milliseconds;
using store_protocol::Query;
using test::connection_to;
using test::listen_on_free_port;
using test::Served;

const std::string kSecret = "0123456789abcdef";

c10::intrusive_ptr<StoreClient> client_of(int port, const std::string& secret) {
  return c10::make_intrusive<StoreClient>(
      StorePlace{"127.0.0.1", port, "rank 1 of 2", "rank 0", secret}, milliseconds(20'000));
}

/// What a client with this secret is told.
ErrorText refusal(int port, const std::string& secret) {
  try {
    client_of(port, secret);
  } catch (const CommError& error) {
    EXPECT_EQ(std::string(error.what()).find(kSecret), std::string::npos) << "it shows the secret";
    return error.text();
  }
  ADD_FAILURE() << "served";
  return {};
}

template <typename... Parts>
std::string bytes_of(const Parts&... parts) {
  return (bytes_in_memory(parts) + ...);
}
std::string text_bytes(const std::string& text) { return bytes_of(text.size()) + text; }

/// As much as the other end lets in: it may close the connection before it has read all.
void send_all(const Descriptor& to, const std::string& bytes) {
  EXPECT_NE(::send(to.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL), 0);
}
/// All that comes until the other end closes the connection, or for two seconds.
std::string answer_of(const Descriptor& from) {
  std::string answer;
  char buffer[4096];
  for (pollfd watched{from.get(), POLLIN, 0}; ::poll(&watched, 1, 2000) > 0;) {
    const ssize_t n = ::recv(from.get(), buffer, sizeof buffer, 0);
    if (n <= 0) return answer;
    answer.append(buffer, n);
  }
  ADD_FAILURE() << "the connection stays open";
  return answer;
}

const std::string kGreeting = bytes_of(Query::validate, store_protocol::kMagic);
const std::string kWrites = bytes_of(Query::set) + text_bytes("/key") + text_bytes("a stranger's");

TEST(StoreSecret, TheProofIsTheHmacOfBothRandomNumbers) {
  Digest client, server;
  client.fill(1);
  server.fill(2);
  const Digest proof = proof_of(StoreEnd::client, kSecret, client, server);
  std::string hex;
  for (const std::uint8_t byte : proof) hex += fmt::format("{:02x}", byte);
  EXPECT_EQ(hex, "74f04eeb49bebc266ae517728b4b4b3dbb97de3efb2bfa9211f3420bce7219f8");
  EXPECT_FALSE(same_digest(proof, proof_of(StoreEnd::server, kSecret, client, server)));
  EXPECT_NE(random_digest(), random_digest());
}

TEST(StoreSecret, WhoKnowsItIsServed) {
  const Served served(kSecret);
  const auto store = client_of(served.port, kSecret);
  store->set("key", "value");
  EXPECT_EQ(store->clone()->get_to_str("key"), "value");
}

TEST(StoreSecret, WhoDoesNotKnowItIsToldSo) {
  const Served served(kSecret);
  EXPECT_EQ(refusal(served.port, "").what, "the store of this run asks for a secret");
  EXPECT_EQ(refusal(served.port, "another secret!!").what,
            "the store of this run refuses the secret of this rank");
  EXPECT_EQ(refusal(Served().port, kSecret).what, "the store of this run has no secret");
}

TEST(StoreSecret, NothingIsServedBeforeTheProof) {
  const Served served(kSecret);
  const auto store = client_of(served.port, kSecret);
  const std::string random = bytes_of(random_digest());
  for (const std::string& bytes :
       {kWrites, kGreeting + kWrites, bytes_of(Query::prove) + random + random + kWrites,
        bytes_of(Query::prove) + random + kWrites + kWrites, std::string(100'000, '\0')}) {
    const Descriptor stranger = connection_to(served.port);
    send_all(stranger, bytes);
    EXPECT_THAT(answer_of(stranger).size(), testing::Le(2 * sizeof(Digest)));
    EXPECT_FALSE(store->check({"key"}));
  }
}

TEST(StoreSecret, AProofThatWasOverheardIsWorthNothing) {
  const Served served(kSecret);
  Digest own;
  own.fill(7);
  std::string overheard;
  for (const bool again : {false, true}) {
    const Descriptor end = connection_to(served.port);
    send_all(end, bytes_of(Query::prove, own));
    Digest server, answer;
    ASSERT_EQ(::recv(end.get(), &server, sizeof server, MSG_WAITALL), ssize_t(sizeof server));
    if (!again) overheard = bytes_of(proof_of(StoreEnd::client, kSecret, own, server));
    send_all(end, overheard);
    ASSERT_EQ(::recv(end.get(), &answer, sizeof answer, MSG_WAITALL), ssize_t(sizeof answer));
    EXPECT_EQ(answer == kRefused, again);
  }
}

TEST(StoreSecret, AStrangerThatListensFirstIsFoundOut) {
  const auto [socket, port] = listen_on_free_port();
  const Descriptor& listener = socket;
  std::thread stranger([&listener] {
    const Descriptor accepted(::accept(listener.get(), nullptr, nullptr));
    std::array<char, 1 + sizeof(Digest)> hello;
    EXPECT_EQ(::recv(accepted.get(), hello.data(), hello.size(), MSG_WAITALL),
              ssize_t(hello.size()));
    send_all(accepted, bytes_of(random_digest()) + bytes_of(random_digest()));
    EXPECT_EQ(::recv(accepted.get(), hello.data(), sizeof(Digest), MSG_WAITALL),
              ssize_t(sizeof(Digest)));
  });
  EXPECT_EQ(refusal(port, kSecret).what,
            "what answers at the store's port does not know the secret");
  stranger.join();
}

TEST(StoreLimits, SilentConnectionsMakeRoomForOthers) {
  for (const std::string& secret : {std::string(), kSecret}) {
    const Served served(secret);
    std::vector<Descriptor> silent;
    for (int i = 0; i < 200; ++i) silent.push_back(connection_to(served.port));
    client_of(served.port, secret)->set("key", "value");
    EXPECT_EQ(answer_of(silent.front()), "");  // it was closed
    EXPECT_EQ(answer_of(silent[100]), "");
  }
}

TEST(StoreLimits, ManyRanksThatComeAtOnceAreAllServed) {
  const Served served(kSecret);
  std::vector<std::thread> ranks;
  for (int rank = 0; rank < 200; ++rank) {
    ranks.emplace_back([&served] { client_of(served.port, kSecret)->add("came", 1); });
  }
  for (std::thread& rank : ranks) rank.join();
  EXPECT_EQ(client_of(served.port, kSecret)->add("came", 0), 200);
}

TEST(StoreLimits, WhatAsksForTooMuchOrIsNoRequestIsClosed) {
  const Served served;
  const auto count = std::uint64_t{1} << 60;
  for (const std::string& request :
       {kGreeting + bytes_of(Query::wait, count), kGreeting + bytes_of(Query::check, count),
        kGreeting + bytes_of(Query::set) + text_bytes("/key") + bytes_of(count),
        kGreeting + bytes_of(Query::set) + bytes_of(std::uint64_t{70'000}) + "/key",
        std::string("GET / HTTP/1.1\r\n\r\n")}) {
    const Descriptor end = connection_to(served.port);
    send_all(end, request);
    EXPECT_EQ(answer_of(end), "");
  }
  EXPECT_FALSE(client_of(served.port, "")->check({"key"}));
}

TEST(StoreLimits, AClientSaysWhatIsTooMuch) {
  const Served served;
  const auto store = client_of(served.port, "");
  const auto where_of = [](const std::function<void()>& call) {
    try {
      call();
    } catch (const CommError& error) {
      EXPECT_EQ(error.text().what, "more than the store of a run takes at once");
      return error.text().where;
    }
    return std::string("nothing thrown");
  };
  EXPECT_THAT(where_of([&] { store->set("key", std::string(9 << 20, 'v')); }), HasSubstr("value"));
  EXPECT_THAT(where_of([&] { store->add(std::string(70'000, 'k'), 1); }), HasSubstr("key"));
  EXPECT_THAT(where_of([&] { store->check(std::vector<std::string>(70'000, "key")); }),
              HasSubstr("keys"));
  store->set("key", "value");  // the connection is as it was
  EXPECT_EQ(store->get_to_str("key"), "value");
}

}  // namespace
}  // namespace ddprun
