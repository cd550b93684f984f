// PyTorch's own c10d::Reducer, the engine of DistributedDataParallel, as a strategy: the reference
// to beat.
#include <cstdint>
#include <memory>
#include <torch/csrc/distributed/c10d/reducer.hpp>

#include "ddprun/plugin/strategy.h"

namespace ddprun {
namespace {

/// Drives the Reducer as torch.nn.parallel.DistributedDataParallel does with its default options.
/// The Reducer has hooks of its own in autograd: it copies each gradient, already divided by the
/// number of ranks, into a bucket, all-reduces the bucket when it is full, and copies it back
/// before backward returns.
class TorchDdp final : public Strategy {
 public:
  void declare_options(Options& options) override {
    options.option("bucket_mb", &bucket_mb_,
                   "size of a bucket in MiB (1024 * 1024 bytes, as PyTorch's bucket_cap_mb)",
                   {.min = 0.001, .max = 1e6});
    options.option("first_bucket_mb", &first_bucket_mb_,
                   "size of the bucket that is reduced first in MiB (PyTorch has 1 built in)",
                   {.min = 0.001, .max = 1e6});
  }

  std::optional<Refusal> unsupported(const RunDescription& run) const override {
    if (run.execution == ExecutionMode::eager) return {};
    return Refusal{.reason =
                       "the Reducer takes times of its own in its first ten steps, which "
                       "cannot be captured",
                   .expected = "execution.mode eager",
                   .hint = "set `mode: eager` under `execution:`"};
  }

  void setup(StrategyContext& context) override {
    const at::Tensor gradients = context.buffers().gradients(context.buffers().all());
    const at::ScalarType dtype = context.buffers().parameter(0).scalar_type();
    if (gradients.scalar_type() != dtype) {
      throw ConfigError(
          {.what = "torch_ddp exchanges gradients in the parameters' dtype only",
           .where = "precision",
           .got = std::string("reduce_dtype ") + at::toString(gradients.scalar_type()),
           .expected = std::string("reduce_dtype ") + at::toString(dtype),
           .hint = "take a precision that exchanges gradients so, or another strategy"});
    }
    context_ = &context;
    context.broadcast_parameters();
    make_reducer();
    plan_buckets();
    context.before_forward([this] { prepare(); });
  }

  /// The Reducer waits for its buckets at the end of backward.
  void finish_backward() override {}

 private:
  void make_reducer() {
    FlatBuffers& buffers = context_->buffers();
    std::vector<at::Tensor>
        parameters;  // in registration order, as DistributedDataParallel passes them
    std::unordered_map<std::size_t, std::string> names;
    for (int index = buffers.count() - 1; index >= 0; --index) {
      names.emplace(parameters.size(), buffers.name(index));
      parameters.push_back(buffers.parameter(index));
    }
    // All gradients begin in one bucket, whose order does not matter. After the first step the
    // Reducer cuts buckets by the sizes below, in the order in which gradients came.
    std::vector<std::size_t> all(parameters.size());
    for (std::size_t i = 0; i < all.size(); ++i) all[i] = i;
    const std::vector<bool> no_sparse_gradients(parameters.size(), false);
    reducer_ = std::make_unique<c10d::Reducer>(
        std::move(parameters), std::vector<std::vector<std::size_t>>{std::move(all)},
        context_->group().as_c10d(), no_sparse_gradients, to_bytes(bucket_mb_),
        /*find_unused_parameters=*/false,
        // PyTorch's default as well. With it, .grad stays the view of the flat gradient buffer, and
        // the bucket is copied into that.
        /*gradient_as_bucket_view=*/false, std::move(names), to_bytes(first_bucket_mb_),
        /*skip_all_reduce_unused_params=*/false, /*use_python_reducer=*/false,
        std::vector<std::int64_t>{});
  }

  /// Called before the forward of a micro-batch that will synchronize. Without this call the
  /// Reducer's hooks let gradients accumulate.
  void prepare() {
    reducer_->prepare_for_forward();
    const bool rebuilt = reducer_->rebuild_buckets();
    if (rebuilt || plan_has_rebuild_) {
      context_->clear_plan();
      plan_buckets();
      if (rebuilt) plan_rebuild();
      plan_has_rebuild_ = rebuilt;
    }
    reducer_->prepare_for_backward({});
  }

  /// Plans one all-reduce for each bucket.
  void plan_buckets() {
    buckets_ = 0;
    for (const auto& bucket : reducer_->get_grad_buckets(/*return_zero_tensors=*/false)) {
      context_->plan(CollectiveKind::all_reduce,
                     static_cast<std::int64_t>(bucket.getBuffer().nbytes()));
      ++buckets_;
    }
  }

  /// In the second step rank 0 tells the others its buckets: the parameters' indices and the number
  /// of buckets, then the sizes of the buckets.
  void plan_rebuild() {
    constexpr auto kIndexBytes = static_cast<std::int64_t>(sizeof(std::int32_t));
    context_->plan(CollectiveKind::broadcast, (context_->buffers().count() + 1) * kIndexBytes);
    context_->plan(CollectiveKind::broadcast, buckets_ * kIndexBytes);
  }

  static std::int64_t to_bytes(double mebibytes) {
    return static_cast<std::int64_t>(mebibytes * 1024 * 1024);
  }

  double bucket_mb_ = 25.0;
  double first_bucket_mb_ = 1.0;
  StrategyContext* context_ = nullptr;
  std::unique_ptr<c10d::Reducer> reducer_;
  std::int64_t buckets_ = 0;
  bool plan_has_rebuild_ = false;
};

}  // namespace
}  // namespace ddprun

DDPRUN_STRATEGY(ddprun::TorchDdp, "torch_ddp",
                "PyTorch's own DistributedDataParallel reducer (c10d::Reducer)", "1.0")
