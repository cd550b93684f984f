// What a plugin carries from step to step, declared once: that declaration is written to a
// checkpoint and read from one.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string_view>

namespace ddprun {

/// For Plugin::declare_state(). The core calls that between two steps, after setup() or convert(),
/// to save, or to resume as if the run had never ended. Names are the plugin's own, each once; a
/// rank's values are its own.
class State {
 public:
  /// Read in place, so that whoever holds the tensor has its values. Undefined, it is not written;
  /// when resumed it becomes a new tensor on the CPU if one was written.
  virtual void tensor(std::string_view name, at::Tensor& value) = 0;
  virtual void number(std::string_view name, std::int64_t& value) = 0;

 protected:
  ~State() = default;
};

}  // namespace ddprun
