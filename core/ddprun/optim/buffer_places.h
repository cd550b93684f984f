// Which memory holds which elements of a flat buffer.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <vector>

#include "ddprun/optim/parameter_layout.h"

namespace ddprun {

/// Makes a zeroed tensor (elements,) of these options, on a 64-byte boundary.
using Allocate = std::function<at::Tensor(std::int64_t elements, const at::TensorOptions& options)>;

/// The memory of a flat buffer, of which a rank may hold a part. Parts may share memory, if they
/// are used at different times.
class BufferPlaces {
 public:
  /// memory: (range.size(),).
  void add(Range range, const at::Tensor& memory) { parts_.push_back({range, memory}); }
  bool empty() const { return parts_.empty(); }
  bool holds(Range range) const { return find(range) != nullptr; }
  /// A 1-D view. Throws Error unless one part holds the whole range.
  at::Tensor view(Range range) const;

 private:
  struct Part {
    Range range;
    at::Tensor memory;
  };
  const Part* find(Range range) const;

  std::vector<Part> parts_;
};

/// Memory for units while they are used. Some have a place of their own, where they may stay. For
/// the others there is room for two that follow each other: the first, third, ... are at its front,
/// the others at its end. So neighbours never share memory, and it is as large as the two largest.
class UnitPlaces {
 public:
  /// `bytes`: of each unit, in the order of the forward pass.
  UnitPlaces(const std::vector<std::int64_t>& bytes, const std::vector<bool>& stays,
             const Allocate& allocate, const at::TensorOptions& options);

  /// Bytes of the room for two: of units that do not stay.
  static std::int64_t shared_bytes(const std::vector<std::int64_t>& bytes,
                                   const std::vector<bool>& stays);

  /// (bytes of the unit,) uint8, on a 64-byte boundary.
  at::Tensor place(int unit) const;
  std::int64_t bytes() const { return memory_.numel(); }

 private:
  std::vector<std::int64_t> bytes_, begins_;  // of each unit
  at::Tensor memory_;
};

}  // namespace ddprun
