// The gradient of an embedding table: rows added where their ids say.
#include "ddprun/kernels/rows/embedding.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ddprun/kernels/rows/embedding.cpp"
#include <hwy/foreach_target.h>
// After foreach_target.h.
#include "ddprun/kernels/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ddprun::kernels::HWY_NAMESPACE {

void embedding_backward(std::int64_t rows, std::int64_t width, std::int64_t begin, std::int64_t end,
                        const float* dx, const std::int64_t* ids, float* gradient) {
  for (std::int64_t row = 0; row < rows; ++row) {
    const float* const from = dx + row * width;
    float* const to = gradient + ids[row] * width;
    for_vectors(begin, end, [=](auto lanes, std::int64_t i) HWY_ATTR {
      store(hn::Add(load(to + i, lanes), load(from + i, lanes)), to + i, lanes);
    });
  }
}

}  // namespace ddprun::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ddprun::kernels {

HWY_EXPORT(embedding_backward);

void embedding_backward(std::int64_t rows, std::int64_t width, std::int64_t begin, std::int64_t end,
                        const float* dx, const std::int64_t* ids, float* gradient) {
  HWY_DYNAMIC_DISPATCH(embedding_backward)(rows, width, begin, end, dx, ids, gradient);
}

}  // namespace ddprun::kernels
#endif
