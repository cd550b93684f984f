// Where parameters lie, before there is any memory: units, slices, places that units share.
#include "ddprun/optim/parameter_layout.h"

#include <ATen/ops/zeros.h>

#include "ddprun/kernels/kernel_set.h"
#include "ddprun/optim/buffer_dtypes.h"
#include "ddprun/optim/buffer_places.h"
#include "ddprun/optim/flat_parts.h"
#include "ddprun/optim/named_tensor.h"
#include "support/matchers.h"

namespace ddprun {
namespace {

/// Odd sizes: an embedding, two blocks with a norm, a head.
std::vector<NamedTensor> model() {
  const auto of = [](const char* name, std::int64_t elements, const char* unit, bool norm = false) {
    return NamedTensor{name, at::zeros({elements}), unit, norm};
  };
  return {of("embedding", 77, "embedding", true),
          of("a.norm", 5, "a", true),
          of("a.w", 35, "a"),
          of("b.norm", 5, "b", true),
          of("b.w", 35, "b"),
          of("head", 77, "head")};
}

ParameterLayout layout(int ranks, KernelSet kernels = KernelSet::reference) {
  return ParameterLayout(model(), {.compute = at::kBFloat16}, kernels, ranks);
}

TEST(ParameterLayout, UnitsAreEqualSlicesAtAnyNumberOfRanks) {
  for (const int ranks : {1, 2, 3, 4, 5, 6, 7, 8, 11, 1024}) {
    const ParameterLayout parts = layout(ranks);
    std::int64_t end = parts.all().end;
    for (const Unit& unit : parts.units()) {  // from the back of the buffer
      EXPECT_EQ(unit.range.end, end) << ranks << " ranks, " << unit.name;
      end = unit.range.begin;
      EXPECT_EQ(unit.range.begin, parts.range(unit.first).begin);
      EXPECT_GE(unit.range.end, parts.range(unit.last).end);
      std::int64_t slice = unit.range.begin;
      for (int rank = 0; rank < ranks; ++rank) {
        EXPECT_EQ(parts.slice(unit.range, rank).begin, slice);
        EXPECT_EQ(slice % 16, 0) << "not on a cache line";
        slice = parts.slice(unit.range, rank).end;
      }
      EXPECT_EQ(slice, unit.range.end);
    }
    EXPECT_EQ(end, 0);
    EXPECT_EQ(parts.parameter_count(), 2 * 77 + 2 * 40);
  }
}

TEST(ParameterLayout, UnitsStandInTheOrderOfTheForwardPass) {
  const ParameterLayout parts = layout(2);
  ASSERT_EQ(parts.units().size(), 4U);
  EXPECT_EQ(parts.units()[0].name, "embedding");
  EXPECT_EQ(parts.units()[3].name, "head");
  EXPECT_EQ(parts.name(0), "head");
  EXPECT_EQ(parts.unit_of(0), 3);
  EXPECT_EQ(parts.name(parts.units()[1].first), "a.w");
  EXPECT_EQ(parts.name(parts.units()[1].last), "a.norm");
}

TEST(ParameterLayout, FusedKernelsReadNormsAndEmbeddingInFloat32) {
  const ParameterLayout operators = layout(2);
  EXPECT_FALSE(operators.has_copy());
  EXPECT_EQ(gather_dtype(operators, operators.all()), at::kFloat);
  EXPECT_TRUE(norms_of(operators).empty());
  const ParameterLayout fused = layout(2, KernelSet::fused);
  EXPECT_TRUE(fused.has_copy());
  const auto& units = fused.units();
  EXPECT_EQ(units[0].dtype, at::kFloat) << "the embedding";
  EXPECT_EQ(units[1].dtype, at::kBFloat16);
  EXPECT_EQ(norms_of(fused), (std::vector{units[1].last, units[2].last}));
  EXPECT_EQ(read_dtype(fused, units[1].last), at::kFloat);
  EXPECT_EQ(read_dtype(fused, units[1].first), at::kBFloat16);
  EXPECT_EQ(gather_dtype(fused, {units[2].range.begin, units[1].range.end}), at::kBFloat16);
  EXPECT_THROW(gather_dtype(fused, fused.all()), c10::Error) << "of two dtypes";
  EXPECT_EQ(fused.copied(), (Range{0, units[0].range.begin})) << "no product reads the embedding";
  EXPECT_EQ(operators.copied(), Range());
}

TEST(ParameterLayout, AUnitInTwoPlacesIsRefused) {
  auto parameters = model();
  parameters.back().unit = "a";
  EXPECT_THAT(test::error_of<ConfigError>(
                  [&] { ParameterLayout(parameters, {}, KernelSet::reference, 1); }),
              HasSubstr("the parameters of unit \"a\" do not follow each other"));
}

TEST(UnitPlaces, NeighboursNeverShareMemory) {
  const auto allocate = [](std::int64_t elements, const at::TensorOptions& options) {
    return at::zeros({elements}, options);
  };
  const std::vector<std::int64_t> bytes = {1000, 64, 128, 640, 100};
  const UnitPlaces ring(bytes, std::vector<bool>(bytes.size(), false), allocate,
                        at::TensorOptions());
  EXPECT_EQ(ring.bytes(), 1024 + 64) << "the two largest neighbours, in whole cache lines";
  for (int unit = 0; unit < 5; ++unit) {
    EXPECT_EQ(ring.place(unit).numel(), bytes[unit]);
    if (unit == 0) continue;
    ring.place(unit - 1).fill_(1);
    ring.place(unit).fill_(2);
    EXPECT_EQ(ring.place(unit - 1).sum().item<std::int64_t>(), bytes[unit - 1]);
  }
  EXPECT_EQ(UnitPlaces({100}, {false}, allocate, at::TensorOptions()).bytes(), 128);
  const UnitPlaces all(bytes, std::vector<bool>(bytes.size(), true), allocate, at::TensorOptions());
  EXPECT_EQ(all.bytes(), 1024 + 64 + 128 + 640 + 128);
  for (int unit = 0; unit < 5; ++unit) all.place(unit).fill_(unit + 1);
  for (int unit = 0; unit < 5; ++unit) {
    EXPECT_EQ(all.place(unit).sum().item<std::int64_t>(), (unit + 1) * bytes[unit]);
  }
}

TEST(BufferPlaces, HandOutWhatOnePartHoldsAndNothingElse) {
  BufferPlaces places;
  places.add({32, 48}, at::zeros({16}));
  EXPECT_TRUE(places.holds({40, 48}));
  EXPECT_EQ(places.view({40, 44}).numel(), 4);
  EXPECT_THAT(test::error_of([&] {
                places.view({40, 49});
              }),
              HasSubstr("does not hold these elements together"));
}

}  // namespace
}  // namespace ddprun
