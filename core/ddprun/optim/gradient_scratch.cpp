// Places tensors in the gradients' memory as a stack, and moves those that stay too long.
#include "ddprun/optim/gradient_scratch.h"

#include <ATen/EmptyTensor.h>
#include <ATen/ops/empty.h>
#include <c10/core/Allocator.h>

#include <algorithm>
#include <functional>
#include <utility>

#include "ddprun/memory/cpu_memory.h"

namespace ddprun {

namespace {

constexpr std::uintptr_t kLine = 64;  // ATen's alignment, too

std::uintptr_t begin_of(const at::Tensor& tensor) {
  return reinterpret_cast<std::uintptr_t>(tensor.const_data_ptr());
}
std::uintptr_t end_of(const at::Tensor& tensor) { return begin_of(tensor) + tensor.nbytes(); }

void move_to_own_memory(c10::StorageImpl& storage) {
  c10::Allocator& allocator = *c10::GetAllocator(storage.device_type());
  c10::DataPtr own = allocator.allocate(storage.nbytes());
  if (!storage.device().is_meta()) allocator.copy_data(own.get(), storage.data(), storage.nbytes());
  storage.set_data_ptr_noswap(std::move(own));
}

}  // namespace

struct GradientScratch::Stay {
  std::shared_ptr<GradientScratch> scratch;
  Address begin;
  std::shared_ptr<void> noted;

  static void end(void* stay) {
    const std::unique_ptr<Stay> self(static_cast<Stay*>(stay));
    self->scratch->leave(self->begin);
  }
};

GradientScratch::GradientScratch(at::Tensor gradients)
    : gradients_(std::move(gradients)),
      begin_(begin_of(gradients_)),
      end_(end_of(gradients_)),
      written_(begin_) {}

/// Gives it memory behind `behind`. False: there is no room.
bool GradientScratch::lend(const c10::intrusive_ptr<c10::StorageImpl>& storage, Address behind) {
  const std::lock_guard lock(mutex_);
  const Address bytes = storage->nbytes();
  const Address top = guests_.empty() ? end_ : guests_.back().begin;
  const Address lowest = std::max(behind, written_);
  if (bytes == 0 || top < lowest + bytes) return false;
  const Address begin = (top - bytes) / kLine * kLine;
  if (begin < lowest) return false;
  void* const data = reinterpret_cast<void*>(begin);  // NOLINT: within gradients_
  auto stay = std::make_unique<Stay>(
      shared_from_this(), begin,
      CpuMemory::count_bytes(static_cast<std::int64_t>(bytes), data, /*lent=*/true));
  guests_.push_back({begin, begin + bytes, c10::weak_intrusive_ptr<c10::StorageImpl>(storage)});
  storage->set_data_ptr_noswap({data, stay.release(), &Stay::end, gradients_.device()});
  return true;
}

void GradientScratch::leave(Address begin) {
  const std::lock_guard lock(mutex_);
  const auto guest = std::ranges::lower_bound(guests_, begin, std::greater(), &Guest::begin);
  if (guest != guests_.end() && guest->begin == begin) guest->gone = true;
  while (!guests_.empty() && guests_.back().gone) guests_.pop_back();
}

at::Tensor GradientScratch::empty(at::IntArrayRef sizes, const at::TensorOptions& options,
                                  const at::Tensor& gradient) {
  auto storage = c10::make_intrusive<c10::StorageImpl>(
      c10::StorageImpl::use_byte_size_t(),
      at::detail::computeStorageNbytesContiguous(sizes, options.dtype().itemsize()), c10::DataPtr(),
      /*allocator=*/nullptr, /*resizable=*/false);
  if (!lend(storage, end_of(gradient))) return at::empty(sizes, options);
  at::Tensor tensor = at::detail::make_tensor<c10::TensorImpl>(
      c10::Storage(std::move(storage)), options.computeDispatchKey(), options.dtype());
  tensor.unsafeGetTensorImpl()->set_sizes_contiguous(sizes);
  return tensor;
}

void GradientScratch::claim(const at::Tensor& gradient) {
  std::vector<c10::intrusive_ptr<c10::StorageImpl>> in_the_way;
  {
    const std::lock_guard lock(mutex_);
    written_ = std::max(written_, end_of(gradient));
    auto guest = std::ranges::partition_point(
        guests_, [&](const Guest& each) { return each.begin >= end_of(gradient); });
    for (; guest != guests_.end() && guest->end > begin_of(gradient); ++guest) {
      if (guest->gone) continue;
      if (auto storage = guest->storage.lock()) in_the_way.push_back(std::move(storage));
    }
  }
  for (const auto& storage : in_the_way) move_to_own_memory(*storage);
}

void GradientScratch::release() {
  const std::lock_guard lock(mutex_);
  written_ = begin_;
}

}  // namespace ddprun
