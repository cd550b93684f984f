// Compares the model's tensors with what they were.
#include "ddprun/parallel/parameter_watch.h"

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
               .hint = "another DataParallel of the same model trains other parameters"});
}

[[noreturn]] void refuse_lost_write(const std::string& name) {
  throw Error({.what = "a parameter was written where the value is lost",
               .where = kForward,
               .got = "a write to " + name + ", of which the model reads a copy",
               .expected = "parameters that the optimizer alone updates",
               .hint = "set values before DataParallel is made"});
}

/// Whether what the model reads is what the optimizer updates.
bool updated_there(const FlatBuffers& buffers, int index) {
  return buffers.holding().parameters != Placement::sharded &&
         buffers.parameter(index).const_data_ptr() ==
             buffers.parameters(buffers.range(index)).const_data_ptr();
}

}  // namespace

void ParameterWatch::begin(const FlatBuffers& trained, const FlatBuffers* frozen) {
  for (const FlatBuffers* const buffers : {&trained, frozen}) {
    for (int index = 0; buffers != nullptr && index < buffers->count(); ++index) {
      const at::Tensor& parameter = buffers->parameter(index);
      all_.push_back({.buffers = buffers,
                      .index = index,
                      .trained = buffers == &trained,
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
    if (written && !updated_there(*each.buffers, each.index)) refuse_lost_write(name);
  }
}

}  // namespace ddprun
