// One poll loop over all connections: requests in, answers out, waits that a new key ends.
#include "ddprun/comm/store/store_server.h"

#include <fcntl.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <list>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "ddprun/base/error.h"
#include "ddprun/comm/store/store_protocol.h"

namespace ddprun {

namespace {

using store_protocol::Check;
using store_protocol::Query;
using store_protocol::Wait;

/// More than any client of ours sends in one text; what claims more is no client.
constexpr std::uint64_t kLongestText = std::uint64_t{64} << 20;
/// How long new connections wait while the process has no descriptor left.
constexpr int kNoDescriptorPauseMs = 100;

/// Reads the fields of one request from the bytes that have come so far.
class ReceivedRequest {
 public:
  explicit ReceivedRequest(std::string_view bytes) : bytes_(bytes) {}

  template <typename T>
  T value() {
    T result{};
    if (const std::string_view raw = take(sizeof(T)); !raw.empty()) {
      std::memcpy(&result, raw.data(), sizeof(T));
    }
    return result;
  }
  std::string text() {
    const auto length = value<std::uint64_t>();
    malformed_ = malformed_ || length > kLongestText;
    return malformed_ ? "" : std::string(take(length));
  }
  std::vector<std::string> texts() {
    const auto count = value<std::uint64_t>();
    std::vector<std::string> result;
    while (whole_ && !malformed_ && result.size() < count) result.push_back(text());
    return result;
  }
  bool whole() const { return whole_ && !malformed_; }
  bool malformed() const { return malformed_; }
  std::size_t size() const { return taken_; }

 private:
  std::string_view take(std::size_t size) {
    whole_ = whole_ && bytes_.size() - taken_ >= size;
    if (!whole_) return {};
    const std::string_view part = bytes_.substr(taken_, size);
    taken_ += size;
    return part;
  }

  std::string_view bytes_;
  std::size_t taken_ = 0;
  bool whole_ = true;
  bool malformed_ = false;
};

struct Connection {
  explicit Connection(Descriptor connected) : socket(std::move(connected)) {}
  Descriptor socket;
  std::string in;
  std::string out;
  std::vector<std::string> awaited;  ///< keys of the wait that is under way
  bool closed = false;

  template <typename T>
  void answer(T value) {
    out.append(reinterpret_cast<const char*>(&value), sizeof(T));
  }
  void answer_text(const std::string& text) {
    answer(static_cast<std::uint64_t>(text.size()));
    out += text;
  }
};

class Loop {
 public:
  Loop(std::vector<Descriptor> connected, Descriptor listener, int stop)
      : listener_(std::move(listener)), stop_(stop) {
    ::fcntl(listener_.get(), F_SETFL, O_NONBLOCK);  // a client may be gone before accept()
    for (Descriptor& each : connected) connections_.emplace_back(std::move(each));
  }

  void run() {
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
    if (fds[1].revents != 0) accept_one();
    for (Connection& each : connections_) send(each);
    return true;
  }

  void accept_one() {
    Descriptor accepted(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (accepted.get() >= 0) {
      const int yes = 1;  // as the client's
      ::setsockopt(accepted.get(), IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
      connections_.emplace_back(std::move(accepted));
    } else {
      descriptors_left_ = errno != EMFILE && errno != ENFILE;
    }
  }

  void receive(Connection& from) {
    char buffer[65536];
    while (!from.closed) {
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
    while (!from.closed && done < from.in.size()) {
      ReceivedRequest request(std::string_view(from.in).substr(done));
      serve(from, request);
      from.closed = from.closed || request.malformed();
      if (!request.whole()) break;
      done += request.size();
    }
    from.in.erase(0, done);
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
        if (auto keys = request.texts(); request.whole()) {
          client.awaited = std::move(keys);
          end_waits();
        }
        return;
      case Query::check:
        if (const auto keys = request.texts(); request.whole()) {
          client.answer(all_there(keys) ? Check::ready : Check::not_ready);
        }
        return;
      case Query::set:
      case Query::get:
      case Query::add:
      case Query::compare_set:
      case Query::delete_key:
        return serve_key(query, client, request);
      default:  // what StoreClient never asks
        client.closed = true;
    }
  }

  /// The requests that are about one key.
  void serve_key(Query query, Connection& client, ReceivedRequest& request) {
    const std::string key = request.text();
    const bool compares = query == Query::compare_set;
    const std::string expected = compares ? request.text() : "";
    const std::string value = compares || query == Query::set ? request.text() : "";
    const auto delta = query == Query::add ? request.value<std::int64_t>() : 0;
    if (!request.whole()) return;
    if (query == Query::get) {
      const auto found = values_.find(key);
      return client.answer_text(found == values_.end() ? "" : found->second);
    }
    if (query == Query::delete_key) {
      return client.answer(static_cast<std::int64_t>(values_.erase(key)));
    }
    if (query == Query::set) values_[key] = value;
    if (query == Query::add) {
      std::string& sum = values_[key];
      sum = std::to_string(delta + std::strtoll(sum.c_str(), nullptr, 10));
      client.answer(static_cast<std::int64_t>(std::strtoll(sum.c_str(), nullptr, 10)));
    }
    if (compares) {
      if (values_.contains(key) ? values_[key] == expected : expected.empty()) values_[key] = value;
      client.answer_text(values_.contains(key) ? values_[key] : expected);
    }
    end_waits();
  }

  bool all_there(const std::vector<std::string>& keys) const {
    return std::all_of(keys.begin(), keys.end(),
                       [this](const std::string& key) { return values_.contains(key); });
  }

  void end_waits() {
    for (Connection& each : connections_) {
      if (each.awaited.empty() || !all_there(each.awaited)) continue;
      each.awaited.clear();
      each.answer(Wait::ended);
    }
  }

  Descriptor listener_;
  int stop_;
  bool descriptors_left_ = true;
  std::list<Connection> connections_;
  std::unordered_map<std::string, std::string> values_;
};

}  // namespace

std::vector<StoreSockets> make_store_sockets(int ranks) {
  std::vector<StoreSockets> sockets(ranks);
  for (StoreSockets& each : sockets) {
    int ends[2];
    if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) != 0) {
      throw CommError({.what = "no file descriptor is left for the store of a run",
                       .where = std::to_string(ranks) + " ranks on this host",
                       .got = std::strerror(errno),
                       .expected = "two sockets a rank",
                       .hint = "`ulimit -n 4096` raises the limit"});
    }
    each.client = Descriptor(ends[0]);
    sockets[0].served.emplace_back(ends[1]);
  }
  return sockets;
}

StoreServer::StoreServer(std::vector<Descriptor> connected, Descriptor listener)
    : stop_(::eventfd(0, EFD_CLOEXEC)),
      thread_([loop = std::make_shared<Loop>(std::move(connected), std::move(listener),
                                             stop_.get())] { loop->run(); }) {}

StoreServer::~StoreServer() {
  const std::uint64_t one = 1;
  while (::write(stop_.get(), &one, sizeof one) < 0 && errno == EINTR) {
  }
  thread_.join();
}

}  // namespace ddprun
