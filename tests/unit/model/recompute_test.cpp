// A transformer whose blocks backward computes again: gradients bit for bit, hooks once and in
// order, no read of what was freed, and the memory that the formula says.
#include <ATen/Functions.h>
#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>
#include <c10/core/CPUAllocator.h>
#include <c10/util/ScopeExit.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>

#include "ddprun/base/choice.h"
#include "ddprun/base/torch_versions.h"
#include "ddprun/model/transformer.h"
#include "ddprun/optim/flat_buffers.h"
#include "support/plugin_library.h"

namespace ddprun::recompute_test {
namespace {

using test::load_plugin;

constexpr std::int64_t kVocab = 97;
constexpr std::int64_t kLayers = 5;

RecomputeConfig of_form(RecomputeForm form) { return {.form = form}; }
RecomputeConfig of_groups(std::int64_t groups) { return {.groups = groups}; }
RecomputeConfig of_every(std::int64_t every, std::int64_t keep_last) {
  return {.every = every, .keep_last = keep_last};
}

/// All forms but none.
std::vector<RecomputeConfig> forms() {
  return {of_form(RecomputeForm::every_block),
          of_form(RecomputeForm::recursive),
          of_groups(1),
          of_groups(2),
          of_every(2, 1),
          of_every(1, 4)};
}

ModelConfig config_of(KernelSet kernels, const RecomputeConfig& recompute = {}) {
  return {.preset = "",
          .vocab_size = kVocab,
          .context_length = 24,
          .d_model = 48,
          .d_ff = 100,
          .layers = kLayers,
          .heads = 4,
          .kernels = kernels,
          .recompute = recompute};
}

struct Tokens {
  at::Tensor ids = at::randint(kVocab, {3, 17}, at::kLong);
  at::Tensor targets = at::randint(kVocab, {3, 17}, at::kLong);
};

class Recompute : public ::testing::TestWithParam<KernelSet> {
 protected:
  Recompute() { at::set_num_threads(1); }  // small tensors: threads would only wait for each other

  /// The gradients of two micro-batches, flat, in flat buffers with products in `compute`.
  at::Tensor gradients(const RecomputeConfig& recompute, at::ScalarType compute = at::kFloat) {
    Transformer model(config_of(GetParam(), recompute), *attention_, 3);
    FlatBuffers buffers(model.parameters(), {.compute = compute}, allocate_private, GetParam());
    if (GetParam() == KernelSet::fused) model.use_memory(buffers.slots());
    for (const Tokens& tokens : {a_, b_}) {
      (model.loss(tokens.ids, tokens.targets) / 2).backward();
    }
    return gradients_of(model);
  }

  static at::Tensor gradients_of(const Transformer& model) {
    std::vector<at::Tensor> all;
    for (const NamedTensor& each : model.parameters()) all.push_back(each.tensor.grad().flatten());
    return at::cat(all);
  }

  std::shared_ptr<Attention> attention_ = load_plugin<Attention>("attention", "flash");
  Tokens a_, b_;
};

// Without a precision that would switch autocast on when backward computes again.
TEST_P(Recompute, TheReferenceRoundsAsWithoutIt) {
  for (const char* const format : {"bfloat16", "float16"}) {
    const auto reference = [&](const RecomputeConfig& recompute) {
      const Transformer model(config_of(GetParam(), recompute), *attention_, 3);
      model.reference_loss(a_.ids, a_.targets, {}, format).backward();
      return gradients_of(model);
    };
    EXPECT_TRUE(at::equal(reference(of_form(RecomputeForm::every_block)), reference({}))) << format;
  }
}

/// A hook at a parameter's node, as DataParallel has it.
class Note final : public torch::autograd::FunctionPostHook {
 public:
  Note(std::vector<std::string>& notes, std::string name) : notes_(notes), name_(std::move(name)) {}
  torch::autograd::variable_list operator()(const torch::autograd::variable_list& outputs,
                                            const torch::autograd::variable_list&) override {
    notes_.push_back(name_);
    return outputs;
  }

 private:
  std::vector<std::string>& notes_;
  std::string name_;
};

void sort_layers(std::vector<std::string>& notes) {
  std::vector<int> sizes = {2};  // the head
  for (std::int64_t layer = 0; layer < kLayers; ++layer) sizes.insert(sizes.end(), {5, 4});
  auto first = notes.begin();
  for (const int size : sizes) {
    std::sort(first, first + size);
    first += size;
  }
}

TEST_P(Recompute, HooksRunOnceAndInTheOrderOfNone) {
  const auto notes_of = [&](const RecomputeConfig& recompute) {
    std::vector<std::string> notes;
    const Transformer model(config_of(GetParam(), recompute), *attention_, 3);
    std::vector<NodePointer<torch::autograd::Node>> nodes;  // autograd keeps none
    for (const auto& [name, tensor, unit, wide, twice, elsewhere] : model.parameters()) {
      nodes.push_back(torch::autograd::impl::grad_accumulator(tensor));
      nodes.back()->add_post_hook(std::make_unique<Note>(notes, name));
    }
    model.loss(a_.ids, a_.targets).backward();
    // A fused layer has the gradients of all its parameters at once: their order is arbitrary.
    if (GetParam() == KernelSet::fused) sort_layers(notes);
    return notes;
  };
  const std::vector<std::string> expected = notes_of({});
  EXPECT_EQ(expected.size(), 9U * kLayers + 3);
  for (const RecomputeConfig& form : forms()) {
    EXPECT_EQ(notes_of(form), expected) << to_string(form);
  }
}

// What lies in memory after it was freed would go into gradients unseen.
class PoisoningAllocator final : public c10::Allocator {
 public:
  c10::DataPtr allocate(std::size_t bytes) override {
    void* const data = std::aligned_alloc(64, (bytes + 63) / 64 * 64);
    const std::lock_guard lock(mutex_);
    sizes_[data] = bytes;
    return {data, data, &poison, c10::kCPU};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &poison; }
  void copy_data(void* to, const void* from, std::size_t bytes) const override {
    std::memcpy(to, from, bytes);
  }
  static PoisoningAllocator& instance() {
    static auto* const instance = new PoisoningAllocator;  // tensors may outlive the test
    return *instance;
  }

 private:
  /// Fills with NaN, of float32 and of bfloat16, and gives the memory to nobody else.
  static void poison(void* data) {
    PoisoningAllocator& self = instance();
    const std::lock_guard lock(self.mutex_);
    std::memset(data, 0xFF, self.sizes_.at(data));
  }

  std::mutex mutex_;
  std::map<void*, std::size_t> sizes_;
};

/// Takes the place of the CPU's allocator for as long as what it returns lives.
[[nodiscard]] auto poison_freed_memory() {
  c10::Allocator* const before = c10::GetCPUAllocator();
  // A lower priority than the present one's changes nothing, so both have the same.
  c10::SetCPUAllocator(&PoisoningAllocator::instance(), 100);
  return c10::make_scope_exit([before] { c10::SetCPUAllocator(before, 100); });
}

/// The memory of tensors that were freed is NaN.
void expect_poisoned() {
  const float* dangling = nullptr;
  {
    const at::Tensor freed = at::ones({64});
    dangling = freed.const_data_ptr<float>();
    ASSERT_EQ(dangling[0], 1.0F);
  }
  ASSERT_TRUE(std::isnan(dangling[0])) << "the fault is planted";
}

TEST_P(Recompute, GradientsAreThoseOfNoneBitForBitAndNothingIsReadThatWasFreed) {
  at::set_num_threads(2);
  for (const at::ScalarType compute : {at::kFloat, at::kBFloat16}) {
    if (compute != at::kFloat && GetParam() == KernelSet::reference)
      continue;  // that is autocast's
    const at::Tensor expected = gradients({}, compute);
    EXPECT_GT(expected.norm().item<double>(), 0);
    const auto poisoned = poison_freed_memory();
    expect_poisoned();
    EXPECT_TRUE(at::equal(gradients({}, compute), expected));
    for (const RecomputeConfig& form : forms()) {
      EXPECT_TRUE(at::equal(gradients(form, compute), expected)) << to_string(form);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Kernels, Recompute,
                         ::testing::Values(KernelSet::reference, KernelSet::fused),
                         [](const auto& info) { return std::string(name_of(info.param)); });

}  // namespace
}  // namespace ddprun::recompute_test
