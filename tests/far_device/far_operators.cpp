// The operators of a device whose memory is far: the CPU's, over aliases of its tensors.
#include <ATen/Context.h>
#include <ATen/EmptyTensor.h>
#include <ATen/InferSize.h>
#include <ATen/TensorUtils.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/native/transformers/attention.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <c10/util/ScopeExit.h>
#include <c10/util/strides.h>
#include <torch/library.h>

#include <algorithm>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "far_device/far_device.h"
#include "far_device/far_streams.h"

namespace ddprun::test {

FarCalls* far_capture = nullptr;

void refuse_to_wait(const std::string& what) {
  TORCH_CHECK(far_capture == nullptr, "operation not permitted when stream is capturing: ", what);
}

namespace {

using Values = std::vector<c10::IValue>;

/// `value` with each of its tensors replaced.
template <class Replace>
c10::IValue replaced(const c10::IValue& value, const Replace& replace) {
  if (value.isTensor()) return replace(value.toTensor());
  if (value.isTensorList()) {
    c10::List<at::Tensor> list;
    for (const at::Tensor& each : value.toTensorVector()) list.push_back(replace(each));
    return list;
  }
  if (value.isOptionalTensorList()) {
    c10::List<std::optional<at::Tensor>> list;
    for (const std::optional<at::Tensor>& each : value.toOptionalTensorVector()) {
      list.push_back(each ? std::optional(replace(*each)) : std::nullopt);
    }
    return list;
  }
  return value;
}

template <class Replace>
Values replaced(const Values& values, const Replace& replace) {
  Values out;
  for (const c10::IValue& each : values) out.push_back(replaced(each, replace));
  return out;
}

/// Where the tensors begin that a product multiplies; nowhere of other operators.
std::optional<std::size_t> factors_of(const std::string& name) {
  if (name == "aten::mm" || name == "aten::bmm" || name == "ddprun::product") return 0;
  if (name == "aten::addmm" || name == "aten::baddbmm") return 1;
  return {};
}

/// TF32 has 10 bits behind the point.
at::Tensor rounded_to_tf32(const at::Tensor& factor) {
  if (factor.scalar_type() != at::kFloat) return factor;
  return (factor.contiguous().view(at::kInt) + 0x1000).bitwise_and(~0x1fff).view(at::kFloat);
}

/// One call of an operator.
class FarCall {
 public:
  explicit FarCall(const c10::OperatorHandle& op) : op_(op) {}

  Values run(const Values& arguments) {
    Values stack = replaced(arguments, [this](const at::Tensor& each) { return near(each); });
    for (c10::IValue& each : stack) {
      if (each.isDevice()) each = c10::Device(c10::kCPU);
    }
    {
      const at::AutoDispatchBelowADInplaceOrView below_autograd;
      const c10::impl::ExcludeDispatchKeyGuard no_autocast(c10::autocast_dispatch_keyset);
      if (const auto first = factors_of(op_.operator_name().name)) {
        multiply(*first, stack);
      } else {
        compute(stack);
      }
    }
    settle();
    return replaced(stack, [this](const at::Tensor& each) { return far(each); });
  }

 private:
  /// CUDA's own kernel (far_kernels.cpp), or the CPU's.
  c10::DispatchKey key() const {
    constexpr c10::DispatchKey kOfCuda = c10::DispatchKey::PrivateUse1;
    return op_.hasKernelForDispatchKey(kOfCuda) ? kOfCuda : c10::DispatchKey::CPU;
  }

  void compute(Values& stack) const { op_.redispatchBoxed(c10::DispatchKeySet(key()), &stack); }

  /// Products of 16 bits are summed in float32 and rounded once, as a GPU's are. Many a CPU's own
  /// product of them takes a hundred times as long. PyTorch calls the overload `out` of a product.
  void multiply(std::size_t first, Values& stack) const {
    const at::ScalarType dtype = stack[first].toTensor().scalar_type();
    const std::string& overload = op_.operator_name().overload_name;
    const bool widens = (dtype == at::kHalf || dtype == at::kBFloat16) && overload == "out";
    if (!widens) {
      if (at::globalContext().allowTF32CuBLAS()) {
        for (std::size_t i = first; i < first + 2; ++i) {
          stack[i] = rounded_to_tf32(stack[i].toTensor());
        }
      }
      return compute(stack);
    }
    const at::Tensor out = stack.back().toTensor();
    stack = replaced(stack, [](const at::Tensor& each) { return each.to(at::kFloat); });
    compute(stack);
    out.copy_(stack[0].toTensor());
    stack[0] = out;
  }

  at::Tensor near(const at::Tensor& tensor) {
    if (!tensor.defined() || !tensor.is_cuda()) return tensor;
    for (const auto& [far, alias] : known_) {
      if (far.is_same(tensor)) return alias;
    }
    return known_.emplace_back(tensor, near_alias(tensor)).second;
  }

  at::Tensor far(const at::Tensor& result) const {
    if (!result.defined()) return result;
    for (const auto& [far, alias] : known_) {
      if (alias.is_same(result)) return far;
    }
    for (const auto& [far, alias] : known_) {
      const bool view = alias.storage().nbytes() > 0 && lies_at(far.storage(), result.storage());
      if (view) return as_laid(far.storage(), result);
    }
    return as_laid(far_copy(result.storage()), result);
  }

  static at::Tensor as_laid(c10::Storage memory, const at::Tensor& tensor) {
    return far_tensor(std::move(memory), tensor, tensor.sizes(), tensor.strides(),
                      tensor.storage_offset());
  }

  /// Outputs may have been resized.
  void settle() const {
    for (const auto& [far, alias] : known_) {
      c10::TensorImpl* const impl = far.unsafeGetTensorImpl();
      if (!lies_at(far.storage(), alias.storage())) {
        impl->set_storage_keep_dtype(far_copy(alias.storage()));
      }
      if (far.sizes() != alias.sizes() || far.strides() != alias.strides()) {
        impl->set_sizes_and_strides(alias.sizes(), alias.strides(), alias.storage_offset());
      }
    }
  }

  c10::OperatorHandle op_;
  std::vector<std::pair<at::Tensor, at::Tensor>> known_;  // the device's, the CPU's of the same
};

/// A GPU indexes by tensors of the host, too, and copies between both.
bool takes_both(const std::string& name) {
  return name == "aten::copy_" || name.starts_with("aten::index") ||
         name.starts_with("aten::_index");
}

bool waits(const std::string& name) {
  static const std::set<std::string> names = {"aten::_local_scalar_dense", "aten::equal",
                                              "aten::nonzero", "aten::masked_select"};
  return names.contains(name);
}

/// Throws where a GPU would.
void check(const std::string& name, const Values& arguments) {
  std::vector<at::Tensor> host;
  for (const c10::IValue& each : arguments) {
    replaced(each, [&host](const at::Tensor& tensor) {
      const bool number = tensor.defined() && tensor.dim() == 0;
      if (tensor.defined() && !tensor.is_cuda() && !number) host.push_back(tensor);
      return tensor;
    });
  }
  TORCH_CHECK(host.empty() || takes_both(name), name,
              " was given a tensor of the host's, of sizes ", host.front().sizes(),
              ", and one of the device's");
  const bool copies = name == "aten::copy_" && !host.empty();
  if (waits(name) || copies) refuse_to_wait(name);
  const bool goes_on = copies && arguments.back().toBool();  // non_blocking
  if (waits(name) || (copies && !goes_on)) host_waits_for(far_stream());
}

void capture_call(const c10::OperatorHandle& op, const Values& arguments, const Values& results) {
  far_capture->calls.emplace_back(
      [op, arguments = replaced(arguments, as_captured), results = replaced(results, as_captured)] {
        const Values again = FarCall(op).run(arguments);
        for (std::size_t i = 0; i < again.size(); ++i) {
          std::vector<at::Tensor> made;
          replaced(again[i], [&](const at::Tensor& each) { return made.emplace_back(each); });
          std::size_t next = 0;
          replaced(results[i], [&](const at::Tensor& each) {
            const at::Tensor& from = made[next++];
            if (each.defined() && !each.is_alias_of(from)) near_alias(each).copy_(near_alias(from));
            return each;
          });
        }
      });
}

/// Every operator of the device that has no kernel of its own below. The caller is not the only
/// thread: autograd has one for the device.
void by_cpu(const c10::OperatorHandle& op, c10::DispatchKeySet /*keys*/, torch::jit::Stack* stack) {
  static std::recursive_mutex one_at_a_time;
  const std::lock_guard lock(one_at_a_time);
  const auto count = static_cast<std::ptrdiff_t>(op.schema().arguments().size());
  const Values arguments(stack->end() - count, stack->end());
  torch::jit::drop(*stack, static_cast<std::size_t>(count));
  check(op.operator_name().name, arguments);
  far_use_all(op.schema(), arguments, /*results=*/false);
  const Values results = FarCall(op).run(arguments);
  far_use_all(op.schema(), results, /*results=*/true);
  if (far_capture != nullptr) capture_call(op, arguments, results);
  stack->insert(stack->end(), results.begin(), results.end());
}

at::Tensor empty_strided(at::IntArrayRef sizes, at::IntArrayRef strides,
                         std::optional<at::ScalarType> dtype, std::optional<at::Layout>,
                         std::optional<at::Device> device, std::optional<bool>) {
  require_far_device(device.value_or(c10::kCUDA));
  const at::Tensor like = at::detail::empty_cpu({0}, dtype.value_or(at::kFloat));
  const auto bytes = at::detail::computeStorageNbytes(sizes, strides, like.itemsize());
  return far_tensor(far_storage(bytes), like, sizes, strides, 0);
}

at::Tensor empty(at::IntArrayRef sizes, std::optional<at::ScalarType> dtype,
                 std::optional<at::Layout>, std::optional<at::Device> device, std::optional<bool>,
                 std::optional<at::MemoryFormat>) {
  return empty_strided(sizes, c10::contiguous_strides(sizes), dtype, {}, device, {});
}

at::Tensor strided_view(const at::Tensor& self, at::IntArrayRef sizes, at::IntArrayRef strides,
                        std::optional<std::int64_t> offset) {
  return far_tensor(self.storage(), self, sizes, strides, offset.value_or(self.storage_offset()));
}

at::Tensor view(const at::Tensor& self, at::IntArrayRef sizes) {
  const auto known = at::infer_size_dv(sizes, self.numel());
  const auto strides = at::detail::computeStride(self.sizes(), self.strides(), known);
  TORCH_CHECK(strides.has_value(), "no view of these strides");
  return strided_view(self, known, *strides, {});
}

at::Tensor reshape_alias(const at::Tensor& self, at::IntArrayRef sizes, at::IntArrayRef strides) {
  return strided_view(self, sizes, strides, {});
}

/// The CPU has none that widens.
at::Tensor softmax(const at::Tensor& self, std::int64_t dim, bool half_to_float) {
  const at::Tensor wide = half_to_float ? self.to(at::kFloat) : self;
  const at::Tensor powers = (wide - wide.amax(dim, /*keepdim=*/true)).exp();
  return powers / powers.sum(dim, /*keepdim=*/true);
}

at::Tensor softmax_backward(const at::Tensor& grad, const at::Tensor& output, std::int64_t dim,
                            at::ScalarType input_dtype) {
  const at::Tensor products = grad * output;
  return (products - output * products.sum(dim, /*keepdim=*/true)).to(input_dtype);
}

std::int64_t choose_math(const at::Tensor&, const at::Tensor&, const at::Tensor&,
                         const std::optional<at::Tensor>&, double, bool, std::optional<double>,
                         bool) {
  return 0;  // the operators one by one
}

TORCH_LIBRARY_IMPL(_, CUDA, library) {
  library.fallback(torch::CppFunction::makeFromBoxedFunction<&by_cpu>());
  at::native::_fused_sdp_choice_stub.set_cuda_dispatch_ptr(&choose_math);
}

TORCH_LIBRARY_IMPL(aten, CUDA, library) {
  library.impl("empty.memory_format", &empty);
  library.impl("empty_strided", &empty_strided);
  library.impl("as_strided", &strided_view);
  library.impl("view", &view);
  library.impl("_reshape_alias", &reshape_alias);
  library.impl("_softmax", &softmax);
  library.impl("_softmax_backward_data", &softmax_backward);
  library.impl("copy_", torch::CppFunction::makeFromBoxedFunction<&by_cpu>());
}

}  // namespace

}  // namespace ddprun::test
