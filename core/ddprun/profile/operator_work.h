// What a call of an operator computes and moves, by the shapes of its tensors.
#pragma once

#include <string>
#include <vector>

namespace at {
struct RecordFunction;
}

namespace ddprun {

/// Multiplications and additions of the call's matrix products. Of causal attention by one kernel
/// half the scores, as FlashAttention-2 counts them. 0: it has none, or is not known. From a start
/// callback with inputs.
double product_flops_of(const at::RecordFunction& call);
/// The same, and what a softmax computes: its maximum, differences, exponentials, sum and
/// quotients, five a value (backward: four).
double flops_of(const at::RecordFunction& call);

/// The tensors that a call is given.
struct GivenTensors {
  double bytes = 0;
  std::vector<const void*> storages = {};
  std::string dtype = {};  ///< "float32": of the first of floating-point numbers; empty: none
};
/// From a start callback with inputs.
GivenTensors given_tensors(const at::RecordFunction& call);

/// Bytes of the tensors that a call was given and of those that it made, each once. 0, if it only
/// looks at a tensor in another way, or gives memory that another operator writes to. From an end
/// callback.
double moved_bytes(const at::RecordFunction& call, const GivenTensors& given);

}  // namespace ddprun
