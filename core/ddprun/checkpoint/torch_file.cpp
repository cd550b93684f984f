// The state dict in the pickle, and its storages.
#include "ddprun/checkpoint/torch_file.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/empty.h>
#include <c10/util/Exception.h>
#include <caffe2/serialize/inline_container.h>
#include <array>
#include <functional>
#include <stdexcept>
#include <string_view>
#include <utility>

#include "ddprun/base/error.h"
#include "ddprun/base/ranges.h"
#include "ddprun/base/regular_file.h"

namespace ddprun {

namespace {

using Kind = PickledValue::Kind;

constexpr std::array kStorages = {std::pair{"torch DoubleStorage", at::kDouble},
                                  std::pair{"torch FloatStorage", at::kFloat},
                                  std::pair{"torch HalfStorage", at::kHalf},
                                  std::pair{"torch BFloat16Storage", at::kBFloat16},
                                  std::pair{"torch LongStorage", at::kLong},
                                  std::pair{"torch IntStorage", at::kInt},
                                  std::pair{"torch ShortStorage", at::kShort},
                                  std::pair{"torch CharStorage", at::kChar},
                                  std::pair{"torch ByteStorage", at::kByte},
                                  std::pair{"torch BoolStorage", at::kBool}};

[[noreturn]] void refuse_state(const std::string& why) { throw std::runtime_error(why); }

/// Does `work`; what it throws becomes an error that names the file.
void name_file(const std::filesystem::path& path, const std::function<void()>& work) {
  std::string why;
  try {
    return work();
  } catch (const c10::Error& error) {
    why = error.what_without_backtrace();
  } catch (const std::runtime_error& error) {
    why = error.what();
  }
  throw ConfigError({.what = "not a state dict as torch.save writes it",
                     .where = path.string(),
                     .got = why,
                     .expected = "a dict of tensors by name, or one whose \"model\", "
                                 "\"model_state_dict\" or \"state_dict\" is",
                     .hint = "torch.save(model.state_dict(), PATH), of torch 1.6 or later"});
}

at::ScalarType dtype_of_storage(const std::string& storage) {
  for (const auto& [known, dtype] : kStorages) {
    if (storage == known) return dtype;
  }
  refuse_state("a tensor of " + storage);
}

/// The item of that number, of that kind.
const PickledValue& item(const Pickle& pickle, const PickledValue& value, std::size_t number,
                         Kind kind) {
  if (number >= value.items.size()) refuse_state("a tensor with too few arguments");
  const PickledValue& found = pickle[value.items[number]];
  if (found.kind != kind) refuse_state("a tensor with an argument of another kind");
  return found;
}

std::int64_t natural(const PickledValue& value) {
  if (value.kind != Kind::number || value.number < 0)
    refuse_state("a size that is no natural number");
  return value.number;
}

std::vector<std::int64_t> naturals(const Pickle& pickle, const PickledValue& sequence) {
  return mapped(sequence.items, [&](std::size_t number) { return natural(pickle[number]); });
}

std::int64_t times(std::int64_t a, std::int64_t b) {
  std::int64_t product = 0;
  if (__builtin_mul_overflow(a, b, &product)) refuse_state("a tensor that is too large");
  return product;
}

std::int64_t plus(std::int64_t a, std::int64_t b) {
  std::int64_t sum = 0;
  if (__builtin_add_overflow(a, b, &sum)) refuse_state("a tensor that is too large");
  return sum;
}

/// How many elements a storage must have.
std::int64_t extent_of(const std::vector<std::int64_t>& sizes,
                       const std::vector<std::int64_t>& strides, std::int64_t offset) {
  std::int64_t last = offset, elements = 1;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    elements = times(elements, sizes[i]);
    if (sizes[i] > 0) last = plus(last, times(sizes[i] - 1, strides[i]));
  }
  return elements == 0 ? 0 : plus(last, 1);
}

bool is_call_of(const Pickle& pickle, const PickledValue& value, std::string_view function) {
  return value.kind == Kind::call && pickle[value.items.front()].text == function;
}

/// The call that makes a tensor, of which a parameter has one more around it. Null: it is neither.
const PickledValue* rebuilt_tensor(const Pickle& pickle, const PickledValue& value) {
  if (is_call_of(pickle, value, "torch._utils _rebuild_tensor_v2")) return &value;
  if (!is_call_of(pickle, value, "torch._utils _rebuild_parameter")) return nullptr;
  const PickledValue& tensor = item(pickle, value, 1, Kind::call);
  return is_call_of(pickle, tensor, "torch._utils _rebuild_tensor_v2") ? &tensor : nullptr;
}

bool has_tensors(const Pickle& pickle, const PickledValue& dict) {
  for (std::size_t i = 1; i < dict.items.size(); i += 2) {
    if (rebuilt_tensor(pickle, pickle[dict.items[i]]) != nullptr) return true;
  }
  return false;
}

const PickledValue& state_dict(const Pickle& pickle) {
  const PickledValue& root = pickle.root();
  if (root.kind != Kind::dict) refuse_state("an object that is no dict");
  if (has_tensors(pickle, root)) return root;
  for (const std::string_view wanted : {"model", "model_state_dict", "state_dict"}) {
    for (std::size_t i = 0; i + 1 < root.items.size(); i += 2) {
      const PickledValue& inner = pickle[root.items[i + 1]];
      if (pickle[root.items[i]].text != wanted || inner.kind != Kind::dict) continue;
      if (has_tensors(pickle, inner)) return inner;
    }
  }
  refuse_state("a dict without tensors");
}

std::string name_of_parameter(std::string_view name) {
  for (bool again = true; again;) {
    again = false;
    for (const std::string_view wrapper : {"_orig_mod.", "module."}) {
      if (!name.starts_with(wrapper)) continue;
      name.remove_prefix(wrapper.size());
      again = true;
    }
  }
  return std::string(name);
}

}  // namespace

TorchFile::~TorchFile() = default;

TorchFile::TorchFile(const std::filesystem::path& path) : path_(path) {
  name_file(path, [this] { open(); });
}

void TorchFile::open() {
  const RegularFile regular(path_);  // refuses what is none
  reader_ = std::make_unique<caffe2::serialize::PyTorchStreamReader>(path_.string());
  for (const std::string& name : reader_->getAllRecords()) {
    // Nothing is packed, so nothing grows when it is read.
    if (reader_->getRecordSize(name) > static_cast<std::size_t>(regular.size())) {
      refuse_state(name + " is larger than the file");
    }
  }
  if (reader_->hasRecord("byteorder") && record("byteorder") != "little") {
    refuse_state("numbers of another byte order");
  }
  const std::string bytes = record("data.pkl");
  add_tensors(Pickle(bytes));
}

std::string TorchFile::record(const std::string& name) const {
  const auto [data, size] = reader_->getRecord(name);
  return {static_cast<const char*>(data.get()), size};
}

void TorchFile::add_tensors(const Pickle& pickle) {
  const PickledValue& dict = state_dict(pickle);
  for (std::size_t i = 0; i + 1 < dict.items.size(); i += 2) {
    const PickledValue* const rebuilt = rebuilt_tensor(pickle, pickle[dict.items[i + 1]]);
    if (rebuilt == nullptr) continue;
    add_tensor(name_of_parameter(pickle[dict.items[i]].text), pickle, *rebuilt);
  }
}

void TorchFile::add_tensor(const std::string& name, const Pickle& pickle,
                           const PickledValue& rebuilt) {
  // After the function: storage, offset, sizes, strides.
  const PickledValue& storage =
      item(pickle, item(pickle, rebuilt, 1, Kind::external), 0, Kind::sequence);
  Place place{.record = "data/" + item(pickle, storage, 2, Kind::text).text,
              .offset = natural(item(pickle, rebuilt, 2, Kind::number)),
              .strides = naturals(pickle, item(pickle, rebuilt, 4, Kind::sequence))};
  TensorSpec tensor{.name = name,
                    .dtype = dtype_of_storage(item(pickle, storage, 1, Kind::global).text),
                    .sizes = naturals(pickle, item(pickle, rebuilt, 3, Kind::sequence))};
  if (place.strides.size() != tensor.sizes.size())
    refuse_state(name + " has not a stride for each size");
  const std::int64_t needed = times(extent_of(tensor.sizes, place.strides, place.offset),
                                    static_cast<std::int64_t>(c10::elementSize(tensor.dtype)));
  if (needed > 0 && !reader_->hasRecord(place.record)) refuse_state(name + " has no values");
  if (needed > 0 && static_cast<std::size_t>(needed) > reader_->getRecordSize(place.record)) {
    refuse_state(name + " is not within its storage");
  }
  if (!add(std::move(tensor))) refuse_state("a name that comes twice: " + name);
  places_.push_back(std::move(place));
}

at::Tensor TorchFile::read(const std::string& name) const {
  const std::size_t index = index_of(name);
  const Place& place = places_[index];
  const TensorSpec& tensor = tensors()[index];
  at::Tensor out = at::empty(tensor.sizes, tensor.dtype);
  if (out.numel() == 0) return out;
  name_file(path_, [&] {
    auto [data, size] = reader_->getRecord(place.record);
    const at::Storage storage(at::Storage::use_byte_size_t(), size, std::move(data));
    const at::Tensor values = at::empty({0}, tensor.dtype);
    out.copy_(values.set_(storage, place.offset, tensor.sizes, place.strides));
  });
  return out;
}

}  // namespace ddprun
