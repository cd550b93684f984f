// Each refusal, with the parameter's name.
#include "ddprun/optim/parameter_check.h"

#include <cstddef>
#include <string>
#include <unordered_set>
#include <utility>

#include "ddprun/base/error.h"

namespace ddprun {

namespace {

void refuse_if(bool wrong, ErrorText text) {
  if (!wrong) return;
  text.where = "the model's parameters";
  throw ConfigError(std::move(text));
}

void check(const NamedTensor& parameter, const at::Tensor& first) {
  const at::Tensor& tensor = parameter.tensor;
  const std::string name = "\"" + parameter.name + "\"";
  refuse_if(tensor.layout() != at::kStrided || tensor.scalar_type() != at::kFloat,
            {.what = "parameter " + name + " cannot move into a flat buffer",
             .got = tensor.toString(),
             .expected = "a dense float32 tensor",
             .hint = "precision plugins compute in other types and keep float32 parameters"});
  refuse_if(!tensor.is_leaf(),
            {.what = "parameter " + name + " is not a leaf of the autograd graph",
             .got = "the result of an operation",
             .expected = "a leaf, as module->parameters() holds",
             .hint = "detach() it, then requires_grad_()"});
  refuse_if(tensor.device() != first.device(),
            {.what = "parameter " + name + " is on another device than the first",
             .got = tensor.device().str(),
             .expected = first.device().str(),
             .hint = "move the whole model to one device"});
}

}  // namespace

void check_list(const std::vector<NamedTensor>& parameters) {
  refuse_if(parameters.empty(), {.what = "the model has no parameters",
                                 .got = "an empty list",
                                 .expected = "at least one",
                                 .hint = "register them in the model before"});
  std::unordered_set<std::string> names;
  std::unordered_set<std::string> units;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const std::string& name = parameters[i].name;
    const std::string& unit = parameters[i].unit;
    refuse_if(!parameters[i].tensor.defined(), {.what = "parameter \"" + name + "\" is undefined",
                                                .got = "an empty handle",
                                                .expected = "a tensor",
                                                .hint = "give the model its parameters before"});
    refuse_if(!names.insert(name).second, {.what = "parameter \"" + name + "\" appears twice",
                                           .got = "its name",
                                           .expected = "each parameter once",
                                           .hint = "each name stands for one parameter"});
    refuse_if((i == 0 || parameters[i - 1].unit != unit) && !units.insert(unit).second,
              {.what = "the parameters of unit \"" + unit + "\" do not follow each other",
               .got = "another unit before \"" + name + "\"",
               .expected = "units one after another",
               .hint = "name the units in the order of registration"});
  }
}

void check_tensors(const std::vector<NamedTensor>& parameters) {
  std::unordered_set<const void*> data;  // by memory: aliases made by set_data would be untied
  for (const NamedTensor& parameter : parameters) {
    check(parameter, parameters.front().tensor);
    const at::Tensor& tensor = parameter.tensor;
    refuse_if(tensor.numel() > 0 && !data.insert(tensor.const_data_ptr()).second,
              {.what = "parameter \"" + parameter.name + "\" appears twice",
               .got = "memory of an earlier parameter",
               .expected = "each parameter once, or one tensor under two names",
               .hint = "give DataParallel a tied weight as the same tensor twice"});
  }
}

void check_trained(const std::vector<NamedTensor>& parameters) {
  for (const NamedTensor& parameter : parameters) {
    refuse_if(!parameter.tensor.requires_grad(),
              {.what = "parameter \"" + parameter.name + "\" does not require a gradient",
               .got = "requires_grad = false",
               .expected = "requires_grad = true",
               .hint = "buffers with gradients are of what is trained; DataParallel keeps what is "
                       "frozen apart"});
  }
}

}  // namespace ddprun
