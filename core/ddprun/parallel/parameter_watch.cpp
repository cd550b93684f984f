// Compares the model's tensors with what they were.
#include "ddprun/parallel/parameter_watch.h"

#include <cstring>
#include <utility>

#include "ddprun/base/error.h"

namespace ddprun {

namespace {

constexpr const char* kForward = "DataParallel::forward()";

[[noreturn]] void refuse_other_memory(const std::string& name) {
  throw Error({.what = "a parameter is no longer where DataParallel updates it",
               .where = kForward,
               .got = "other memory behind " + name +
                      ", as torch::load(), Module::to() and set_data() leave it",
               .expected = "the memory that DataParallel gave it",
               .hint =
                   "load, convert and move the model before DataParallel is made; copy_() under "
                   "torch::NoGradGuard sets values later"});
}

[[noreturn]] void refuse_other_role(const std::string& name, bool trained) {
  throw Error({.what = "requires_grad of a parameter was changed",
               .where = kForward,
               .got = name + (trained ? ", which requires none now" : ", which requires one now"),
               .expected = "what it was when DataParallel was made",
               .hint =
                   "set it back before forward(); another DataParallel of the same model trains "
                   "other parameters"});
}

[[noreturn]] void refuse_lost_write(const std::string& name) {
  throw Error({.what = "a parameter was written where the value is lost",
               .where = kForward,
               .got = "a write to " + name + ", of which the model reads a copy",
               .expected = "parameters that the optimizer alone updates",
               .hint = "set values before DataParallel is made"});
}

[[noreturn]] void refuse_written_gradient(const std::string& name, const char* where) {
  throw Error(
      {.what = "a gradient was written that is no gradient of the step",
       .where = where,
       .got = "another .grad of " + name + " than backward() left, as clip_grad_norm_() makes it",
       .expected = ".grad as it was: the optimizer reads other memory, or another rank's, "
                   "or scales it back",
       .hint = "step(lr, clip_norm) clips, by the norm over all ranks"});
}

[[noreturn]] void refuse_own_update(const std::string& name, const char* where) {
  throw Error({.what = "a parameter was updated where the value is lost, or differs between ranks",
               .where = where,
               .got = "a write to " + name + " after backward(), as torch::optim makes it",
               .expected = "step(), which updates from the mean of the gradients",
               .hint = "an optimizer of one's own needs a strategy whose ranks own everything, and "
                       "fp32, tf32 or bf16_mixed without reduce_dtype"});
}

/// Whether what the model reads is what the optimizer updates.
bool updated_there(const FlatBuffers& buffers, int index) {
  return buffers.holding().parameters != Placement::sharded &&
         buffers.parameter(index).const_data_ptr() ==
             buffers.parameters(buffers.range(index)).const_data_ptr();
}

}  // namespace

void ParameterWatch::begin(const FlatBuffers& trained, const FlatBuffers* frozen,
                           Writable writable) {
  writable_ = writable;
  for (const FlatBuffers* const buffers : {&trained, frozen}) {
    for (int index = 0; buffers != nullptr && index < buffers->count(); ++index) {
      const at::Tensor& parameter = buffers->parameter(index);
      const bool is_trained = buffers == &trained;
      const bool updated = updated_there(*buffers, index);
      all_.push_back(
          {.buffers = buffers,
           .index = index,
           .trained = is_trained,
           .updated = updated,
           .compared = is_trained && parameter.is_cpu() && !(writable.gradients && updated),
           .memory = parameter.const_data_ptr(),
           .version = parameter._version()});
    }
  }
}

void ParameterWatch::check() {
  for (Watched& each : all_) {
    const at::Tensor& parameter = each.buffers->parameter(each.index);
    const std::string& name = each.buffers->name(each.index);
    if (parameter.const_data_ptr() != each.memory) refuse_other_memory(name);
    if (parameter.requires_grad() != each.trained) refuse_other_role(name, each.trained);
    const bool written = std::exchange(each.version, parameter._version()) != each.version;
    if (written && !each.updated) refuse_lost_write(name);
  }
}

ParameterWatch::Sample ParameterWatch::sample_of(const at::Tensor& tensor) {
  if (!tensor.defined() || tensor.numel() == 0) return {};
  Sample sample{.memory = tensor.const_data_ptr()};
  const std::size_t size = tensor.element_size();  // of floats in 16 or 32 bits
  const std::int64_t middle = tensor.is_non_overlapping_and_dense() ? tensor.numel() / 2 : 0;
  const char* const bytes = static_cast<const char*>(sample.memory);
  std::memcpy(&sample.bits[0], bytes, size);
  std::memcpy(&sample.bits[1], bytes + static_cast<std::size_t>(middle) * size, size);
  return sample;
}

void ParameterWatch::backward_done() {
  sampled_ = true;
  for (Watched& each : all_) {
    if (!each.compared) continue;
    const at::Tensor& parameter = each.buffers->parameter(each.index);
    each.gradient = sample_of(parameter.grad());
    each.values = sample_of(parameter);
  }
}

void ParameterWatch::model_ran() {
  if (!sampled_) return;
  for (Watched& each : all_) {
    if (each.compared) each.values = sample_of(each.buffers->parameter(each.index));
  }
}

void ParameterWatch::check_end(const char* where, bool dropped) {
  if (!std::exchange(sampled_, false)) return;
  for (const Watched& each : all_) {
    if (!each.compared) continue;
    const at::Tensor& parameter = each.buffers->parameter(each.index);
    const std::string& name = each.buffers->name(each.index);
    const bool counts = each.updated && !dropped;
    if (writable_.parameters_rest && !counts && sample_of(parameter) != each.values) {
      refuse_own_update(name, where);
    }
    if (!writable_.gradients && sample_of(parameter.grad()) != each.gradient) {
      refuse_written_gradient(name, where);
    }
  }
}

}  // namespace ddprun
