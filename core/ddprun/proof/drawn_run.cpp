// Which seed a run draws from, where a drawn run of elements begins, and what differs there.
#include "ddprun/proof/drawn_run.h"

#include <ATen/TensorOperators.h>

#include <algorithm>
#include <cstring>
#include <random>
#include <string>

#include "ddprun/base/counter_hash.h"

namespace ddprun {

namespace {

/// Whether both hold the same bytes, so that nothing is left to count: what a run that is right
/// pays.
bool same_bytes(const at::Tensor& a, const at::Tensor& b) {
  return a.is_cpu() && b.is_cpu() && a.scalar_type() == b.scalar_type() && a.is_contiguous() &&
         b.is_contiguous() && a.nbytes() == b.nbytes() &&
         std::memcmp(a.const_data_ptr(), b.const_data_ptr(), a.nbytes()) == 0;
}

}  // namespace

std::uint64_t agreed_seed(std::optional<std::int64_t> given, ProcessGroup& group) {
  std::random_device device;
  const std::string own = std::to_string(given.value_or(device()));
  return std::stoull(group.all_gather_object(own).front());
}

Range drawn_run(Range part, std::uint64_t draw) {
  const std::int64_t size =
      std::min(part.size(), std::clamp<std::int64_t>(part.size() / 32, 16, 2048));
  const auto places = static_cast<std::uint64_t>(part.size() - size + 1);
  const std::int64_t begin = part.begin + static_cast<std::int64_t>(draw % places);
  return {begin, begin + size};
}

std::vector<Range> drawn_runs(const ParameterLayout& layout, std::uint64_t draw) {
  std::vector<Range> runs;
  for (int index = 0; index < layout.count(); ++index) {
    runs.push_back(
        drawn_run(layout.range(index), counter_hash(draw, static_cast<std::uint64_t>(index))));
  }
  return runs;
}

at::Tensor unequal(const at::Tensor& got, const at::Tensor& expected) {
  return expected.ne(got).logical_and(expected.eq(expected).logical_or(got.eq(got)));
}

// Without a tolerance nothing is widened: what is compared may be a whole model.
std::int64_t count_unequal(const at::Tensor& got, const at::Tensor& expected, double tolerance) {
  if (same_bytes(got, expected)) return 0;
  at::Tensor off = unequal(got, expected);
  if (tolerance > 0) {
    const at::Tensor wide = expected.to(at::kDouble);
    const at::Tensor near = (got.to(at::kDouble) - wide).abs().le(wide.abs().max() * tolerance);
    off = off.logical_and(near.logical_not());
  }
  return off.count_nonzero().item<std::int64_t>();
}

}  // namespace ddprun
