// Listens to operators, and adds up what they would compute and move.
#include "ddprun/dry/dry_device.h"

#include <ATen/record_function.h>

#include <algorithm>
#include <utility>

namespace ddprun {

void DryDevice::on_begin(const at::RecordFunction& call, bool node) {
  calls_.push_back({.node = node});
  if (node) return;
  calls_.back().given = given_tensors(call);
  work_.operations += product_flops_of(call);
}

void DryDevice::on_end(const at::RecordFunction& call) {
  if (calls_.empty()) return;  // it began before
  const Call ended = std::move(calls_.back());
  calls_.pop_back();
  const double moved = ended.node ? 0 : moved_bytes(call, ended.given);
  const double bytes = std::max(moved, ended.bytes_below);
  work_.bytes += bytes - ended.bytes_below;
  if (!calls_.empty()) calls_.back().bytes_below += bytes;
}

Mark DryDevice::mark() {
  marks_.push_back(work_);
  return static_cast<Mark>(marks_.size());
}

}  // namespace ddprun
