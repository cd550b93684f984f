// Saved-tensor hooks without Python: autograd packs what it saves.
#pragma once

#include <ATen/core/Tensor.h>
#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/saved_variable_hooks.h>

#include <atomic>
#include <memory>

namespace ddprun::test {

struct HookCounts {
  std::atomic<int> packed, unpacked;
};

/// Packs a tensor as a copy elsewhere, as hooks do that offload or compress.
class CopyingHooks final : public torch::autograd::SavedVariableHooks {
 public:
  explicit CopyingHooks(HookCounts& counts) : counts_(counts) {}

  void call_pack_hook(const at::Tensor& tensor) override {
    ++counts_.packed;
    copy_ = tensor.detach().clone();
  }
  at::Tensor call_unpack_hook() override {
    ++counts_.unpacked;
    return copy_.clone();
  }

 private:
  HookCounts& counts_;
  at::Tensor copy_;
};

/// An engine whose default hooks are those. Python's hooks come to autograd in the same way.
class HookingEngine final : public torch::autograd::Engine {
 public:
  static HookingEngine& instance() {
    static auto* const engine = new HookingEngine;  // never destroyed, as autograd's own
    return *engine;
  }
  std::unique_ptr<torch::autograd::SavedVariableHooks> get_default_saved_variable_hooks() override {
    return std::make_unique<CopyingHooks>(counts);
  }

  HookCounts counts;
};

/// Calls f() and counts what it packs. What it saved is unpacked later.
template <class F>
HookCounts& with_saved_tensor_hooks(const F& f) {
  using torch::autograd::Engine;
  HookCounts& counts = HookingEngine::instance().counts;
  counts.packed = counts.unpacked = 0;
  torch::autograd::set_default_engine_stub([]() -> Engine& { return HookingEngine::instance(); });
  f();
  torch::autograd::set_default_engine_stub([]() -> Engine& { return Engine::get_base_engine(); });
  return counts;
}

}  // namespace ddprun::test
