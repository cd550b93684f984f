// The store that ranks meet in: its client and its server, each alone and with c10d's, and what
// else may listen at its port.
#include "ddprun/comm/store/store_client.h"

#include <sys/socket.h>
#include <unistd.h>

#include <torch/headeronly/version.h>
#include <functional>
#include <thread>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include "ddprun/base/clock.h"
#include "ddprun/comm/store/store_server.h"
#include "support/free_port.h"
#include "support/matchers.h"
#include "support/served_store.h"

namespace ddprun {
namespace {

using std::chrono::milliseconds;
using test::free_port;
using test::listen_on_free_port;
using test::Served;
using StorePtr = c10::intrusive_ptr<c10d::Store>;

StorePlace place_of(int port) {
  return {"127.0.0.1", port, "rank 1 of 2, store at 127.0.0.1:1", "rank 0"};
}

/// For what comes at once, however busy the machine is.
constexpr milliseconds kInTime(20'000);

StorePtr client_of(int port, milliseconds timeout = kInTime) {
  return c10::make_intrusive<StoreClient>(place_of(port), timeout);
}

/// What `call` throws, and that it did so within ten seconds.
ErrorText comm_error_of(const std::function<void()>& call) {
  const std::int64_t begin = now_ns();
  const ErrorText error = test::error_text_of<CommError>(call);
  EXPECT_LT(to_ms(now_ns() - begin), 10'000);
  return error;
}

/// `other`: another client of the same store.
void expect_a_store(const StorePtr& store, const StorePtr& other) {
  store->set("text", std::string(4'000'000, 'x'));  // many times the sockets' buffers
  EXPECT_EQ(store->get_to_str("text"), std::string(4'000'000, 'x'));
  store->deleteKey("sum");
  EXPECT_EQ(store->add("sum", 5), 5);
  EXPECT_EQ(store->add("sum", -7), -2);
  EXPECT_EQ(store->get_to_str("sum"), "-2");
  store->deleteKey("list");
  store->append("list", {'a', ','});
  other->append("list", {'b'});
  EXPECT_THAT(other->get_to_str("list"), AnyOf("a,b", "ba,"));
  EXPECT_TRUE(store->check({"text", "sum"}));
  EXPECT_FALSE(store->check({"text", "nothing"}));
  EXPECT_EQ(store->compareSet("first", "", "a"), "a");
  EXPECT_EQ(store->compareSet("first", "", "b"), "a");
  EXPECT_EQ(store->compareSet("first", "a", "c"), "c");
  EXPECT_TRUE(store->deleteKey("first"));
  EXPECT_FALSE(store->deleteKey("first"));
  EXPECT_THROW(store->wait({"sum", "nothing"}, milliseconds(50)), c10::Error);
  store->wait({"sum", "text"}, kInTime);  // a wait that was given up leaves nothing behind
  for (const auto& setter : {other, store}) {
    store->deleteKey("late");
    std::thread later([&setter] {
      std::this_thread::sleep_for(milliseconds(100));
      setter->set("late", std::string("came"));
    });
    EXPECT_EQ(store->get_to_str("late"), "came");
    later.join();
  }
}

TEST(Store, ClientAndServerAreAStore) {
  const Served served;
  const StorePtr store = client_of(served.port);
  expect_a_store(store, store->clone());
}

TEST(Store, ConnectionsThatAreHandedDownAreAStore) {
  std::vector<StoreSockets> sockets = make_store_sockets(2);
  const auto client = [&](int rank, std::unique_ptr<StoreServer> server) -> StorePtr {
    return c10::make_intrusive<StoreClient>(StorePlace{.where = "rank", .server = "rank 0"},
                                            kInTime, std::move(sockets[rank].client),
                                            std::move(server));
  };
  StorePtr first = client(0, std::make_unique<StoreServer>(std::move(sockets[0].served)));
  const StorePtr second = client(1, nullptr);
  expect_a_store(first, second);
  expect_a_store(second->clone(), first);
  std::thread ends([&first] {
    std::this_thread::sleep_for(milliseconds(100));
    first.reset();
  });
  const ErrorText text = comm_error_of([&] { second->wait({"key"}, kInTime); });
  ends.join();
  EXPECT_EQ(text.what, "the store of this run was lost");
}

TEST(Store, TheClientReachesTheStoreOfTorchrunsAgent) {
  c10d::TCPStoreOptions options;
  options.port = 0;
  options.isServer = true;
  options.waitWorkers = false;
  for (const bool libuv : {true, false}) {
    options.useLibUV = libuv;
    const auto agent = c10::make_intrusive<c10d::TCPStore>("127.0.0.1", options);
    const StorePtr store = client_of(agent->getPort());
    expect_a_store(store, store->clone());
    check_agent_store(place_of(agent->getPort()), kInTime, 0, ::getpid());
  }
}

// What the store of another protocol might do, after it has greeted as TCPStore does.
TEST(Store, AnAgentOfAnotherProtocolIsRefusedByBothVersions) {
  std::string another_value(18,
                            '\0');  // to DELETE_KEY (8 bytes), to WAIT (1), to GET: length, value
  another_value[9] = 1;
  another_value[17] = '6';
  for (const auto& [answers, got] : std::vector<std::pair<std::string, std::string>>{
           {"", "onnection"}, {another_value, "SET 5, then GET: 6"}}) {
    const auto [socket, port] = listen_on_free_port();
    const Descriptor& listener = socket;
    std::thread agent([&listener, &answers = answers] {
      const Descriptor accepted(::accept(listener.get(), nullptr, nullptr));
      char greeting[10];  // VALIDATE with its number, PING with its nonce
      ASSERT_EQ(::recv(accepted.get(), greeting, sizeof greeting, MSG_WAITALL), 10);
      ASSERT_EQ(::send(accepted.get(), greeting + 6, 4, 0), 4);
      ASSERT_EQ(::send(accepted.get(), answers.data(), answers.size(), 0), ssize_t(answers.size()));
      ::shutdown(accepted.get(), SHUT_WR);
      while (::recv(accepted.get(), greeting, sizeof greeting, 0) > 0) {  // until the client leaves
      }
    });
    const ErrorText text =
        comm_error_of([port = port] { check_agent_store(place_of(port), kInTime, 0, ::getpid()); });
    agent.join();
    EXPECT_EQ(text.what, "the launcher's store does not speak the protocol that ddprun speaks");
    EXPECT_THAT(text.got, HasSubstr("the agent's PyTorch " TORCH_VERSION));  // and "+cu132"
    EXPECT_THAT(text.got, HasSubstr(got));
    EXPECT_THAT(text.expected, HasSubstr("PyTorch " TORCH_VERSION));
  }
}

TEST(Store, ASilentListenerIsGivenUpInTime) {
  const auto [listener, port] = listen_on_free_port();  // the kernel accepts, and nobody answers
  const ErrorText text = comm_error_of([port = port] { client_of(port, milliseconds(300)); });
  EXPECT_EQ(text.what, "the store of this run does not answer");
  EXPECT_EQ(text.got, "no word of rank 0 within 0.3 s");
}

TEST(Store, AnotherProgramAtThePortIsNamedAtOnce) {
  const auto [socket, port] = listen_on_free_port();
  const Descriptor& listener = socket;  // a lambda captures no binding
  std::thread http([&listener] {
    const Descriptor accepted(::accept(listener.get(), nullptr, nullptr));
    const std::string answer = "HTTP/1.0 400 Bad Request\r\n\r\n";
    EXPECT_GT(::send(accepted.get(), answer.data(), answer.size(), 0), 0);
  });
  const ErrorText text = comm_error_of([port = port] { client_of(port); });
  http.join();
  EXPECT_EQ(text.what, "what answers at the store's port is no store");
}

TEST(Store, NobodyAtThePortIsGivenUpInTime) {
  const int port = free_port();
  const ErrorText text = comm_error_of([&] { client_of(port, milliseconds(300)); });
  EXPECT_EQ(text.what, "the store of this run cannot be reached");
  EXPECT_EQ(text.got, "Connection refused, for 0.3 s");
}

TEST(Store, AServerThatFallsSilentIsGivenUpInTime) {
  const auto [socket, port] = listen_on_free_port();
  const Descriptor& listener = socket;  // a lambda captures no binding
  Descriptor accepted;
  std::thread greets([&] {
    accepted = Descriptor(::accept(listener.get(), nullptr, nullptr));
    char greeting[10];  // VALIDATE with its number, PING with its nonce
    ASSERT_EQ(::recv(accepted.get(), greeting, sizeof greeting, MSG_WAITALL), 10);
    ASSERT_EQ(::send(accepted.get(), greeting + 6, 4, 0), 4);
  });
  const StorePtr store = client_of(port);
  greets.join();
  store->setTimeout(milliseconds(300));
  for (const auto& call : std::vector<std::function<void()>>{
           [&] { store->wait({"key"}, milliseconds(300)); }, [&] { store->add("key", 1); }}) {
    EXPECT_EQ(comm_error_of(call).what, "the store of this run does not answer");
  }
}

TEST(Store, AServerThatEndsIsNoticedAtOnce) {
  Served served;
  const StorePtr store = client_of(served.port);
  std::thread ends([&served] {
    std::this_thread::sleep_for(milliseconds(100));
    served.server.reset();
  });
  const ErrorText text = comm_error_of([&] { store->wait({"key"}, kInTime); });
  ends.join();
  EXPECT_EQ(text.what, "the store of this run was lost");
  EXPECT_THAT(text.hint, HasSubstr("rank 0 ended"));
}

}  // namespace
}  // namespace ddprun
