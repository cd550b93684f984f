// Requests of a store over a socket that never blocks without a limit.
#include "ddprun/comm/store/store_client.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <thread>
#include <type_traits>

#include "ddprun/base/clock.h"
#include "ddprun/base/text.h"
#include "ddprun/comm/store/addresses.h"
#include "ddprun/comm/store/comm_failure.h"
#include "ddprun/comm/store/launch_board.h"
#include "ddprun/comm/store/store_protocol.h"
#include "ddprun/comm/store/store_secret.h"

namespace ddprun {

namespace {

using std::chrono::milliseconds;
using store_protocol::Check;
using store_protocol::Query;
using store_protocol::Wait;
using Bytes = std::vector<std::uint8_t>;

/// Between attempts to connect, while nobody listens yet.
constexpr milliseconds kRetry{50};
/// For one attempt to connect to one address of the host.
constexpr std::int64_t kAttemptNs = 2'000'000'000;
/// poll() counts in milliseconds that fit an int.
constexpr std::int64_t kLongestPollNs = 1'000'000'000;
/// For the answer to a wait that is given up, at least.
constexpr milliseconds kCancel{1000};
/// A wait looks so often whether another thread has something to ask.
constexpr std::int64_t kTurnNs = 10'000'000;
constexpr const char* kSecretHint =
    "DDPRUN_SECRET, or the file that DDPRUN_SECRET_FILE names, must be the same for every rank";
/// c10d's TCPStore puts this before every key.
constexpr const char* kKeyPrefix = "/";

/// A server of ours closes the connection on what is longer, without a word.
void check_size(const char* of, std::size_t size, std::size_t longest) {
  if (size <= longest) return;
  throw CommError({.what = "more than the store of a run takes at once",
                   .where = std::string("a request's ") + of,
                   .got = std::to_string(size),
                   .expected = "at most " + std::to_string(longest),
                   .hint = "texts of any length go through all_gather_object()"});
}

/// A request: its kind, then its fields.
class Request {
 public:
  explicit Request(Query query) { value(query); }
  template <typename T>
  Request& value(T value) {
    bytes_ += bytes_in_memory(value);
    return *this;
  }
  template <typename Text>
  Request& text(const Text& text) {
    check_size("value, in bytes", text.size(), store_protocol::kLongestValue);
    value(static_cast<std::uint64_t>(text.size()));
    bytes_.append(text.begin(), text.end());
    return *this;
  }
  Request& key(const std::string& key) {
    check_size("key, in bytes", key.size() + 1, store_protocol::kLongestKey);
    return text(kKeyPrefix + key);
  }
  Request& keys(const std::vector<std::string>& keys) {
    check_size("keys", keys.size(), store_protocol::kMostKeys);
    value(static_cast<std::uint64_t>(keys.size()));
    for (const std::string& each : keys) key(each);
    return *this;
  }
  const std::string& bytes() const { return bytes_; }

 private:
  std::string bytes_;
};

/// Returns whether `fd` has one of `events` before the deadline.
bool ready_before(int fd, short events, std::int64_t deadline_ns) {
  while (true) {
    const std::int64_t left_ns = std::max<std::int64_t>(0, deadline_ns - now_ns());
    const std::int64_t left_ms = (std::min(left_ns, kLongestPollNs) + 999'999) / 1'000'000;
    pollfd watched{fd, events, 0};
    if (::poll(&watched, 1, static_cast<int>(left_ms)) > 0) return true;
    if (left_ns == 0) return false;
  }
}

/// A socket that is connected to this address, or none; then errno says why.
Descriptor connect_to(const addrinfo& address, std::int64_t deadline_ns) {
  Descriptor fd(::socket(address.ai_family, address.ai_socktype | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (fd.get() < 0) return fd;
  // Some requests have no answer. The next one would wait until the peer's kernel acknowledges
  // them, which takes it 40 ms.
  const int yes = 1;
  ::setsockopt(fd.get(), IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
  if (::connect(fd.get(), address.ai_addr, address.ai_addrlen) == 0) return fd;
  if (errno != EINPROGRESS) return Descriptor();
  if (!ready_before(fd.get(), POLLOUT, std::min(deadline_ns, now_ns() + kAttemptNs))) {
    errno = ETIMEDOUT;
    return Descriptor();
  }
  int error = 0;
  socklen_t length = sizeof error;
  ::getsockopt(fd.get(), SOL_SOCKET, SO_ERROR, &error, &length);
  errno = error;
  return error == 0 ? std::move(fd) : Descriptor();
}

std::int64_t nanoseconds(milliseconds time) { return std::chrono::nanoseconds(time).count(); }

}  // namespace

StoreClient::StoreClient(StorePlace place, milliseconds timeout)
    : Store(timeout), place_(std::move(place)) {
  const LaunchBoard::Wait waiting;
  connect(now_ns() + nanoseconds(timeout));
}

StoreClient::StoreClient(StorePlace place, milliseconds timeout, Descriptor connected,
                         std::unique_ptr<StoreServer> server)
    : Store(timeout),
      server_(std::move(server)),
      place_(std::move(place)),
      socket_(std::move(connected)) {}

void StoreClient::connect(std::int64_t deadline_ns) {
  std::string cause;
  while (true) {
    int failed = 0;  // the name of a host that starts may not be known yet
    const Addresses found = find_addresses(place_.host, place_.port, SOCK_STREAM, failed);
    if (failed != 0) cause = ::gai_strerror(failed);
    for (const addrinfo* each = found.get(); each != nullptr; each = each->ai_next) {
      socket_ = connect_to(*each, deadline_ns);
      if (socket_.get() < 0) {
        cause = std::strerror(errno);
      } else if (greet(deadline_ns)) {
        return;
      } else {
        cause = "what listens there closes the connection";
      }
    }
    if (now_ns() >= deadline_ns) break;
    std::this_thread::sleep_for(kRetry);
  }
  throw CommError({.what = "the store of this run cannot be reached",
                   .where = place_.where,
                   .got = fmt::format("{}, for {:g} s", cause, timeout_.count() * 1e-3),
                   .expected = fmt::format("a store at {}, port {}", place_.host, place_.port),
                   .hint = place_.server + " serves it: is it running, and are MASTER_ADDR and "
                                           "MASTER_PORT its own?"});
}

bool StoreClient::greet(std::int64_t deadline_ns) {
  const auto nonce = static_cast<std::uint32_t>(::getpid());
  std::uint32_t echo = 0;
  try {
    if (!place_.secret.empty()) exchange_proofs(deadline_ns);
    send(Request(Query::validate).value(store_protocol::kMagic).bytes() +
         Request(Query::ping).value(nonce).bytes());
    receive_all(&echo, sizeof echo, deadline_ns);
  } catch (const PeerGoneError&) {
    if (now_ns() >= deadline_ns) throw;
    failure_ = nullptr;  // a server that ends, of an earlier run: the next one may come
    return false;
  }
  if (echo == nonce) return true;
  if (echo == store_protocol::kSecretWanted) {
    throw CommError({.what = "the store of this run asks for a secret",
                     .where = place_.where,
                     .got = "no secret on this rank",
                     .expected = "the secret that rank 0 has",
                     .hint = kSecretHint});
  }
  throw CommError({.what = "what answers at the store's port is no store",
                   .where = place_.where,
                   .got = fmt::format("the bytes {:#010x}", echo),
                   .expected = "the store that " + place_.server + " serves",
                   .hint = "another program has the port: choose another MASTER_PORT"});
}

void StoreClient::exchange_proofs(std::int64_t deadline_ns) {
  const auto refuse = [this](const char* what, const char* got) {
    throw CommError(
        {.what = what,
         .where = place_.where,
         .got = got,
         .expected = "one secret on all ranks of the launch, and nobody else at its port",
         .hint = kSecretHint});
  };
  const Digest own = random_digest();
  Digest server{};
  send(Request(Query::prove).value(own).bytes());
  receive_all(&server, sizeof server, deadline_ns);
  if (server == kRefused) refuse("the store of this run has no secret", "one on this rank alone");
  const Digest proof = proof_of(StoreEnd::client, place_.secret, own, server);
  send(std::string(proof.begin(), proof.end()));
  Digest answer{};
  receive_all(&answer, sizeof answer, deadline_ns);
  if (answer == kRefused) {
    refuse("the store of this run refuses the secret of this rank", "another secret than rank 0's");
  }
  if (!same_digest(answer, proof_of(StoreEnd::server, place_.secret, own, server))) {
    refuse("what answers at the store's port does not know the secret", "a wrong proof");
  }
}

void StoreClient::fail_silent(std::int64_t limit_ms) {
  failure_ = std::make_exception_ptr(TimeoutError(
      {.what = "the store of this run does not answer",
       .where = place_.where,
       .got = fmt::format("no word of {} within {:g} s", place_.server,
                          static_cast<double>(limit_ms) * 1e-3),
       .expected = "an answer to every request",
       .hint = place_.server + " serves it: it is stopped or hangs, the network to it is cut, or "
                               "another program has its port"}));
  std::rethrow_exception(failure_);
}

void StoreClient::fail_lost(const std::string& cause) {
  failure_ = std::make_exception_ptr(
      PeerGoneError({.what = "the store of this run was lost",
                     .where = place_.where,
                     .got = cause,
                     .expected = "the store of " + place_.server + ", until all ranks are done",
                     .hint = place_.server + " ended; its own message says why"}));
  std::rethrow_exception(failure_);
}

void StoreClient::send(const std::string& request) {
  if (failure_) std::rethrow_exception(failure_);
  const std::int64_t deadline_ns = now_ns() + nanoseconds(timeout_);
  for (std::size_t sent = 0; sent < request.size();) {
    const ssize_t n =
        ::send(socket_.get(), request.data() + sent, request.size() - sent, MSG_NOSIGNAL);
    if (n >= 0) {
      sent += static_cast<std::size_t>(n);
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
      if (!ready_before(socket_.get(), POLLOUT, deadline_ns)) fail_silent(timeout_.count());
    } else if (errno != EINTR) {
      fail_lost(std::strerror(errno));
    }
  }
}

bool StoreClient::receive(void* data, std::size_t size, std::int64_t deadline_ns) {
  for (std::size_t received = 0; received < size;) {
    const ssize_t n =
        ::recv(socket_.get(), static_cast<char*>(data) + received, size - received, 0);
    if (n > 0) {
      received += static_cast<std::size_t>(n);
    } else if (n == 0) {
      fail_lost("the connection was closed");
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
      if (!ready_before(socket_.get(), POLLIN, deadline_ns)) return false;
    } else if (errno != EINTR) {
      fail_lost(std::strerror(errno));
    }
  }
  return true;
}

void StoreClient::receive_all(void* data, std::size_t size, std::int64_t deadline_ns) {
  if (!receive(data, size, deadline_ns)) fail_silent(timeout_.count());
}

void StoreClient::fill(void* data, std::size_t size) {
  receive_all(data, size, now_ns() + nanoseconds(timeout_));
}

template <typename T>
T StoreClient::ask(const std::string& request) {
  const auto held = turn();
  const LaunchBoard::Wait waiting;
  send(request);
  T value{};
  if constexpr (std::is_arithmetic_v<T> || std::is_enum_v<T>) {
    fill(&value, sizeof value);
  } else {
    std::uint64_t size = 0;
    fill(&size, sizeof size);
    check_size("answer, in bytes", size, store_protocol::kLongestValue);
    value.resize(size);
    fill(value.data(), size);
  }
  return value;
}

c10::intrusive_ptr<c10d::Store> StoreClient::clone() {
  if (place_.port == 0) return c10::intrusive_ptr<Store>::reclaim_copy(this);
  return c10::make_intrusive<StoreClient>(place_, timeout_);
}

void StoreClient::set(const std::string& key, const Bytes& value) {
  const auto held = turn();
  send(Request(Query::set).key(key).text(value).bytes());
}

Bytes StoreClient::compareSet(const std::string& key, const Bytes& current, const Bytes& desired) {
  return ask<Bytes>(Request(Query::compare_set).key(key).text(current).text(desired).bytes());
}

Bytes StoreClient::get(const std::string& key) {
  wait({key}, timeout_);
  return ask<Bytes>(Request(Query::get).key(key).bytes());
}

std::int64_t StoreClient::add(const std::string& key, std::int64_t value) {
  return ask<std::int64_t>(Request(Query::add).key(key).value(value).bytes());
}

void StoreClient::append(const std::string& key, const Bytes& value) {
  const auto held = turn();
  send(Request(Query::append).key(key).text(value).bytes());
}

bool StoreClient::deleteKey(const std::string& key) {
  return ask<std::int64_t>(Request(Query::delete_key).key(key).bytes()) == 1;
}

bool StoreClient::check(const std::vector<std::string>& keys) {
  return ask<Check>(Request(Query::check).keys(keys).bytes()) == Check::ready;
}

std::int64_t StoreClient::getNumKeys() {
  C10_THROW_ERROR(NotImplementedError, "this store does not count its keys");
}

std::unique_lock<std::mutex> StoreClient::turn() {
  ++queued_;
  std::unique_lock held(mutex_);
  --queued_;
  return held;
}

/// Asks once; false: the time is over, or another thread has something to ask.
bool StoreClient::came(const std::vector<std::string>& keys, std::int64_t deadline_ns) {
  const auto held = turn();
  const LaunchBoard::Wait waiting;
  send(Request(Query::wait).keys(keys).bytes());
  Wait ended{};
  do {
    if (receive(&ended, sizeof ended, std::min(deadline_ns, now_ns() + kTurnNs))) return true;
  } while (queued_ == 0 && now_ns() < deadline_ns);
  send(Request(Query::cancel_wait).bytes());
  const milliseconds limit = std::max(kCancel, timeout_);
  const std::int64_t cancel_ns = now_ns() + nanoseconds(limit);
  do {  // the keys may have come before the server read that
    if (!receive(&ended, sizeof ended, cancel_ns)) fail_silent(limit.count());
  } while (ended != Wait::canceled);
  return false;
}

void StoreClient::wait(const std::vector<std::string>& keys, const milliseconds& timeout) {
  const std::int64_t deadline_ns = now_ns() + nanoseconds(timeout);
  while (!came(keys, deadline_ns)) {
    if (now_ns() >= deadline_ns) {
      C10_THROW_ERROR(DistStoreError, fmt::format("timed out after {} ms waiting for {}",
                                                  timeout.count(), fmt::join(keys, ", ")));
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(1));  // the mutex is for who waits for it
  }
}

}  // namespace ddprun
