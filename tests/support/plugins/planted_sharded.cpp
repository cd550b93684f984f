// A strategy that keeps everything in parts, and lets backward read other weights than forward, if
// its option `fault` says so: the proof's tests.
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
                   {.one_of = {"nothing", "backward_reads_others"}});
  }

  void before_unit(Pass pass, int unit) override {
    UnitSharding::before_unit(pass, unit);
    if (pass == Pass::forward || fault_ == "nothing") return;
    const c10::NoGradGuard no_grad;
    const FlatBuffers& buffers = dynamic_cast<BufferContext&>(*context_).buffers();
    const Unit& own = buffers.units()[unit];
    for (int index = own.first; index <= own.last; ++index) {
      for (const at::Tensor& read : buffers.read(index)) read.data().mul_(0.5);
    }
  }

 private:
  std::string fault_ = "nothing";
};

}  // namespace ddprun::planted

DDPRUN_PLUGIN_AS(planted_sharded, ddprun::planted::PlantedSharded, strategy, "planted_sharded",
                 "planted", "1.0")
