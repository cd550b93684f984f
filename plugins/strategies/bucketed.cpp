// Strategy "bucketed": gradients in buckets, each all-reduced during backward once it is full (Li
// et al., VLDB 2020, section 3.2; CS336 assignment 2, section 2: overlapping bucketed gradients).
#include "ddprun/plugin/export.h"
#include "ddprun/plugin/options.h"
#include "ddprun/plugin/strategy.h"

namespace ddprun {

/// Few large collectives, as with "flat", that overlap with backward, as with "overlap". Buckets
/// are cut in the order of backward, as PyTorch's DistributedDataParallel does. A bucket closes
/// once its gradients reach the cap, so it may exceed the cap by most of its last gradient. Buckets
/// start in order on all ranks, as PyTorch's do. Each is one range of the gradient buffer, so
/// nothing is copied in or out.
class Bucketed final : public Strategy {
 public:
  void declare_options(Options& options) override {
    options.option("bucket_mb", &bucket_mb_,
                   "size at which a bucket closes, in MiB (2^20 bytes, as PyTorch's bucket_cap_mb)",
                   {.min = 0.0});
    options.option("first_bucket_mb", &first_bucket_mb_,
                   "the same for the first bucket, small so that communication starts early",
                   {.min = 0.0});
  }

  Plan plan(const ParameterLayout& layout, int /*rank*/) const override {
    Plan plan{.reports_ranges = true};
    for (const auto& [first, last] : cut(layout)) {
      plan.add(CollectiveKind::all_reduce, layout.gradient_bytes(layout.range(first, last)));
    }
    return plan;
  }

  void setup(StrategyContext& context) override {
    Strategy::setup(context);
    for (const auto& [first, last] : cut(context.layout())) {
      const Range range = context.layout().range(first, last);
      const int count = last + 1 - first;
      bucket_of_.insert(bucket_of_.end(), count, static_cast<int>(buckets_.size()));
      buckets_.push_back({"bucket " + std::to_string(buckets_.size()), range,
                          context.gradients(range), count, count});
    }
    works_.reserve(buckets_.size());
  }

  void on_gradient(int index) override {
    --buckets_[bucket_of_[index]].missing;
    while (works_.size() < buckets_.size() && buckets_[works_.size()].missing == 0) start_next();
  }

  void finish_backward() override {
    // A bucket lacks a gradient if this backward did not use a parameter; other ranks may have used
    // it.
    while (works_.size() < buckets_.size()) start_next();
    for (std::size_t i = 0; i < works_.size(); ++i) {
      works_[i].wait();
      context_->range_ready(buckets_[i].range);
    }
    works_.clear();
    for (Bucket& bucket : buckets_) bucket.missing = bucket.count;
  }

 private:
  struct Bucket {
    std::string label;
    Range range;
    at::Tensor gradients;  // a view of it, made once
    int count = 0;         // gradients in it
    int missing = 0;       // of these, not yet final in this step
  };

  /// The first and the last gradient of each bucket.
  std::vector<std::pair<int, int>> cut(const ParameterLayout& layout) const {
    std::vector<std::pair<int, int>> buckets;
    int first = 0;
    std::int64_t bytes = 0;
    for (int i = 0; i < layout.count(); ++i) {
      bytes += layout.gradient_bytes(layout.range(i));
      const double cap_mb = buckets.empty() ? first_bucket_mb_ : bucket_mb_;
      if (static_cast<double>(bytes) < cap_mb * 1048576.0 && i + 1 < layout.count()) continue;
      buckets.emplace_back(first, i);
      first = i + 1;
      bytes = 0;
    }
    return buckets;
  }

  void start_next() {
    const Bucket& bucket = buckets_[works_.size()];
    works_.push_back(context_->group().all_reduce(bucket.gradients, ReduceOp::avg, bucket.label));
  }

  double bucket_mb_ = 25.0;
  double first_bucket_mb_ = 1.0;
  std::vector<Bucket> buckets_;
  std::vector<int> bucket_of_;  // by gradient
  std::vector<Work> works_;     // of this step, one for each bucket started
};

}  // namespace ddprun

DDPRUN_STRATEGY(ddprun::Bucketed, "bucketed",
                "all-reduces of buckets of gradients, started during backward", "1.0")
