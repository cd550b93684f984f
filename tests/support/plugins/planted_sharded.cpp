// A strategy that keeps everything in parts, and lets backward read other weights than forward, or
// a step than the optimizer updates, if its option `fault` says so: the proof's tests.
#include <ATen/TensorOperators.h>
#include <c10/core/GradMode.h>

#include <string>

#include "ddprun/parallel/buffer_context.h"
#include "ddprun/plugin/export.h"
#include "ddprun/plugin/options.h"
#include "ddprun/plugin/parts/unit_sharding.h"

namespace ddprun::planted {

class PlantedSharded final : public UnitSharding {
 public:
  void declare_options(Options& options) override {
    UnitSharding::declare_options(options);
    options.option("fault", &fault_, "what is wrong",
                   {.one_of = {"nothing", "backward_reads_others", "training_reads_others"}});
  }

  void before_forward(MicroBatch micro_batch) override {
    UnitSharding::before_forward(micro_batch);
    training_ = fault_ == "training_reads_others";
  }

  void before_unit(Pass pass, int unit) override {
    UnitSharding::before_unit(pass, unit);
    const bool in_backward = fault_ == "backward_reads_others" && pass == Pass::backward;
    // The first unit is gathered anew in backward.
    if (in_backward || (training_ && unit == 0)) multiply(unit, 0.5);
  }

  void after_unit(Pass pass, int unit) override {
    if (training_ && unit == 0 && pass == Pass::backward) {
      multiply(unit, 2);
      training_ = false;
    }
    UnitSharding::after_unit(pass, unit);
  }

 private:
  /// What the model reads.
  void multiply(int unit, double factor) const {
    const c10::NoGradGuard no_grad;
    const FlatBuffers& buffers = dynamic_cast<BufferContext&>(*context_).buffers();
    const Unit& own = buffers.units()[unit];
    for (int index = own.first; index <= own.last; ++index) {
      for (const at::Tensor& read : buffers.read(index)) read.data().mul_(factor);
    }
  }

  std::string fault_ = "nothing";
  bool training_ = false;
};

}  // namespace ddprun::planted

DDPRUN_PLUGIN_AS(planted_sharded, ddprun::planted::PlantedSharded, strategy, "planted_sharded",
                 "planted", "1.0")
