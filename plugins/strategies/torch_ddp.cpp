// PyTorch's own c10d::Reducer, the engine of DistributedDataParallel, as a strategy: the reference
// to beat.
#include <ATen/ops/tensor.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <numeric>
#include <torch/csrc/distributed/c10d/reducer.hpp>

#include "ddprun/plugin/deviations.h"
#include "ddprun/plugin/export.h"
#include "ddprun/plugin/options.h"
#include "ddprun/plugin/parts/c10d_group.h"
#include "ddprun/plugin/run_description.h"
#include "ddprun/plugin/sharding.h"
#include "ddprun/plugin/state.h"
#include "ddprun/plugin/strategy.h"

namespace ddprun {
namespace {

/// Drives the Reducer as torch.nn.parallel.DistributedDataParallel does with its default options.
/// The Reducer has hooks of its own in autograd: it copies each gradient, already divided by the
/// number of ranks, into a bucket, all-reduces the bucket when it is full, and copies it back
/// before backward returns.
class TorchDdp final : public Strategy, public UnitListener {
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
    if (run.dtypes.reduce != run.dtypes.model) {
      return Refusal{
          .reason = "the Reducer exchanges gradients in the dtype of the parameters",
          .expected = std::string("gradients that travel in ") + at::toString(run.dtypes.model),
          .hint = "leave `reduce_dtype` out, or take another strategy"};
    }
    return refuse_captured_steps(
        run, "the Reducer takes times of its own in its first ten steps, which cannot be captured");
  }

  void setup(StrategyContext& context) override {
    Strategy::setup(context);
    make_reducer({});
    // The Reducer's buckets are known at run time only.
    deviations(context).plan_anew(buckets());
    listen(context, *this);
  }

  /// Before the forward of a micro-batch that will synchronize. Without this the Reducer's hooks
  /// let gradients accumulate.
  void before_forward(MicroBatch micro_batch) override {
    if (!micro_batch.last()) return;
    reducer_->prepare_for_forward();
    const bool dry = deviations(*context_).parameter(0).is_meta();
    const bool rebuilt = !dry && reducer_->rebuild_buckets();
    if (rebuilt || plan_has_rebuild_) {
      auto planned = buckets();
      if (rebuilt) add_rebuild(planned);
      deviations(*context_).plan_anew(std::move(planned));
      plan_has_rebuild_ = rebuilt;
      rebuilt_ = rebuilt_ || rebuilt;
    }
    reducer_->prepare_for_backward({});
  }

  /// The Reducer waits for its buckets at the end of backward.
  void finish_backward() override {}

  /// What lies in which bucket decides in which order gloo adds.
  void declare_state(State& state) override {
    at::Tensor order = rebuilt_ ? bucket_order() : at::Tensor();
    state.tensor("buckets", order);
    if (rebuilt_ || !order.defined()) return;
    make_reducer(buckets_of(order));
    deviations(*context_).plan_anew(buckets());
  }

 private:
  using Buckets = std::vector<std::vector<std::size_t>>;

  /// In registration order, as DistributedDataParallel passes them.
  std::vector<at::Tensor> parameters() const {
    std::vector<at::Tensor> out;
    for (int index = context_->layout().count() - 1; index >= 0; --index) {
      out.push_back(deviations(*context_).parameter(index));
    }
    return out;
  }

  /// (parameters + buckets) int64: each bucket's parameters, by their numbers, and an end.
  at::Tensor bucket_order() const {
    std::vector<std::int64_t> order;
    const std::vector<at::Tensor> all = parameters();
    for (const auto& bucket : reducer_->get_grad_buckets(/*return_zero_tensors=*/true)) {
      for (const at::Tensor& parameter : bucket.getParameters()) {
        const auto found = std::ranges::find_if(
            all, [&](const at::Tensor& each) { return each.is_same(parameter); });
        order.push_back(found - all.begin());
      }
      order.push_back(kEnd);
    }
    return at::tensor(order, at::kLong);
  }

  static Buckets buckets_of(const at::Tensor& order) {
    Buckets out(1);
    for (std::int64_t i = 0; i < order.numel(); ++i) {
      const auto index = order[i].item<std::int64_t>();
      if (index != kEnd) {
        out.back().push_back(static_cast<std::size_t>(index));
      } else if (i + 1 < order.numel()) {
        out.emplace_back();
      }
    }
    return out;
  }

  /// Without `first_buckets` all gradients begin in one bucket, whose order does not matter. After
  /// the first step the Reducer cuts buckets by the sizes below, in the order in which gradients
  /// came.
  void make_reducer(Buckets first_buckets) {
    const ParameterLayout& layout = context_->layout();
    std::vector<at::Tensor> all = parameters();
    std::unordered_map<std::size_t, std::string> names;
    for (int index = layout.count() - 1; index >= 0; --index) {
      names.emplace(names.size(), layout.name(index));
    }
    if (all.front().is_meta()) first_buckets = later_buckets(all);
    if (first_buckets.empty()) {
      first_buckets.emplace_back(all.size());
      std::iota(first_buckets.front().begin(), first_buckets.front().end(), 0);
    }
    const std::vector<bool> no_sparse_gradients(all.size(), false);
    reducer_.reset();  // its hooks leave before others come
    reducer_ = std::make_unique<c10d::Reducer>(
        std::move(all), std::move(first_buckets), as_c10d(context_->group()), no_sparse_gradients,
        to_bytes(bucket_mb_),
        /*find_unused_parameters=*/false,
        // PyTorch's default as well. With it, .grad stays the view of the flat gradient buffer, and
        // the bucket is copied into that.
        /*gradient_as_bucket_view=*/false, std::move(names), to_bytes(first_bucket_mb_),
        /*skip_all_reduce_unused_params=*/false, /*use_python_reducer=*/false,
        std::vector<std::int64_t>{});
  }

  /// On tensors without values ranks cannot tell each other where the buckets are, so they lie from
  /// the start as after the first step, in the order of backward.
  Buckets later_buckets(const std::vector<at::Tensor>& parameters) const {
    const auto count = static_cast<std::int64_t>(parameters.size());
    std::vector<std::int64_t> indices;
    for (std::int64_t i = 0; i < count; ++i) indices.push_back(count - 1 - i);
    return std::get<0>(c10d::compute_bucket_assignment_by_size(
        {parameters.rbegin(), parameters.rend()},
        {static_cast<std::size_t>(to_bytes(first_bucket_mb_)),
         static_cast<std::size_t>(to_bytes(bucket_mb_))},
        {}, indices));
  }

  /// One all-reduce for each bucket.
  std::vector<PlannedCollective> buckets() const {
    std::vector<PlannedCollective> planned;
    for (const auto& bucket : reducer_->get_grad_buckets(/*return_zero_tensors=*/false)) {
      planned.push_back(
          {CollectiveKind::all_reduce, static_cast<std::int64_t>(bucket.getBuffer().nbytes())});
    }
    return planned;
  }

  /// In the second step rank 0 tells the others its buckets: the parameters' indices and the number
  /// of buckets, then the sizes of the buckets.
  void add_rebuild(std::vector<PlannedCollective>& planned) const {
    constexpr auto kIndexBytes = static_cast<std::int64_t>(sizeof(std::int32_t));
    const auto buckets = static_cast<std::int64_t>(planned.size());
    planned.push_back({CollectiveKind::broadcast, (context_->layout().count() + 1) * kIndexBytes});
    planned.push_back({CollectiveKind::broadcast, buckets * kIndexBytes});
  }

  static std::int64_t to_bytes(double mebibytes) {
    return static_cast<std::int64_t>(mebibytes * 1024 * 1024);
  }

  double bucket_mb_ = 25.0;
  double first_bucket_mb_ = 1.0;
  std::unique_ptr<c10d::Reducer> reducer_;
  bool plan_has_rebuild_ = false;  // that of the step under way
  bool rebuilt_ = false;           // in some step
  static constexpr std::int64_t kEnd = -1;
};

}  // namespace
}  // namespace ddprun

DDPRUN_STRATEGY(ddprun::TorchDdp, "torch_ddp",
                "PyTorch's own DistributedDataParallel reducer (c10d::Reducer)", "1.0")
