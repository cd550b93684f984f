// Walks the buffers of what a rank owns, and what its plugins declare.
#include "ddprun/parallel/training_state.h"

#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/tensor.h>
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <utility>

#include "ddprun/base/error.h"
#include "ddprun/base/hash.h"
#include "ddprun/base/ranges.h"
#include "ddprun/base/text.h"
#include "ddprun/parallel/consensus.h"
#include "ddprun/plugin/called.h"
#include "ddprun/plugin/state.h"

namespace ddprun {

namespace {

/// Of each parameter that this rank has, whether it is the one that writes it.
std::vector<bool> writes(const DataParallel& data_parallel, const FlatBuffers& buffers) {
  const ProcessGroup& group = data_parallel.context().process_group();
  const auto count = static_cast<std::size_t>(buffers.count());
  if (ranks_differ(data_parallel)) return std::vector<bool>(count, group.rank() == 0);
  const int shards = data_parallel.buffers().holding().shards;
  if (!buffers.owns_all()) return std::vector<bool>(count, shards == 0 || group.rank() < shards);
  std::vector<std::int64_t> sizes;
  for (int index = 0; index < buffers.count(); ++index) {
    sizes.push_back(buffers.range(index).size());
  }
  return mapped(balanced(sizes, group.size()), [&](int writer) { return writer == group.rank(); });
}

/// Calls `visit(index, part)` for what this rank owns, parameter by parameter in registration
/// order.
void for_each_owned(const FlatBuffers& buffers,
                    const std::function<void(int index, Range part)>& visit) {
  for (int index = buffers.count() - 1; index >= 0; --index) {
    for (const Range& part : buffers.owned(buffers.range(index))) visit(index, part);
  }
}

void check_order(const FlatBuffers& buffers, int index) {
  const at::Tensor given = buffers.empty_like(index);
  if (given.is_contiguous()) return;
  throw Error({.what = "a parameter does not lie in memory in the order of its elements",
               .where = buffers.name(index),
               .got = fmt::format("shape {}, strides {}", shape_text(given.sizes()),
                                  shape_text(given.strides())),
               .expected = "a contiguous tensor",
               .hint = "give DataParallel parameter.contiguous()"});
}

void add_own_parameters(const DataParallel& data_parallel, const FlatBuffers& buffers,
                        SharedTensors& out) {
  const std::vector<bool> own = writes(data_parallel, buffers);
  for_each_owned(buffers, [&](int index, Range part) {
    out.own.push_back({buffers.name(index), part.begin - buffers.range(index).begin,
                       buffers.parameters(part), own[index]});
  });
}

void add_parameters(const DataParallel& data_parallel, const FlatBuffers& buffers,
                    SharedTensors& out) {
  for (int index = buffers.count() - 1; index >= 0; --index) {
    check_order(buffers, index);
    out.all.push_back({buffers.name(index), buffers.dtypes().parameters, buffers.sizes(index)});
  }
  add_own_parameters(data_parallel, buffers, out);
}

/// Calls `visit` for the buffers of what is trained, and for those of what is frozen.
void for_each_buffers(const DataParallel& data_parallel,
                      const std::function<void(const FlatBuffers&)>& visit) {
  visit(data_parallel.buffers());
  if (data_parallel.frozen() != nullptr) visit(data_parallel.frozen()->buffers());
}

/// What plugins declare, as tensors.
class StateList final : public State {
 public:
  StateList(std::string prefix, std::vector<NamedTensor>& out)
      : prefix_(std::move(prefix)), out_(out) {}

  void tensor(std::string_view name, at::Tensor& value) override {
    if (value.defined()) out_.push_back({.name = prefix_ + std::string(name), .tensor = value});
  }
  void number(std::string_view name, std::int64_t& value) override {
    out_.push_back({.name = prefix_ + std::string(name), .tensor = at::full({}, value, at::kLong)});
  }

 private:
  std::string prefix_;
  std::vector<NamedTensor>& out_;
};

void read_into(const std::string& name, const at::Tensor& place, const at::Tensor& value) {
  const bool there = value.defined();
  if (there && value.sizes() == place.sizes() && value.scalar_type() == place.scalar_type()) {
    place.copy_(value);
    return;
  }
  const auto words = [](const at::Tensor& tensor) {
    return fmt::format("{} {}", at::toString(tensor.scalar_type()), shape_text(tensor.sizes()));
  };
  throw Error({.what = "a checkpoint does not fit what the rank carries from step to step",
               .where = name,
               .got = there ? words(value) : "nothing of that name",
               .expected = words(place),
               .hint = "resume with the strategy, the precision and the options that wrote it"});
}

class StateReader final : public State {
 public:
  StateReader(std::string prefix, const Lookup& lookup)
      : prefix_(std::move(prefix)), lookup_(lookup) {}

  void tensor(std::string_view name, at::Tensor& value) override {
    const std::string whole = prefix_ + std::string(name);
    const at::Tensor read = lookup_(whole);
    if (value.defined()) {
      read_into(whole, value, read);
    } else {
      value = read;
    }
  }
  void number(std::string_view name, std::int64_t& value) override {
    const at::Tensor place = at::full({}, value, at::kLong);
    const std::string whole = prefix_ + std::string(name);
    read_into(whole, place, lookup_(whole));
    value = place.item<std::int64_t>();
  }

 private:
  std::string prefix_;
  const Lookup& lookup_;
};

/// The plugins declare what they carry to a State made by `make("strategy.")`.
template <class Make>
void declare(DataParallel& data_parallel, WhoseState whose, const Make& make) {
  const auto ask = [&](bool wanted, Plugin& plugin, const char* prefix) {
    if (!wanted) return;
    auto state = make(prefix);
    called(plugin, "declare_state()", [&] { plugin.declare_state(state); });
  };
  ask(whose.strategy, data_parallel.strategy(), kStrategyState);
  ask(whose.precision, data_parallel.precision(), kPrecisionState);
}

constexpr const char* kLayout = "strategy.layout";

/// Where parameters lie, and which: (begin, hash of the name) each. Strategies carry numbers of all
/// of them as they lie.
at::Tensor layout_of(const FlatBuffers& buffers) {
  std::vector<std::int64_t> out;
  for (int index = 0; index < buffers.count(); ++index) {
    out.push_back(buffers.range(index).begin);
    out.push_back(std::bit_cast<std::int64_t>(hash64(buffers.name(index))));
  }
  return at::tensor(out);
}

void check_layout(const FlatBuffers& buffers, const at::Tensor& saved) {
  if (!saved.defined() || at::equal(saved, layout_of(buffers))) return;
  throw Error(
      {.what = "a checkpoint does not fit what the rank carries from step to step",
       .where = kLayout,
       .got = "parameters that lay elsewhere",
       .expected = "parameters where they lay when it was written",
       .hint = "resume with the model.unit, the model.frozen and the precision of that run"});
}

/// Where ranks differ: all that this one has.
std::vector<NamedTensor> own_parts(DataParallel& data_parallel) {
  std::vector<NamedTensor> out;
  if (!ranks_differ(data_parallel)) return out;
  const auto add = [&](const char* prefix, const SharedTensors& tensors) {
    for (const TensorPart& part : tensors.own) {  // whole, as every rank owns everything
      out.push_back({.name = prefix + part.name, .tensor = part.values});
    }
  };
  SharedTensors parameters;  // as they lie in memory, which is read back into the same memory
  for_each_buffers(data_parallel, [&](const FlatBuffers& buffers) {
    add_own_parameters(data_parallel, buffers, parameters);
  });
  add("parameter.", parameters);
  add("moment.", shared_moments(data_parallel));
  return out;
}

}  // namespace

SharedTensors shared_parameters(DataParallel& data_parallel) {
  SharedTensors out;
  for_each_buffers(data_parallel, [&](const FlatBuffers& buffers) {
    add_parameters(data_parallel, buffers, out);
  });
  return out;
}

SharedTensors shared_moments(DataParallel& data_parallel) {
  const FlatBuffers& buffers = data_parallel.buffers();
  Optimizer& optimizer = data_parallel.optimizer();
  const std::vector<std::string> names = optimizer.moment_names();
  SharedTensors out;
  for (int index = buffers.count() - 1; index >= 0; --index) {
    for (const std::string& name : names) {
      out.all.push_back(
          {buffers.name(index) + "." + name, buffers.dtypes().moments, buffers.sizes(index)});
    }
  }
  const std::vector<bool> own = writes(data_parallel, buffers);
  Moments& moments = optimizer.moments();
  for_each_owned(buffers, [&](int index, Range owned) {
    moments.for_each_part(owned, [&](Range part, const Moments::Arrays& arrays, std::int64_t from) {
      for (std::size_t k = 0; k < names.size(); ++k) {
        out.own.push_back({buffers.name(index) + "." + names[k],
                           part.begin - buffers.range(index).begin,
                           arrays[k].narrow(0, from, part.size()), own[index]});
      }
    });
  });
  return out;
}

std::vector<NamedTensor> own_state(DataParallel& data_parallel) {
  std::vector<NamedTensor> out;
  declare(data_parallel, {}, [&](const char* prefix) { return StateList(prefix, out); });
  const bool as_they_lie = std::ranges::any_of(out, [](const NamedTensor& each) {
    return each.name.starts_with(kStrategyState) && each.tensor.is_floating_point();
  });
  if (as_they_lie) out.push_back({kLayout, layout_of(data_parallel.buffers())});
  for (NamedTensor& part : own_parts(data_parallel)) out.push_back(std::move(part));
  return out;
}

void check_carried_is_declared(DataParallel& data_parallel) {
  std::vector<NamedTensor> declared;
  declare(data_parallel, {}, [&](const char* prefix) { return StateList(prefix, declared); });
  const CarriedState& carried = data_parallel.context().carried();
  std::vector<at::Tensor> all = carried.tensors;
  if (carried.error_feedback.defined()) all.push_back(carried.error_feedback);
  for (const at::Tensor& tensor : all) {
    const bool known = std::ranges::any_of(declared, [&](const NamedTensor& each) {
      return each.tensor.const_data_ptr() == tensor.const_data_ptr();
    });
    if (known) continue;
    throw Error({.what = "a checkpoint would lose what the strategy carries from step to step",
                 .where = data_parallel.strategy().called,
                 .got = "a tensor of shape " + shape_text(tensor.sizes()) + " given to carries()",
                 .expected = "the same tensor in declare_state()",
                 .hint = "declare it there (ddprun/plugin/state.h), or save no checkpoints"});
  }
}

void read_own_state(DataParallel& data_parallel, WhoseState whose, const Lookup& lookup) {
  if (whose.strategy) check_layout(data_parallel.buffers(), lookup(kLayout));
  declare(data_parallel, whose, [&](const char* prefix) { return StateReader(prefix, lookup); });
  if (!whose.strategy || !ranks_differ(data_parallel)) return;
  for (const NamedTensor& part : own_parts(data_parallel)) {
    read_into(part.name, part.tensor, lookup(part.name));
  }
  FlatBuffers& buffers = data_parallel.buffers();
  buffers.parameters_changed(buffers.all());
  data_parallel.ranks_differ();
}

}  // namespace ddprun
