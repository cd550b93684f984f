// A strategy that is right but for one fault, which its option `fault` plants: the proof's tests.
#include <ATen/Context.h>
#include <ATen/Functions.h>
#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>

#include <immintrin.h>
#include <sched.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <clocale>
#include <cmath>
#include <csignal>
#include <cstdlib>
#include <locale>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

#include "ddprun/base/error.h"
#include "ddprun/optim/flat_parts.h"
#include "ddprun/parallel/buffer_context.h"
#include "ddprun/plugin/export.h"
#include "ddprun/plugin/options.h"
#include "ddprun/plugin/strategy.h"

namespace ddprun::planted {

struct Comma final : std::numpunct<char> {
  char do_decimal_point() const override { return ','; }
};

/// One all-reduce for each gradient, after backward. A step is counted when the optimizer runs, so
/// the backwards of the proof count as part of the step that follows.
class Planted final : public Strategy, public UnitListener {
 public:
  void declare_options(Options& options) override {
    options.option("fault", &fault_, "what is wrong");
    options.option("rank", &rank_, "the only rank on which it is wrong; -1: all", {.min = -1});
    options.option("first", &first_, "the first step in which it is wrong", {.min = 0});
    options.option("last", &last_, "the last step in which it is wrong", {.min = 0});
  }

  Plan plan(const ParameterLayout& layout, int own_rank) const override {
    Plan plan{.reports_ranges = true};
    if (is("throw_in_plan")) throw std::runtime_error("the words of the plugin");
    if (is("beside_the_record")) return plan;
    if (owns_slices()) plan.holding.owned = {slice(layout, own_rank)};
    for (int i = 0; i < layout.count(); ++i) {
      plan.add(CollectiveKind::all_reduce, layout.gradient_bytes(layout.range(i)));
    }
    for (int rank = 0; owns_slices() && rank < layout.ranks(); ++rank) {
      plan.add(CollectiveKind::broadcast, slice(layout, rank).size() * 4);
    }
    return plan;
  }

  void setup(StrategyContext& context) override {
    context_ = &context;
    listen(context, *this);
    begin_equal();
    if (is("other_option")) last_ -= 1;
  }

  void before_forward(MicroBatch micro_batch) override {
    const bool first = micro_batch.first();
    if (first && last_values_.defined()) begin_late();
    if (first && wrong("other_weights")) context_->parameters(buffers().all()).mul_(2);
    if (!first && !checked() && wrong("drop_unless_checked")) gradients().zero_();
    const bool second = micro_batch.index == 1 && !micro_batch.last();
    if (second && wrong("drop_first_of_three")) gradients().zero_();
    if (micro_batch.index == 3 && wrong("drop_first_three")) gradients().zero_();
    if (!micro_batch.last()) return;
    std::exchange(late_, {}).wait();
    if (wrong("drop_micro_batch")) gradients().zero_();
    change_process();
    change_torch();
    if (wrong("zero_moments")) zero_moments();
    if (wrong("throw_before_forward")) throw std::runtime_error("the words of the plugin");
  }

  void after_unit(Pass pass, int /*unit*/) override {
    if (pass == Pass::forward && is("stale_forward")) end_late();
  }

  void on_gradient(int index) override {
    if (wrong("ready_too_early")) context_->range_ready(buffers().range(index));
    if (wrong("write_ahead")) write_ahead(index);
  }

  void finish_backward() override {
    const bool spares = checked();
    end_late();
    if (wrong("other_weights")) context_->parameters(buffers().all()).div_(2);
    if (wrong("beside_the_record")) return average_through_the_store();
    if (wrong("throw_text")) throw std::runtime_error("the words of the plugin");
    if (wrong("throw_number")) throw 7;
    for (int i = 0; i < buffers().count(); ++i) {
      const Range range = buffers().range(i);
      if (wrong("ready_before_reduced")) context_->range_ready(range);
      reduce(i);
      spoil(i);
      if (!wrong("ready_before_reduced")) context_->range_ready(range);
      if (wrong("ready_twice")) context_->range_ready(range);
    }
    if (wrong("halve_unless_checked") && !spares) gradients().mul_(0.5);
    if (wrong("write_padding")) write_padding();
    if (wrong("more_collectives")) core().process_group().barrier("planted");
  }

  void update() override {
    if (wrong("stale_forward") || wrong("stale_slices")) last_values_ = weights().clone();
    if (owns_slices()) {
      update_slices();
    } else if (!wrong("no_update")) {
      update_whole();
    }
    if (wrong("without_onednn_in_steps")) at::globalContext().setUserEnabledMkldnn(true);
    while (wrong("hang")) ::pause();
    if (wrong("sleep")) std::this_thread::sleep_for(std::chrono::milliseconds(100));
    if (wrong("work_later")) compute_for(std::chrono::milliseconds(20));
    if (wrong("work_always") && !worker_.joinable()) compute_for(std::chrono::hours(1));
    if (wrong("leave_open")) start_late();
    if (wrong("wait_later")) late_ = start_late();
    refuse_unknown();
    ++step_;
  }

 private:
  /// No plugin of others comes this far: faults may reach into the core.
  BufferContext& core() const { return dynamic_cast<BufferContext&>(*context_); }
  FlatBuffers& buffers() const { return core().buffers(); }
  at::Tensor gradients() const { return buffers().gradients(buffers().all()); }
  at::Tensor weights() const { return buffers().parameters(buffers().all()); }

  /// The integers of the proof are as large as 1, or NaN; gradients are not.
  bool checked() const { return !(gradients().abs().max().item<float>() <= 0.5); }

  bool is(std::string_view fault) const {
    known_ = known_ || fault == fault_;
    return fault == fault_;
  }
  bool wrong(std::string_view fault) const {
    return is(fault) && (rank_ < 0 || rank_ == context_->group().rank()) && step_ >= first_ &&
           step_ <= last_;
  }
  void refuse_unknown() const {
    if (is("nothing") || known_) return;
    throw Error({.what = "no such fault was planted in a step",
                 .where = "strategy planted",
                 .got = fault_,
                 .expected = "a fault that the strategy asks for",
                 .hint = "is it mistyped?"});
  }
  bool owns_slices() const {
    return is("clip_by_rank") || is("clip_by_rank_in_place") || is("stale_slices");
  }

  /// As if what the last update() sent were still on its way.
  void begin_late() {
    const Range mine = slice(buffers(), context_->group().rank());
    now_ = weights().clone();
    weights().copy_(std::exchange(last_values_, {}));
    if (owns_slices()) buffers().parameters(mine).copy_(part_of(now_, buffers().all(), mine));
  }
  void end_late() {
    if (now_.defined()) weights().copy_(std::exchange(now_, {}));
  }

  void change_process() {
    if (wrong("more_threads")) at::set_num_threads(at::get_num_threads() + 1);
    if (wrong("flush_denormals")) at::globalContext().setFlushDenormal(true);
    // Of SSE alone, which computes; std::fegetround() reads the other.
    if (wrong("round_to_zero")) _MM_SET_ROUNDING_MODE(_MM_ROUND_TOWARD_ZERO);
    if (wrong("locale")) std::setlocale(LC_ALL, "C.utf8");
    if (wrong("decimal_comma")) std::locale::global(std::locale(std::locale(), new Comma));
    if (wrong("working_directory") && ::chdir("/") != 0) std::abort();
    if (wrong("signals")) std::signal(SIGTERM, SIG_IGN);
    if (wrong("child") && child_ == 0) start_child();
    if (!wrong("more_cores")) return;
    cpu_set_t all;
    std::fill_n(reinterpret_cast<unsigned char*>(&all), sizeof all, 0xff);
    ::sched_setaffinity(0, sizeof all, &all);
  }

  /// It ends with this process.
  void start_child() {
    child_ = ::fork();
    if (child_ != 0) return;
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    while (true) ::pause();
  }

  void change_torch() {
    at::Context& torch = at::globalContext();
    if (wrong("deterministic")) torch.setDeterministicAlgorithms(true, false);
    if (wrong("float32_products")) torch.setFloat32MatmulPrecision("medium");
    if (wrong("without_onednn") || wrong("without_onednn_in_steps"))
      torch.setUserEnabledMkldnn(false);
  }

  void zero_moments() {
    for (const at::Tensor& each : core().optimizer().written_by_update(buffers().all())) {
      if (each.const_data_ptr() != weights().const_data_ptr()) each.zero_();
    }
  }

  void begin_equal() {
    if (is("no_broadcast")) return;
    if (is("wrong_root")) {
      const int last = context_->group().size() - 1;
      context_->group().broadcast(weights(), last, "wrong").wait();
      buffers().parameters_changed(buffers().all());
      return;
    }
    context_->broadcast_parameters();
    if (!is("broadcast_bfloat16")) return;
    weights().copy_(weights().to(at::kBFloat16));
    buffers().parameters_changed(buffers().all());
  }

  /// What the all-reduce of gradient `i` covers.
  void reduce(int i) {
    Range range = buffers().range(i);
    if (i == 1 && wrong("fewer_collectives")) return;
    if (i == 1 && wrong("shorter_collective")) range.end -= 16;
    const at::Tensor own = buffers().gradients(range).clone();
    lose_bits(buffers().gradients(range));
    const ReduceOp op = wrong("sum_for_mean") ? ReduceOp::sum : ReduceOp::avg;
    Work work = context_->group().all_reduce(buffers().gradients(range), op, buffers().name(i));
    if (wrong("write_on_the_way")) buffers().gradients(range).mul_(1);
    if (!wrong("no_wait")) work.wait();
    const bool bfloat16 = own.scalar_type() == at::kBFloat16;
    if ((i == 1 && wrong("skip_parameter")) || (i == 1 && bfloat16 && wrong("skip_in_bfloat16"))) {
      buffers().gradients(range).copy_(own);
    }
    if (wrong("off_by_one_range")) {
      buffers().gradients({range.begin, range.begin + 1}).copy_(own.narrow(0, 0, 1));
    }
  }

  /// No record has what travels there.
  void average_through_the_store() {
    const at::Tensor all = gradients();
    const std::string own(static_cast<const char*>(all.const_data_ptr()), all.nbytes());
    const auto texts = core().process_group().all_gather_object(own);
    all.zero_();
    for (const std::string& text : texts) {
      all.add_(at::from_blob(const_cast<char*>(text.data()), all.sizes(), all.options()));
    }
    all.div_(static_cast<double>(texts.size()));
  }

  /// What is done to a gradient before it is reduced.
  void lose_bits(at::Tensor gradient) {
    if (wrong("of_rank_0")) gradient.mul_(context_->group().rank() == 0 ? 2 : 0);
    if (wrong("drop_small")) gradient.masked_fill_(gradient.abs() < 9.9e-6, 0);
    if (wrong("drop_denormal")) gradient.masked_fill_(gradient.abs() < 0x1p-126, 0);
    if (wrong("round_to_bfloat16")) gradient.copy_(gradient.to(at::kBFloat16));
    if (wrong("round_to_23_bits")) gradient.view(at::kInt).bitwise_and_(~1);
  }

  /// What is done to the mean of gradient `i`.
  void spoil(int i) {
    const at::Tensor mean = buffers().gradients(buffers().range(i));
    if (wrong("halve")) mean.mul_(0.5);
    if (wrong("zero")) mean.zero_();
    if (i == 0 && wrong("negate")) mean.neg_();
    if (wrong("hide_not_finite")) mean.nan_to_num_();
    if (wrong("hide_nan")) mean.masked_fill_(mean.isnan(), 0);
    if (wrong("noise")) mean.mul_(1.0 + 1e-5);
    if (i == 0 && wrong("not_a_number")) mean.narrow(0, 0, 1).fill_(std::nanf(""));
    if (wrong("round_the_mean")) mean.copy_(mean.to(at::kBFloat16));
    if (i == 0 && wrong("stale")) {
      const at::Tensor last = std::exchange(last_mean_, mean.clone());
      if (last.defined()) mean.copy_(last);
    }
    if (i == 0 && wrong("shift")) mean.copy_(mean.roll(1));
    if (i == 0 && wrong("swap_elements")) {
      const at::Tensor third = mean.narrow(0, 3, 1).clone();
      mean.narrow(0, 3, 1).copy_(mean.narrow(0, 17, 1));
      mean.narrow(0, 17, 1).copy_(third);
    }
  }

  void write_padding() {
    for (int i = 0; i + 1 < buffers().count(); ++i) {
      buffers().gradients({buffers().range(i).end, buffers().range(i + 1).begin}).fill_(1);
    }
  }

  /// Where backward has not been yet, and layers keep what they saved.
  void write_ahead(int index) {
    for (int i = index + 1; i < buffers().count(); ++i) {
      buffers().gradients(buffers().range(i)).fill_(1);
    }
  }

  void update_whole() {
    if (wrong("halve_in_update")) gradients().mul_(0.5);
    if (wrong("clip_again"))
      gradients().mul_((gradients().norm().reciprocal() * 0.1).clamp_max(1.0));
    if (wrong("no_clip")) core().optimizer().scale_gradients({});
    if (wrong("learning_rate")) core().optimizer().begin_step(0.002);
    if (wrong("first_correction")) core().optimizer().set_updates(1);
    const at::Tensor values = weights().clone();
    update_as_told();
    const auto undo = [&](Range range) {
      buffers().parameters(range).copy_(values.narrow(0, range.begin, range.size()));
    };
    for (int i = 0; i < buffers().count(); ++i) {
      const bool norm = buffers().sizes(i).size() == 1;
      if (norm && wrong("no_update_of_norms")) undo(buffers().range(i));
      if (norm && wrong("no_decay_of_norms")) {
        const Range range = buffers().range(i);
        buffers().parameters(range).add_(values.narrow(0, range.begin, range.size()), 0.001 * 0.1);
      }
    }
    if (wrong("decay")) weights().mul_(1 - 1e-5);
    if (wrong("forget_moments")) {
      core().optimizer().written_by_update(buffers().range(0)).back().zero_();
    }
    if (wrong("half_an_update")) undo({0, buffers().all().end / 2});
    if (wrong("wrong_moments")) {
      core().optimizer().written_by_update(buffers().range(0)).back().mul_(2);
    }
  }

  void update_as_told() {
    for (int i = 0; i < buffers().count() && wrong("leave_out"); ++i) {
      const Range range = buffers().range(i);
      core().update({range.begin, range.end - 1});
    }
    if (wrong("leave_out")) return;
    const at::Tensor copy = buffers().compute_copy(buffers().copied());
    const at::Tensor before = copy.defined() ? copy.clone() : copy;
    context_->update_rest();
    if (wrong("stale_copy") && copy.defined()) copy.copy_(before);
    if (!wrong("drift")) return;
    buffers().parameters(buffers().range(0)).add_(1e-4);
    buffers().parameters_changed(buffers().range(0));
  }

  /// On a thread of its own, which the step does not wait for.
  void compute_for(std::chrono::nanoseconds time) {
    if (worker_.joinable()) worker_.join();
    worker_ = std::jthread([end = std::chrono::steady_clock::now() + time](std::stop_token stop) {
      while (std::chrono::steady_clock::now() < end && !stop.stop_requested()) {
      }
    });
  }

  Work start_late() {
    late_values_ = at::ones({1 << 22});
    return context_->group().all_reduce(late_values_, ReduceOp::sum, "late");
  }

  static Range slice(const ParameterLayout& layout, int rank) {
    const std::int64_t size = layout.ranks();
    const std::int64_t elements = layout.all().end;
    return {elements * rank / size, elements * (rank + 1) / size};
  }

  /// As a strategy that shards: each rank updates its slice and sends it to the others, but clips
  /// by the norm of the slice.
  void update_slices() {
    const Range mine = slice(buffers(), context_->group().rank());
    const at::Tensor norm = buffers().gradients(mine).norm();
    const at::Tensor factor = (norm.reciprocal() * 0.5).clamp_max(1.0).to(at::kFloat);
    if (wrong("clip_by_rank")) core().optimizer().scale_gradients({.factor = factor});
    if (wrong("clip_by_rank_in_place")) buffers().gradients(mine).mul_(factor);
    core().update(mine);
    for (int rank = 0; rank < context_->group().size(); ++rank) {
      context_->group()
          .broadcast(buffers().parameters(slice(buffers(), rank)), rank, "slice")
          .wait();
    }
    buffers().parameters_changed(buffers().all());
  }

  std::string fault_ = "nothing";
  std::int64_t rank_ = -1;
  std::int64_t first_ = 0;
  std::int64_t last_ = 1'000'000;
  mutable bool known_ = false;  ///< somebody asked for the fault
  std::int64_t step_ = 0;
  at::Tensor late_values_, last_mean_, last_values_, now_;
  Work late_;
  std::jthread worker_;
  pid_t child_ = 0;
};

}  // namespace ddprun::planted

DDPRUN_PLUGIN_AS(planted_planted, ddprun::planted::Planted, strategy, "planted", "planted", "1.0")
