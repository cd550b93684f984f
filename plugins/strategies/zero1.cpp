// Strategy "zero1": each rank updates a part of the parameters (Rajbhandari et al., SC 2020,
// section 5.1: optimizer state partitioning; CS336 assignment 2, section 3).
#include "ddprun/plugin/export.h"
#include "ddprun/plugin/options.h"
#include "ddprun/plugin/sharding.h"
#include "ddprun/plugin/strategy.h"

namespace ddprun {

/// Ranks cut each bucket of gradients into equal slices. A bucket is reduce-scattered during
/// backward, so each rank has the mean of its slice. It updates that slice, and while it updates
/// the next, all ranks gather the parameters of the one before; or they gather in the next forward,
/// before a unit is used. What travels is as much as an all-reduce sends, but moments and updates
/// are a rank's share alone. Buckets are made of whole units, in the order of backward.
class Zero1 final : public Strategy, public UnitListener {
 public:
  void declare_options(Options& options) override {
    options.option(
        "bucket_mb", &bucket_mb_,
        "size at which a bucket of whole units closes, in MiB (2^20 bytes); 0: each unit "
        "is a bucket",
        {.min = 0.0});
    options.option("gather_under_forward", &gather_under_forward_,
                   "let parameters travel under the next forward, which waits before a unit for "
                   "its bucket, instead of at the end of the step");
  }

  Plan plan(const ParameterLayout& layout, int rank) const override {
    Plan plan{.holding = {.gathered_in_forward = gather_under_forward_}, .reports_ranges = true};
    for (const auto& [first, last] : cut(layout)) {
      const Range range = range_of(layout, first, last);
      plan_reduce_scatter(plan, layout, range);
      plan_gather(plan, layout, range, gather_under_forward_ ? PlannedIn::step : PlannedIn::update);
      plan.holding.owned.push_back(layout.slice(range, rank));
    }
    plan_gather_norms(plan, layout);
    return plan;
  }

  void setup(StrategyContext& context) override {
    Strategy::setup(context);
    const ParameterLayout& layout = context.layout();
    bucket_of_unit_.resize(layout.units().size());
    for (const auto& [first, last] : cut(layout)) {
      const Range range = range_of(layout, first, last);
      const int gradients = layout.units()[last].last + 1 - layout.units()[first].first;
      for (int unit = last; unit <= first; ++unit) {
        bucket_of_unit_[unit] = static_cast<int>(buckets_.size());
      }
      buckets_.push_back({.label = "bucket " + std::to_string(buckets_.size()),
                          .range = range,
                          .own = slices(context).own(range),
                          .count = gradients,
                          .missing = gradients});
    }
    listen(context, *this);
  }

  void before_forward(MicroBatch micro_batch) override {
    if (micro_batch.first()) old_ = gather_under_forward_;  // a step begins
  }

  void before_unit(Pass pass, int unit) override {
    if (pass == Pass::backward) return;
    if (std::exchange(old_, false)) {  // the last bucket is used first
      for (auto bucket = buckets_.rbegin(); bucket != buckets_.rend(); ++bucket) send(*bucket);
    }
    buckets_[bucket_of_unit_[unit]].gathered.wait();
  }

  void on_gradient(int index) override {
    --buckets_[bucket_of_unit_[context_->layout().unit_of(index)]].missing;
    while (started_ < buckets_.size() && buckets_[started_].missing == 0) start_next();
  }

  void finish_backward() override {
    while (started_ < buckets_.size()) start_next();
    for (Bucket& bucket : buckets_) {
      bucket.reduced.wait();
      bucket.updated = context_->range_ready(bucket.own);
      if (bucket.updated) send_now_or_later(bucket);
      bucket.missing = bucket.count;
    }
    started_ = 0;
  }

  void update() override {
    for (Bucket& bucket : buckets_) {
      if (!bucket.updated) {
        slices(*context_).update(bucket.own);
        send_now_or_later(bucket);
      }
      bucket.updated = false;
    }
    Transfer norms = slices(*context_).gather_norms();
    for (Bucket& bucket : buckets_) bucket.gathered.wait();
    norms.wait();
  }

 private:
  struct Bucket {
    std::string label;
    Range range;
    Range own;        // this rank's slice
    int count = 0;    // gradients in it
    int missing = 0;  // of these, not yet final in this step
    bool updated = false;
    Transfer reduced = {};
    Transfer gathered = {};
  };

  /// The first and the last unit of each bucket in the order of backward, so first >= last. Units
  /// of a bucket have one dtype, in which it is gathered.
  std::vector<std::pair<int, int>> cut(const ParameterLayout& layout) const {
    std::vector<std::pair<int, int>> buckets;
    int first = static_cast<int>(layout.units().size()) - 1;
    for (int unit = first; unit >= 0; --unit) {
      const auto bytes = static_cast<double>(layout.gradient_bytes(range_of(layout, first, unit)));
      const bool alike = unit > 0 && layout.units()[unit - 1].dtype == layout.units()[unit].dtype;
      if (bytes < bucket_mb_ * 1048576.0 && alike) continue;
      buckets.emplace_back(first, unit);
      first = unit - 1;
    }
    return buckets;
  }

  static Range range_of(const ParameterLayout& layout, int first, int last) {
    return {layout.units()[first].range.begin, layout.units()[last].range.end};
  }

  void start_next() {
    Bucket& bucket = buckets_[started_++];
    bucket.reduced = slices(*context_).reduce_scatter_gradients(bucket.range, bucket.label);
  }

  /// The bucket was updated.
  void send_now_or_later(Bucket& bucket) {
    old_ = gather_under_forward_;
    if (!old_) send(bucket);
  }

  void send(Bucket& bucket) {
    bucket.gathered = slices(*context_).gather_parameters(bucket.range, bucket.label);
  }

  double bucket_mb_ = 0.0;
  bool gather_under_forward_ = false;
  bool old_ = false;  // what the model would read, until the buckets are gathered
  std::vector<Bucket> buckets_;
  std::vector<int> bucket_of_unit_;
  std::size_t started_ = 0;  // buckets of this step whose reduction is under way
};

}  // namespace ddprun

DDPRUN_STRATEGY(ddprun::Zero1, "zero1",
                "each rank updates a slice of the parameters and sends it to the others", "1.2")
