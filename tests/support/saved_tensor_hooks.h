// Saved-tensor hooks without Python: autograd packs what it saves.
#pragma once

#include <ATen/core/Tensor.h>
#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/saved_variable_hooks.h>

#include <atomic>
#include <memory>
#include <vector>

namespace ddprun::test {

struct HookCounts {
  std::atomic<int> packed, unpacked;
  bool hold = false;             ///< pack tensors as themselves
  std::vector<at::Tensor> held;  ///< these
};

/// Packs a tensor as a copy elsewhere, as hooks do that offload or compress; or as itself.
class CountingHooks final : public torch::autograd::SavedVariableHooks {
 public:
  explicit CountingHooks(HookCounts& counts) : counts_(counts) {}

  void call_pack_hook(const at::Tensor& tensor) override {
    ++counts_.packed;
    packed_ = counts_.hold ? tensor.detach() : tensor.detach().clone();
    if (counts_.hold) counts_.held.push_back(packed_);
  }
  at::Tensor call_unpack_hook() override {
    ++counts_.unpacked;
    return counts_.hold ? packed_ : packed_.clone();
  }

 private:
  HookCounts& counts_;
  at::Tensor packed_;
};

/// An engine whose default hooks are those. Python's hooks come to autograd in the same way.
class HookingEngine final : public torch::autograd::Engine {
 public:
  static HookingEngine& instance() {
    static auto* const engine = new HookingEngine;  // never destroyed, as autograd's own
    return *engine;
  }
  std::unique_ptr<torch::autograd::SavedVariableHooks> get_default_saved_variable_hooks() override {
    return std::make_unique<CountingHooks>(counts);
  }

  HookCounts counts;
};

/// Calls f() and counts what it packs. What it saved is unpacked later.
template <class F>
HookCounts& with_saved_tensor_hooks(const F& f, bool hold = false) {
  using torch::autograd::Engine;
  HookCounts& counts = HookingEngine::instance().counts;
  counts.packed = counts.unpacked = 0;
  counts.hold = hold;
  torch::autograd::set_default_engine_stub([]() -> Engine& { return HookingEngine::instance(); });
  f();
  torch::autograd::set_default_engine_stub([]() -> Engine& { return Engine::get_base_engine(); });
  return counts;
}

}  // namespace ddprun::test
