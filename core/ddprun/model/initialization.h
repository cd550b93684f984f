// Initial values of parameters: truncated normal, each parameter from its own counter-based stream.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>

namespace ddprun {

/// A float32 tensor of `shape` without values. A large one lies in huge pages: else page faults
/// would take a third as long as drawing the values.
at::Tensor empty_parameter(at::IntArrayRef shape);

/// A float32 tensor of `shape`, drawn from a normal distribution with mean 0 and standard deviation
/// `std` that is cut at 3 std (CS336 section 3.4.1). Element i depends on (seed, name, i) only: not
/// on threads, ranks or what was drawn before.
at::Tensor truncated_normal(at::IntArrayRef shape, double std, std::uint64_t seed,
                            const std::string& name);

}  // namespace ddprun
