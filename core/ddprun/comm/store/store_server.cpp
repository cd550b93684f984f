// One poll loop over all connections: requests in, answers out, waits that a new key ends.
#include "ddprun/comm/store/store_server.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <spdlog/spdlog.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <list>
#include <memory>
#include <system_error>
#include <unordered_map>

#include "ddprun/base/error.h"
#include "ddprun/base/text.h"
#include "ddprun/comm/store/store_connection.h"
#include "ddprun/comm/store/store_protocol.h"
#include "ddprun/comm/store/store_secret.h"
#include "ddprun/measure/kernel_clock.h"

namespace ddprun {

namespace {

using store_protocol::Check;
using store_protocol::Query;
using store_protocol::Wait;

/// Above what a client of ours sends in one request, or has to read at a time; and before it is
/// known.
constexpr std::size_t kMostWaiting = 3 * store_protocol::kLongestValue;
constexpr std::size_t kMostOfAStranger = 128;
/// Of what the store holds: more than the samples of a long run of many ranks.
constexpr std::size_t kMostKept = std::size_t{2} << 30;
/// Connections that have not said yet that they are of this launch. What comes then takes the place
/// of the oldest, so that strangers leave descriptors to others.
constexpr int kMostStrangers = 64;
/// What a connection sends is read in pieces, of which it may bring this many before others' turn.
constexpr int kPiecesATurn = 16;
/// How long new connections wait while the process has no descriptor left.
constexpr int kNoDescriptorPauseMs = 100;

class Loop {
 public:
  Loop(std::vector<Descriptor> connected, Descriptor listener, std::string secret, int stop)
      : listener_(std::move(listener)), secret_(std::move(secret)), stop_(stop) {
    ::fcntl(listener_.get(), F_SETFL, O_NONBLOCK);  // a client may be gone before accept()
    for (Descriptor& each : connected) connections_.emplace_back(std::move(each), Stage::known);
  }

  void run() {
    note_own_thread();  // it answers whoever asks
    while (wait_for_events()) {
      connections_.remove_if([](const Connection& each) { return each.closed; });
    }
  }

 private:
  /// Handles what happens next. Returns false when the server is to end.
  bool wait_for_events() {
    std::vector<pollfd> fds = {{stop_, POLLIN, 0},
                               {descriptors_left_ ? listener_.get() : -1, POLLIN, 0}};
    for (const Connection& each : connections_) {
      const bool sends = !each.out.empty();
      fds.push_back({each.socket.get(), static_cast<short>(sends ? POLLIN | POLLOUT : POLLIN), 0});
    }
    ::poll(fds.data(), fds.size(), descriptors_left_ ? -1 : kNoDescriptorPauseMs);
    if (fds[0].revents != 0) return false;
    std::size_t index = 2;
    for (Connection& each : connections_) {
      if (fds[index++].revents != 0) receive(each);
    }
    descriptors_left_ = true;
    if (fds[1].revents != 0) accept_all();
    for (Connection& each : connections_) send(each);
    return true;
  }

  void accept_all() {
    for (int i = 0; i < kMostStrangers; ++i) {
      Descriptor accepted(
          ::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
      if (accepted.get() < 0) {
        descriptors_left_ = errno != EMFILE && errno != ENFILE;
        break;
      }
      const int yes = 1;  // as the client's
      ::setsockopt(accepted.get(), IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
      connections_.emplace_back(std::move(accepted), Stage::stranger);
    }
    auto strangers = std::ranges::count_if(connections_, is_stranger);
    for (Connection& each : connections_) {
      if (strangers <= kMostStrangers) break;
      if (!is_stranger(each)) continue;
      each.closed = true;
      --strangers;
    }
  }

  static bool is_stranger(const Connection& connection) {
    return connection.stage != Stage::known && !connection.closed;
  }

  void receive(Connection& from) {
    char buffer[65536];
    for (int piece = 0; piece < kPiecesATurn; ++piece) {
      const ssize_t n = ::recv(from.socket.get(), buffer, sizeof buffer, 0);
      if (n < 0 && errno == EINTR) continue;
      if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) break;
      if (n <= 0) {
        from.closed = true;
        return;
      }
      from.in.append(buffer, static_cast<std::size_t>(n));
    }
    std::size_t done = 0;
    while (!from.closed && !from.last && done < from.in.size()) {
      ReceivedRequest request(std::string_view(from.in).substr(done));
      from.stage == Stage::known ? serve(from, request) : meet(from, request);
      from.closed = from.closed || request.malformed() || from.out.size() > kMostWaiting;
      if (!request.whole()) break;
      done += request.size();
    }
    from.in.erase(0, done);
    const bool known = from.stage == Stage::known;
    from.closed = from.closed || from.in.size() > (known ? kMostWaiting : kMostOfAStranger);
  }

  void send(Connection& to) {
    while (!to.closed && !to.out.empty()) {
      const ssize_t n = ::send(to.socket.get(), to.out.data(), to.out.size(), MSG_NOSIGNAL);
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) {
        to.closed = errno != EAGAIN && errno != EWOULDBLOCK;
        return;
      }
      to.out.erase(0, static_cast<std::size_t>(n));
    }
    to.closed = to.closed || (to.last && to.out.empty());
  }

  /// What comes before requests. A client says that it is one (VALIDATE), or proves it where the
  /// launch has a secret.
  void meet(Connection& client, ReceivedRequest& request) {
    if (client.stage == Stage::challenged) return check_proof(client, request);
    switch (request.value<Query>()) {
      case Query::validate:
        if (request.value<std::uint32_t>() != store_protocol::kMagic && request.whole()) {
          client.closed = true;
        } else if (secret_.empty() && request.whole()) {
          client.stage = Stage::known;
        }
        return;
      case Query::ping:  // in the same breath
        request.value<std::uint32_t>();
        if (!request.whole()) return;
        client.last = true;
        return client.answer(store_protocol::kSecretWanted);
      case Query::prove:
        client.nonces[0] = request.value<Digest>();
        if (!request.whole()) return;
        client.last = secret_.empty();
        client.nonces[1] = client.last ? kRefused : random_digest();
        client.stage = Stage::challenged;
        return client.answer(client.nonces[1]);
      default:
        client.closed = request.whole();
    }
  }

  void check_proof(Connection& client, ReceivedRequest& request) {
    const auto proof = request.value<Digest>();
    if (!request.whole()) return;
    const auto own = [&](StoreEnd end) {
      return proof_of(end, secret_, client.nonces[0], client.nonces[1]);
    };
    if (same_digest(proof, own(StoreEnd::client))) {
      client.stage = Stage::known;
      return client.answer(own(StoreEnd::server));
    }
    client.answer(kRefused);
    client.last = true;
  }

  /// Does nothing unless the request is whole.
  void serve(Connection& client, ReceivedRequest& request) {
    const auto query = request.value<Query>();
    switch (query) {
      case Query::validate:
        client.closed = request.value<std::uint32_t>() != store_protocol::kMagic && request.whole();
        return;
      case Query::ping:
        if (const auto nonce = request.value<std::uint32_t>(); request.whole()) {
          client.answer(nonce);
        }
        return;
      case Query::cancel_wait:
        client.awaited.clear();
        return client.answer(Wait::canceled);
      case Query::wait:
        if (auto keys = request.keys(); request.whole()) {
          client.awaited = std::move(keys);
          end_waits();
        }
        return;
      case Query::check:
        if (const auto keys = request.keys(); request.whole()) {
          client.answer(all_there(keys) ? Check::ready : Check::not_ready);
        }
        return;
      case Query::set:
      case Query::get:
      case Query::add:
      case Query::compare_set:
      case Query::delete_key:
      case Query::append:
        return serve_key(query, client, request);
      default:  // what StoreClient never asks
        client.closed = true;
    }
  }

  /// The requests that are about one key.
  void serve_key(Query query, Connection& client, ReceivedRequest& request) {
    const std::string key = request.key();
    const bool compares = query == Query::compare_set;
    const std::string expected = compares ? request.text() : "";
    const bool brings = compares || query == Query::set || query == Query::append;
    const std::string value = brings ? request.text() : "";
    const auto delta = query == Query::add ? request.value<std::int64_t>() : 0;
    if (!request.whole()) return;
    if (query == Query::delete_key) return client.answer(erase(key));
    if (query == Query::append) {
      extend(client, key, value);
      return end_waits();
    }
    const auto found = values_.find(key);
    const std::string old = found == values_.end() ? "" : found->second;
    if (query == Query::get) return client.answer_text(old);
    if (query == Query::set) keep(client, key, value);
    if (query == Query::add) {
      const std::int64_t sum = delta + std::strtoll(old.c_str(), nullptr, 10);
      keep(client, key, std::to_string(sum));
      client.answer(sum);
    }
    if (compares) {
      const bool same = old == expected;
      if (same) keep(client, key, value);
      client.answer_text(same ? value : found == values_.end() ? expected : old);
    }
    end_waits();
  }

  void keep(Connection& client, const std::string& key, const std::string& value) {
    erase(key);
    extend(client, key, value);
  }

  /// Closes the connection if the store is full.
  void extend(Connection& client, const std::string& key, const std::string& value) {
    const auto [entry, added] = values_.try_emplace(key);
    entry->second += value;
    kept_bytes_ += added ? size_of(key, value) : value.size();
    if (kept_bytes_ <= kMostKept) return;
    spdlog::error("the store of this run is full: {} keys, {} bytes", values_.size(), kept_bytes_);
    erase(key);
    client.closed = true;
  }

  static std::size_t size_of(const std::string& key, const std::string& value) {
    constexpr std::size_t kOfAnEntry = 128;
    return kOfAnEntry + key.size() + value.size();
  }

  std::int64_t erase(const std::string& key) {
    const auto found = values_.find(key);
    if (found == values_.end()) return 0;
    kept_bytes_ -= size_of(key, found->second);
    values_.erase(found);
    return 1;
  }

  bool all_there(const std::vector<std::string>& keys) const {
    return std::ranges::all_of(keys,
                               [this](const std::string& key) { return values_.contains(key); });
  }

  void end_waits() {
    for (Connection& each : connections_) {
      if (each.awaited.empty()) continue;
      while (!each.awaited.empty() && values_.contains(each.awaited.back()))
        each.awaited.pop_back();
      if (each.awaited.empty()) each.answer(Wait::ended);
    }
  }

  Descriptor listener_;
  const std::string secret_;
  int stop_;
  bool descriptors_left_ = true;
  std::list<Connection> connections_;
  std::unordered_map<std::string, std::string> values_;
  std::size_t kept_bytes_ = 0;
};

Descriptor made_eventfd() {
  Descriptor made(::eventfd(0, EFD_CLOEXEC));
  if (made.get() < 0) throw std::system_error(errno, std::generic_category(), "eventfd");
  return made;
}

}  // namespace

std::vector<StoreSockets> make_store_sockets(int ranks) {
  std::vector<StoreSockets> sockets(ranks);
  for (StoreSockets& each : sockets) {
    int ends[2];
    if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) != 0) {
      throw CommError({.what = "no file descriptor is left for the store of a run",
                       .where = counted(ranks, "rank") + " on this host",
                       .got = std::strerror(errno),
                       .expected = "two sockets a rank",
                       .hint = "`ulimit -n 4096` raises the limit"});
    }
    each.client = Descriptor(ends[0]);
    sockets[0].served.emplace_back(ends[1]);
  }
  return sockets;
}

StoreServer::StoreServer(std::vector<Descriptor> connected, Descriptor listener, std::string secret)
    : stop_(made_eventfd()),
      thread_([loop = std::make_shared<Loop>(std::move(connected), std::move(listener),
                                             std::move(secret), stop_.get())] { loop->run(); }) {}

StoreServer::~StoreServer() {
  const std::uint64_t one = 1;
  while (::write(stop_.get(), &one, sizeof one) < 0 && errno == EINTR) {
  }
  thread_.join();
}

}  // namespace ddprun
