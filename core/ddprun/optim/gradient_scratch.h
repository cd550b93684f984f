// The memory of gradients while backward has not written them yet, for what is gone by then.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/StorageImpl.h>
#include <c10/util/intrusive_ptr.h>

#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

namespace ddprun {

/// From the update on, the memory of whole gradients is unused until backward writes it, and
/// backward writes it from its front to its end. What a layer saves is gone when that layer's own
/// gradients are written, so it may lie behind them. Tensors are placed from the end on, as forward
/// begins with the layers whose gradients are there. What is still in the way when a gradient is
/// written moves, so a tensor that lives longer than expected costs memory and nothing else.
class GradientScratch : public std::enable_shared_from_this<GradientScratch> {
 public:
  /// `gradients`: the whole buffer, contiguous, in the order in which backward writes it.
  explicit GradientScratch(at::Tensor gradients);

  /// Uninitialized and contiguous: behind `gradient`, a part of the buffer, if there is room that
  /// neither a gradient nor another tensor takes, and in memory of its own otherwise.
  at::Tensor empty(at::IntArrayRef sizes, const at::TensorOptions& options,
                   const at::Tensor& gradient);
  /// `gradient`, a part of the buffer, is about to be written: what lies there gets memory of its
  /// own. Nothing is placed there or before it until release().
  void claim(const at::Tensor& gradient);
  /// No gradient is used any more.
  void release();

 private:
  using Address = std::uintptr_t;
  struct Guest {
    Address begin, end;
    c10::weak_intrusive_ptr<c10::StorageImpl> storage;
    bool gone = false;
  };
  struct Stay;  // of a guest; ends with its memory

  bool lend(const c10::intrusive_ptr<c10::StorageImpl>& storage, Address behind);
  void leave(Address begin);

  const at::Tensor gradients_;
  const Address begin_, end_;
  std::mutex mutex_;
  Address written_;            // gradients before it are used
  std::vector<Guest> guests_;  // one below the other, from the buffer's end
};

}  // namespace ddprun
