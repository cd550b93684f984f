// A c10d::Store over TCP in which every answer has a time limit.
//
// Family: store_client.cpp agent_store.cpp
#pragma once

#include <atomic>
#include <chrono>
#include <memory>
#include <mutex>
#include <string>
#include <torch/csrc/distributed/c10d/Store.hpp>
#include <vector>

#include "ddprun/base/descriptor.h"
#include "ddprun/comm/store/store_server.h"

namespace ddprun {

/// Where a run's store is, and how errors speak of it.
struct StorePlace {
  std::string host = {};
  int port = 0;             ///< 0: its connections are handed down
  std::string where = {};   ///< of errors: "rank 1 of 2, store at 127.0.0.1:29500"
  std::string server = {};  ///< who serves it: "rank 0", "the launcher's agent"
  std::string secret = {};  ///< of the launch; empty: there is none
};

/// Speaks the protocol of c10d's TCPStore, so it reaches StoreServer and the store of torchrun's
/// agent. TCPStore itself waits without limit for a server that has accepted it and says nothing,
/// and asks the name service for the server's name.
///
/// Errors are CommError that names the server, but a key that does not come in time is c10d's
/// DistStoreError. After a CommError every later call throws the same. Any thread may call it: a
/// wait lets the requests of other threads go first.
class StoreClient final : public c10d::Store {
 public:
  /// Connects; tries until a store answers. `timeout` limits that, and later each answer.
  StoreClient(StorePlace place, std::chrono::milliseconds timeout);
  /// Over a connection that is there (StoreSockets::client). `server` is the store's, on the rank
  /// that serves it; it ends with this object.
  StoreClient(StorePlace place, std::chrono::milliseconds timeout, Descriptor connected,
              std::unique_ptr<StoreServer> server = nullptr);

  /// One with a connection of its own where the place has a port, else this one.
  c10::intrusive_ptr<Store> clone() override;
  using Store::set;
  void set(const std::string& key, const std::vector<std::uint8_t>& value) override;
  using Store::compareSet;
  std::vector<std::uint8_t> compareSet(const std::string& key,
                                       const std::vector<std::uint8_t>& current,
                                       const std::vector<std::uint8_t>& desired) override;
  std::vector<std::uint8_t> get(const std::string& key) override;
  std::int64_t add(const std::string& key, std::int64_t value) override;
  void append(const std::string& key, const std::vector<std::uint8_t>& value) override;
  bool deleteKey(const std::string& key) override;
  bool check(const std::vector<std::string>& keys) override;
  std::int64_t getNumKeys() override;
  void wait(const std::vector<std::string>& keys) override { wait(keys, timeout_); }
  void wait(const std::vector<std::string>& keys,
            const std::chrono::milliseconds& timeout) override;

 private:
  /// A thread has the connection as long as it holds what this returns.
  [[nodiscard]] std::unique_lock<std::mutex> turn();
  bool came(const std::vector<std::string>& keys, std::int64_t deadline_ns);
  void connect(std::int64_t deadline_ns);
  /// Returns whether a store answers at the other end; if nothing does in time, throws.
  bool greet(std::int64_t deadline_ns);
  /// Both ends prove that they know the secret.
  void exchange_proofs(std::int64_t deadline_ns);
  void send(const std::string& request);
  /// Fills `data`. Returns false if no byte came until then.
  bool receive(void* data, std::size_t size, std::int64_t deadline_ns);
  /// As receive(), but if nothing came until then, throws.
  void receive_all(void* data, std::size_t size, std::int64_t deadline_ns);
  /// As receive_all(), within the time limit of an answer.
  void fill(void* data, std::size_t size);
  /// Sends a request and returns the answer: a number, or the bytes of a value.
  template <typename T>
  T ask(const std::string& request);
  [[noreturn]] void fail_silent(std::int64_t limit_ms);
  [[noreturn]] void fail_lost(const std::string& cause);

  const std::unique_ptr<StoreServer> server_;
  const StorePlace place_;
  std::mutex mutex_;
  std::atomic<int> queued_ = 0;  ///< threads that wait for it
  Descriptor socket_;
  std::exception_ptr failure_;  ///< what every later call throws
};

/// Asks the store at `place` everything that StoreClient asks, over a connection of its own, and
/// compares the answers. Throws CommError that names both versions of PyTorch where one differs.
/// `rank` keeps apart the ranks that ask at once; `agent` is the process that serves the store, if
/// it is on this host.
void check_agent_store(const StorePlace& place, std::chrono::milliseconds timeout, int rank,
                       int agent);

}  // namespace ddprun
