// What differs between the versions of LibTorch that ddprun builds with, 2.11 to 2.15: each
// difference with its version and its reason. No other file asks for the version.
//
// What else ddprun takes from headers that are not PyTorch's public API, and that may change:
// - autograd's nodes, engine, hooks and saved variables (torch/csrc/autograd/, but no autograd.h);
// - c10d's backends, stores, ProcessGroup and Reducer (torch/csrc/distributed/c10d/); since 2.14
//   `_allgather_base` and `_reduce_scatter_base` are old names of all_gather_single and
//   reduce_scatter_single, and each calls the other, so the old ones serve all versions;
// - autocast's state (ATen/autocast_mode.h), dispatch keys (c10/core/impl/LocalDispatchKeySet.h);
// - on CUDA, memory snapshots and the pluggable allocator (torch/csrc/cuda/).
// Of TCPStore nothing is included: comm/store/store_protocol.h has its wire protocol.
#pragma once

#include <torch/csrc/autograd/function.h>
#include <torch/headeronly/version.h>

#include <memory>
#include <utility>

namespace ddprun {

#if TORCH_VERSION_MAJOR == 2 && TORCH_VERSION_MINOR < 13
/// How autograd holds its nodes. Until 2.12 a deleter keeps the end of a long graph from
/// overflowing the stack; since 2.13 the nodes are c10's own counted objects, which see to that.
template <typename Node>
using NodePointer = std::shared_ptr<Node>;
template <typename Node>
using WeakNodePointer = std::weak_ptr<Node>;

template <typename Node, typename... Arguments>
NodePointer<Node> new_node(Arguments&&... arguments) {
  return NodePointer<Node>(new Node(std::forward<Arguments>(arguments)...),
                           torch::autograd::deleteNode);
}
#else
template <typename Node>
using NodePointer = c10::intrusive_ptr<Node>;
template <typename Node>
using WeakNodePointer = c10::weak_intrusive_ptr<Node>;

template <typename Node, typename... Arguments>
NodePointer<Node> new_node(Arguments&&... arguments) {
  return c10::make_intrusive<Node>(std::forward<Arguments>(arguments)...);
}
#endif

}  // namespace ddprun
