// Which part of a model allocates and computes: a unit, and an operation within it.
#pragma once

#include <cstdint>
#include <string>

namespace ddprun {

/// Texts live as long as the process. Null: not known.
struct MemoryPlace {
  const char* unit = nullptr;       ///< "token_embeddings", "layers", "head"
  std::int64_t index = -1;          ///< of the unit among those of its name; -1: it is the only one
  const char* operation = nullptr;  ///< "norm", "qkv", "attention" ...

  std::string unit_name() const;  ///< "layers.3"; empty: not known
};

/// Hears where a thread is. Called on that thread.
class PlaceListener {
 public:
  virtual ~PlaceListener();
  virtual void on_place(const MemoryPlace& place) = 0;
  /// Backward begins, or ends, to compute a part of the forward again.
  virtual void on_forward_again(bool begins) = 0;

  /// Of the calling thread, until it is set anew; null: none.
  static void set(PlaceListener* listener);
};

/// While it lives, this thread is there. Labels nest. Without a listener one costs two stores of
/// thread-local memory.
class MemoryLabel {
 public:
  /// An operation of the unit that the thread is in.
  explicit MemoryLabel(const char* operation);
  MemoryLabel(const char* unit, std::int64_t index);
  explicit MemoryLabel(const MemoryPlace& place);
  ~MemoryLabel();
  MemoryLabel(const MemoryLabel&) = delete;
  MemoryLabel& operator=(const MemoryLabel&) = delete;

  static const MemoryPlace& current();

 private:
  const MemoryPlace outer_;
};

/// While it lives, backward computes a part of the forward again: what is left at its end is saved
/// for backward.
class ForwardAgain {
 public:
  ForwardAgain();
  ~ForwardAgain();
  ForwardAgain(const ForwardAgain&) = delete;
  ForwardAgain& operator=(const ForwardAgain&) = delete;
};

}  // namespace ddprun
