// Compares the weights before a step with those after it.
#include "ddprun/proof/lost_updates.h"

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>

#include <algorithm>
#include <functional>
#include <iterator>

#include "ddprun/comm/group/all_gather_values.h"
#include "ddprun/optim/parameter_groups.h"

namespace ddprun {

namespace {

constexpr std::int64_t kWholeTensor = 4096;
/// Prime, so that it goes through all columns of a matrix.
constexpr std::int64_t kStride = 31;

at::Tensor first_moment(Moments& moments, Range range) {
  std::vector<at::Tensor> parts;
  moments.for_each_part(range, [&](Range part, const Moments::Arrays& arrays, std::int64_t from) {
    parts.push_back(arrays[0].narrow(0, from, part.size()));
  });
  return parts.size() == 1 ? parts.front() : at::cat(parts);
}

}  // namespace

LostUpdateCounter::LostUpdateCounter(DataParallel& data_parallel, const OptimizerConfig& optimizer)
    : data_parallel_(data_parallel) {
  const FlatBuffers& buffers = data_parallel.buffers();
  const auto settings = group_settings(buffers.names(), optimizer);
  for (int index = 0; index < buffers.count(); ++index) {
    tensors_.push_back({.parameter = buffers.name(index), .weights = buffers.range(index).size()});
    if (settings[index].lr_scale == 0 || !counted_here(index)) continue;
    for (const Range& own : buffers.owned(buffers.range(index))) parts_.push_back({index, own});
  }
}

std::int64_t LostUpdateCounter::stride(int index) const {
  return tensors_[index].weights > kWholeTensor ? kStride : 1;
}

at::Tensor LostUpdateCounter::looked_at(const at::Tensor& of, const Part& part) const {
  const std::int64_t step = stride(part.index);
  const std::int64_t from = part.range.begin - data_parallel_.buffers().range(part.index).begin;
  return of.slice(0, (step - from % step) % step, std::nullopt, step);
}

void LostUpdateCounter::begin_step() {
  for (Part& part : parts_) {
    part.before = looked_at(data_parallel_.buffers().parameters(part.range), part).clone();
  }
}

void LostUpdateCounter::keep_gradients() {
  for (Part& part : parts_) {
    part.gradients = looked_at(data_parallel_.buffers().mean(part.range), part).ne(0);
  }
}

at::Tensor LostUpdateCounter::moves(const Part& part) const {
  Moments& moments = data_parallel_.optimizer().moments();
  if (moments.count() == 0) return part.gradients;
  // It is zero after the step where both were zero before.
  return part.gradients.logical_or(looked_at(first_moment(moments, part.range), part).ne(0));
}

bool LostUpdateCounter::counted_here(int index) const {
  const FlatBuffers& buffers = data_parallel_.buffers();
  const ProcessGroup& group = data_parallel_.context().process_group();
  if (buffers.owns_all()) return index % group.size() == group.rank();
  const int shards = buffers.holding().shards;
  return shards == 0 || group.rank() < shards;
}

std::optional<double> LostUpdateCounter::end_step(ProcessGroup& group, bool updated) {
  std::vector<std::int64_t> own(2 * tensors_.size());  // of each: looked at, lost
  for (Part& part : parts_) {
    if (updated) {
      const at::Tensor after = looked_at(data_parallel_.buffers().parameters(part.range), part);
      const at::Tensor moved = moves(part);
      own[2 * part.index] += moved.count_nonzero().item<std::int64_t>();
      own[2 * part.index + 1] +=
          moved.logical_and(part.before.eq(after)).count_nonzero().item<std::int64_t>();
    }
    part.before.reset();
    part.gradients.reset();
  }
  const auto all = all_gather_values(group, own);
  double looked_at = 0, lost = 0;
  for (std::size_t i = 0; i < tensors_.size(); ++i) {
    LostUpdates& tensor = tensors_[i];
    tensor.looked_at = tensor.lost = 0;
    for (const auto& of_rank : all) {
      tensor.looked_at += of_rank[2 * i];
      tensor.lost += of_rank[2 * i + 1];
    }
    if (tensor.looked_at == 0) continue;
    ++tensor.steps;
    if (tensor.lost == tensor.looked_at) ++tensor.steps_without_effect;
    const auto each = static_cast<double>(stride(static_cast<int>(i)));
    looked_at += each * static_cast<double>(tensor.looked_at);
    lost += each * static_cast<double>(tensor.lost);
  }
  if (looked_at == 0) return {};
  return 100 * lost / looked_at;
}

std::vector<LostUpdates> LostUpdateCounter::tensors() const {
  std::vector<LostUpdates> out;
  std::ranges::copy_if(tensors_, std::back_inserter(out),
                       [](const LostUpdates& tensor) { return tensor.lost > 0; });
  std::ranges::stable_sort(out, std::greater(), &LostUpdates::share);
  return out;
}

}  // namespace ddprun
