// Goes through a forward's graph, from the loss to the parameters.
#include "ddprun/parallel/unit_reads.h"

#include <ATen/SequenceNumber.h>
#include <ATen/record_function.h>
#include <c10/core/GradMode.h>
#include <fmt/format.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/accumulate_grad.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <bit>
#include <unordered_set>

#include "ddprun/base/error.h"
#include "ddprun/base/ranges.h"

namespace ddprun {

using torch::autograd::Node;

UnitReads::UnitReads(const FlatBuffers& buffers)
    : buffers_(buffers),
      stays_(buffers.holding().parameters != Placement::sharded ||
             buffers.holding().place_for_each_unit || buffers.units().size() <= 2),
      times_(buffers.units().size()) {
  for (int index = 0; index < buffers.count(); ++index) {
    index_of_.emplace(buffers.parameter(index).unsafeGetTensorImpl(), index);
  }
}

void UnitReads::forward_begins() {
  for (auto& each : times_) each.clear();
  looks_ = buffers_.gathers() && c10::GradMode::is_enabled() && std::has_single_bit(++forwards_);
}

void UnitReads::begin(int unit) {
  if (looks_) times_[unit].push_back({.begin = at::sequence_number::peek()});
}

void UnitReads::end(int unit) {
  if (looks_) times_[unit].back().end = at::sequence_number::peek();
}

int UnitReads::parameter_at(const Node& node) const {
  const auto* const leaf = dynamic_cast<const torch::autograd::AccumulateGrad*>(&node);
  if (leaf == nullptr) return -1;
  const auto found = index_of_.find(leaf->variable.unsafeGetTensorImpl());
  return found == index_of_.end() ? -1 : found->second;
}

bool UnitReads::is_there(int index, std::uint64_t node) const {
  const int number = buffers_.unit_of(index);
  const Unit& unit = buffers_.units()[number];
  if (contains(unit.norms, index)) return true;  // sent with the update
  const bool stays = stays_ || unit.used_elsewhere;
  return std::ranges::any_of(times_[number], [&](const Time& time) {
    return time.begin <= node && (stays || node < time.end);
  });
}

void UnitReads::check(const at::Tensor& loss) const {
  if (!looks_ || !loss.defined() || !loss.grad_fn()) return;
  const std::uint64_t thread = at::RecordFunction::currentThreadId();
  std::vector<const Node*> to_visit = {loss.grad_fn().get()};
  std::unordered_set<const Node*> seen;
  while (!to_visit.empty()) {
    const Node* const node = to_visit.back();
    to_visit.pop_back();
    for (const torch::autograd::Edge& edge : node->next_edges()) {
      const Node* const next = edge.function.get();
      if (next == nullptr) continue;
      if (const int index = parameter_at(*next); index < 0) {
        if (seen.insert(next).second) to_visit.push_back(next);
      } else if (node->thread_id() == thread && !is_there(index, node->sequence_nr())) {
        refuse(index, *node);
      }
    }
  }
}

void UnitReads::refuse(int index, const Node& reader) const {
  const Unit& unit = buffers_.units()[buffers_.unit_of(index)];
  throw Error({.what = "the model reads a parameter outside its unit",
               .where = "DataParallel::forward()",
               .got = fmt::format("{} of unit '{}', read elsewhere by {}", buffers_.name(index),
                                  unit.name, reader.name()),
               .expected = "a parameter read within ddp.unit() of its own unit: it is gathered for "
                           "that, and elsewhere its place holds other values",
               .hint =
                   "read it there; or give both units one NamedTensor::unit; or give the tensor "
                   "twice, once in each unit, as a tied weight"});
}

}  // namespace ddprun
