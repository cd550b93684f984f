// A precision that computes in another dtype than it declares, if its options say so: the proof's
// tests.
#include "ddprun/plugin/export.h"
#include "ddprun/plugin/options.h"
#include "ddprun/plugin/parts/autocast.h"
#include "ddprun/plugin/precision.h"

namespace ddprun::planted {

class PlantedPrecision final : public Precision {
 public:
  void declare_options(Options& options) override {
    options.option("declares", &declares_, "the dtype of the products, as told");
    options.option("computes", &computes_, "the dtype of the products, in fact");
  }
  PrecisionDtypes dtypes() const override { return {.buffers = {.compute = dtype_of(declares_)}}; }
  std::unique_ptr<Guard> forward_guard() override {
    if (computes_ == ReduceDtype::float32) return nullptr;
    return std::make_unique<AutocastGuard>(c10::kCPU, dtype_of(computes_));
  }

 private:
  ReduceDtype declares_ = ReduceDtype::float32;
  ReduceDtype computes_ = ReduceDtype::float32;
};

}  // namespace ddprun::planted

DDPRUN_PRECISION(ddprun::planted::PlantedPrecision, TEST_NAME, TEST_SUMMARY, "1.0")
