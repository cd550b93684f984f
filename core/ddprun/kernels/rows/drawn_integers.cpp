// Two hashes of 32 bits for each element, and what their bits say.
#include "ddprun/kernels/rows/drawn_integers.h"

#include <algorithm>
#include <bit>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ddprun/kernels/rows/drawn_integers.cpp"
#include <hwy/foreach_target.h>
// After foreach_target.h.
#include "ddprun/kernels/simd-inl.h"

#ifndef DDPRUN_DRAWN_INTEGERS
#define DDPRUN_DRAWN_INTEGERS
namespace ddprun::kernels {

/// Elements that share a key.
constexpr std::int64_t kChunk = 1 << 16;
constexpr std::uint32_t kStride = 0x9E3779B9U;
// The first hash: a size, two signs, two micro-batches, the unit. The second: a size, the other
// rank.
constexpr int kSizeBits = 24, kSign = 24, kMicroBatch = 26, kUnit = 28;

constexpr float kSmallestNormal = 0x1p-126F;

/// Wellons 2018, "lowbias32".
constexpr std::uint32_t mix(std::uint32_t x) {
  x = (x ^ x >> 16) * 0x7FEB352DU;
  x = (x ^ x >> 15) * 0x846CA68BU;
  return x ^ x >> 16;
}

struct ChunkKeys {
  std::uint32_t first, second;
};

inline ChunkKeys keys_of(std::uint64_t key, std::int64_t chunk) {
  const auto low = static_cast<std::uint32_t>(key), high = static_cast<std::uint32_t>(key >> 32);
  const std::uint32_t first =
      mix(mix(low) + mix(high ^ kStride) + mix(static_cast<std::uint32_t>(chunk) * kStride));
  return {first, mix(first + high)};
}

/// Rank `place` of the round whose turn it is.
inline int rank_at(const IntegerDraw& draw, std::int64_t element) {
  return static_cast<int>((element + draw.first_rank) % draw.ranks);
}

}  // namespace ddprun::kernels
#endif

HWY_BEFORE_NAMESPACE();
namespace ddprun::kernels::HWY_NAMESPACE {

using Integers = hn::RebindToSigned<Floats>;
constexpr Integers kIntegers;
using Words = hn::Vec<Bits>;

HWY_INLINE Words mix(Words x) {
  x = hn::Mul(hn::Xor(x, hn::ShiftRight<16>(x)), hn::Set(kBits, 0x7FEB352DU));
  x = hn::Mul(hn::Xor(x, hn::ShiftRight<15>(x)), hn::Set(kBits, 0x846CA68BU));
  return hn::Xor(x, hn::ShiftRight<16>(x));
}

template <int kFrom>
HWY_INLINE Words bit(Words bits) {
  return hn::And(hn::ShiftRight<kFrom>(bits), hn::Set(kBits, 1U));
}

/// `rank` below twice the number of ranks.
HWY_INLINE Words wrapped(Words rank, Words ranks) {
  return hn::IfThenElse(hn::Lt(rank, ranks), rank, hn::Sub(rank, ranks));
}

enum class Which { all, of_rank, of_micro_batch };

/// Which contributions count: all, those of a rank, or its own in a micro-batch.
template <Which kWhich>
struct Counted {
  Words rank, micro_batch;

  HWY_INLINE Words operator()(Words value, Words of_rank, Words of_micro_batch) const {
    if constexpr (kWhich == Which::all) return value;
    Words other = hn::Xor(of_rank, rank);
    if constexpr (kWhich == Which::of_micro_batch) {
      other = hn::Or(other, hn::Xor(of_micro_batch, micro_batch));
    }
    return hn::IfThenElseZero(hn::Eq(other, hn::Zero(kBits)), value);
  }
};

/// Whose turn the elements from `begin` on are.
HWY_INLINE Words turns_from(const IntegerDraw& draw, std::int64_t begin) {
  HWY_ALIGN std::uint32_t turns[hn::MaxLanes(Bits())];
  for (std::size_t lane = 0; lane < hn::Lanes(kBits); ++lane) {
    turns[lane] = static_cast<std::uint32_t>(rank_at(draw, begin + static_cast<int>(lane)));
  }
  return hn::Load(kBits, turns);
}

/// With sign 1, -value.
HWY_INLINE Words signed_by(Words sign, Words value) {
  return hn::Add(hn::Xor(value, hn::Sub(hn::Zero(kBits), sign)), sign);
}

/// |x| * 2^-126. A product that is a denormal takes Intel's cores 150 cycles, these sums none: such
/// a number's bits are those behind 1.
HWY_INLINE Words times_smallest_normal(Vector size) {
  const Vector one = hn::Set(kFloats, 1.0F);
  const Words denormal = hn::Sub(hn::BitCast(kBits, hn::Add(size, one)), hn::BitCast(kBits, one));
  const Words normal = hn::Sub(hn::BitCast(kBits, size), hn::Set(kBits, 126U << 23));
  return hn::IfThenElse(hn::RebindMask(kBits, hn::Lt(size, one)), denormal, normal);
}

template <Which kWhich>
void sum_integers(const IntegerDraw& draw, std::int64_t begin, std::int64_t end, int rank,
                  int micro_batch, float* out) {
  const Words one = hn::Set(kBits, 1U);
  const Words ranks = hn::Set(kBits, static_cast<std::uint32_t>(draw.ranks));
  const Words others = hn::Sub(ranks, one);
  const Words sizes = hn::Set(kBits, (1U << draw.size_bits) - 1);
  const Words even_sizes = hn::AndNot(one, sizes), odd = hn::And(one, sizes);
  const Words batches = hn::Set(kBits, static_cast<std::uint32_t>(draw.micro_batches - 1));
  const Words exponent = hn::Set(kBits, static_cast<std::uint32_t>(127 + draw.unit_exponent));
  const Counted<kWhich> counted = {hn::Set(kBits, static_cast<std::uint32_t>(rank)),
                                   hn::Set(kBits, static_cast<std::uint32_t>(micro_batch))};
  const Words strides = hn::Mul(hn::Iota(kBits, 0U), hn::Set(kBits, kStride));  // of the lanes
  const float times = kWhich == Which::all ? 1.0F : static_cast<float>(draw.ranks);
  const Vector factor = hn::Set(kFloats, times);
  const Vector small_factor = hn::Set(kFloats, times * (draw.smallest / kSmallestNormal));
  const Words next = hn::Set(
      kBits, static_cast<std::uint32_t>(hn::Lanes(kBits)) % static_cast<std::uint32_t>(draw.ranks));
  for (std::int64_t from = begin; from < end;) {
    const std::int64_t chunk = from / kChunk;
    const std::int64_t to = std::min(end, (chunk + 1) * kChunk);
    const ChunkKeys keys = keys_of(draw.key, chunk);
    Words turn = turns_from(draw, from);
    for_vectors(from, to, [&](auto lanes, std::int64_t element) HWY_ATTR {
      const auto number = static_cast<std::uint32_t>(element - chunk * kChunk);
      const Words first = mix(hn::Add(strides, hn::Set(kBits, number * kStride + keys.first)));
      const Words second = mix(hn::Add(first, hn::Set(kBits, keys.second)));
      const Words size = hn::Add(one, hn::And(first, sizes));
      const Words other_size =
          hn::Add(one, hn::Or(hn::And(second, even_sizes), hn::And(first, odd)));
      const Words own = turn;
      turn = wrapped(hn::Add(turn, next), ranks);
      const Words step = hn::ShiftRight<8>(hn::Mul(hn::ShiftRight<kSizeBits>(second), others));
      const Words other = wrapped(hn::Add(hn::Add(own, one), step), ranks);
      const Words sum = hn::Add(counted(signed_by(bit<kSign>(first), size), own,
                                        hn::And(bit<kMicroBatch>(first), batches)),
                                counted(signed_by(bit<kSign + 1>(first), other_size), other,
                                        hn::And(bit<kMicroBatch + 1>(first), batches)));
      const Words halvings = hn::Add(hn::ShiftRight<kUnit>(first), hn::ShiftRight<kUnit>(first));
      const Vector usual = hn::BitCast(kFloats, hn::ShiftLeft<23>(hn::Sub(exponent, halvings)));
      const auto smallest = hn::RebindMask(
          kFloats, hn::Eq(hn::And(hn::Xor(first, hn::ShiftRight<3>(second)), hn::Set(kBits, 63U)),
                          hn::Zero(kBits)));
      const Vector value = hn::Mul(hn::ConvertTo(kFloats, hn::BitCast(kIntegers, sum)),
                                   hn::IfThenElse(smallest, small_factor, factor));
      const Vector tiny = hn::BitCast(kFloats, times_smallest_normal(hn::Abs(value)));
      store(hn::IfThenElse(smallest, hn::CopySign(tiny, value), hn::Mul(value, usual)),
            out + (element - begin), lanes);
    });
    from = to;
  }
}

void sum_drawn_integers(const IntegerDraw& draw, std::int64_t begin, std::int64_t end, int rank,
                        int micro_batch, float* out) {
  const bool each_batch = micro_batch == kEach || draw.micro_batches == 1;
  const auto sum = rank == kEach ? sum_integers<Which::all>
                   : each_batch  ? sum_integers<Which::of_rank>
                                 : sum_integers<Which::of_micro_batch>;
  sum(draw, begin, end, rank, micro_batch, out);
}

}  // namespace ddprun::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ddprun::kernels {

HWY_EXPORT(sum_drawn_integers);

void sum_drawn_integers(const IntegerDraw& draw, std::int64_t begin, std::int64_t end, int rank,
                        int micro_batch, float* out) {
  HWY_DYNAMIC_DISPATCH(sum_drawn_integers)(draw, begin, end, rank, micro_batch, out);
}

DrawnIntegers drawn_integers(const IntegerDraw& draw, std::int64_t element) {
  const std::int64_t chunk = element / kChunk;
  const ChunkKeys keys = keys_of(draw.key, chunk);
  const auto number = static_cast<std::uint32_t>(element - chunk * kChunk);
  const std::uint32_t first = mix(number * kStride + keys.first);
  const std::uint32_t second = mix(first + keys.second);
  const int sizes = (1 << draw.size_bits) - 1;
  const int size = 1 + (static_cast<int>(first) & sizes);
  // Both are even or both odd.
  const int other_size =
      1 + ((static_cast<int>(second & ~1U) | static_cast<int>(first & 1)) & sizes);
  const auto bit = [first](int from) { return static_cast<int>(first >> from & 1); };
  const auto step =
      static_cast<int>((second >> kSizeBits) * static_cast<std::uint32_t>(draw.ranks - 1) >> 8);
  DrawnIntegers drawn;
  const int rank = rank_at(draw, element);
  const auto contribution = [&](int which, int of_rank, int of_size) {
    return DrawnInteger{of_rank, bit(kMicroBatch + which) * (draw.micro_batches - 1),
                        of_size * (1 - 2 * bit(kSign + which))};
  };
  drawn.both = {contribution(0, rank, size),
                contribution(1, (rank + 1 + step) % draw.ranks, other_size)};
  const auto halvings = static_cast<int>(first >> kUnit) * 2;
  const auto exponent = static_cast<std::uint32_t>(127 + draw.unit_exponent - halvings);
  const bool denormal = ((first ^ second >> 3) & 63) == 0;
  drawn.unit = denormal ? draw.smallest : std::bit_cast<float>(exponent << 23);
  return drawn;
}

}  // namespace ddprun::kernels
#endif
