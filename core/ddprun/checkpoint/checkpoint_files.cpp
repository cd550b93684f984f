// Tensor by tensor, so that a checkpoint may be larger than memory.
#include "ddprun/checkpoint/checkpoint_files.h"

#include <ATen/TensorOperators.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <map>
#include <set>
#include <utility>

#include "ddprun/base/hash.h"
#include "ddprun/base/text.h"
#include "ddprun/checkpoint/safetensors.h"

namespace ddprun {

namespace {

namespace fs = std::filesystem;

/// Whether the parts are the tensor's elements, each once.
bool cover(std::vector<PartHash> parts, std::int64_t elements) {
  std::ranges::sort(parts, {}, &PartHash::begin);
  std::int64_t end = 0;
  for (const PartHash& part : parts) {
    if (part.begin != end || part.count <= 0 || part.count > elements - end) return false;
    end += part.count;
  }
  return end == elements;
}

/// Whether no value has all bits of its exponent set. One more in the lowest of them would carry
/// into the sign: what every processor does for many values at once.
template <class Bits>
bool no_exponent_is(Bits full, const at::Tensor& values) {
  const auto* const bits = static_cast<const Bits*>(values.const_data_ptr());
  const auto lowest = static_cast<Bits>(full & -full);
  Bits found = 0;
  for (std::int64_t i = 0; i < values.numel(); ++i) {
    found |= static_cast<Bits>((bits[i] & full) + lowest);
  }
  return (found & (full + lowest)) == 0;
}

bool is_finite(const at::Tensor& values) {
  switch (values.scalar_type()) {
    case at::kFloat:
      return no_exponent_is(std::uint32_t{0x7f800000}, values);
    case at::kBFloat16:
      return no_exponent_is(std::uint16_t{0x7f80}, values);
    case at::kHalf:
      return no_exponent_is(std::uint16_t{0x7c00}, values);
    case at::kDouble:
      return no_exponent_is(std::uint64_t{0x7ff0000000000000}, values);
    default:
      return true;
  }
}

std::string damage_of(const SafetensorsFile& file, const TensorSpec& tensor,
                      const FileHashes& hashes, bool finite) {
  const auto saved = hashes.tensors.find(tensor.name);
  if (saved == hashes.tensors.end()) return "state.json does not have it";
  const std::vector<PartHash>& parts = saved->second;
  if (!cover(parts, elements_of(tensor))) return "state.json has no hash of each of its elements";
  for (const PartHash& part : parts) {
    Hash64 hash;
    bool all_finite = true;
    file.visit(tensor.name, part.begin, part.count, [&](std::int64_t, const at::Tensor& values) {
      hash.add(values.const_data_ptr(), values.nbytes());
      if (finite) all_finite = all_finite && is_finite(values);
    });
    if (hash.value() != part.hash) return "another hash than when it was saved";
    if (!all_finite) return "values that are not finite";
  }
  return {};
}

/// Every file of the format in a folder, by name.
std::set<std::string> files_in(const fs::path& folder) {
  std::set<std::string> out = {kModelFile, kOptimizerFile};
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
    if (entry.path().extension() == ".safetensors") out.insert(entry.path().filename());
  }
  return out;
}

std::string shape_of(const TensorSpec& tensor) {
  return fmt::format("{} {}", safetensors_dtype(tensor.dtype), shape_text(tensor.sizes));
}

/// Empty: they are the same, bit for bit.
std::string difference_of(const SafetensorsFile& first, const SafetensorsFile& second,
                          const std::string& name) {
  const TensorSpec& a = *first.find(name);
  const TensorSpec& b = *second.find(name);
  if (a.dtype != b.dtype || a.sizes != b.sizes) return shape_of(a) + ", and " + shape_of(b);
  const at::Tensor x = first.read(name), y = second.read(name);
  if (x.nbytes() == 0 || std::memcmp(x.const_data_ptr(), y.const_data_ptr(), x.nbytes()) == 0) {
    return {};
  }
  const at::Tensor wide = y.to(at::kDouble), apart = (x.to(at::kDouble) - wide).abs();
  const double most = apart.max().item<double>(), largest = wide.abs().max().item<double>();
  return fmt::format("{} of {}, by {:.3g} at most: {:.3g} of the largest",
                     apart.ne(0).sum().item<std::int64_t>(), counted(x.numel(), "value"), most,
                     most / largest);
}

}  // namespace

std::string first_damage(const fs::path& folder, const CheckpointState& state, int rank,
                         int ranks) {
  std::map<std::string, SafetensorsFile> files;
  std::vector<std::pair<std::string, const TensorSpec*>> tensors;
  std::vector<std::int64_t> sizes;
  for (const std::string& name : files_in(folder)) {
    const auto saved = state.files.find(name);
    if (saved == state.files.end()) return name + ": state.json does not have it";
    const SafetensorsFile& file = files.try_emplace(name, folder / name).first->second;
    if (file.header_hash() != saved->second.header) {
      return name + ": another header than when it was saved";
    }
    for (const TensorSpec& tensor : file.tensors()) {
      tensors.emplace_back(name, &tensor);
      sizes.push_back(bytes_of(tensor));
    }
  }
  for (const auto& [name, hashes] : state.files) {
    if (!files.contains(name)) return name + ": it is not there";
  }
  const std::vector<int> readers = balanced(sizes, ranks);
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    if (readers[i] != rank) continue;
    const auto& [name, tensor] = tensors[i];
    const bool finite = name == kModelFile || name == kOptimizerFile;
    const std::string damage = damage_of(files.at(name), *tensor, state.files.at(name), finite);
    if (!damage.empty()) return fmt::format("{}: {}: {}", name, tensor->name, damage);
  }
  return {};
}

std::vector<CheckpointDifference> differences(const fs::path& first, const fs::path& second) {
  std::vector<CheckpointDifference> out;
  std::set<std::string> names = files_in(first);
  names.merge(files_in(second));
  for (const std::string& name : names) {
    const bool in_first = fs::exists(first / name), in_second = fs::exists(second / name);
    if (!in_first || !in_second) {
      out.push_back({name, "", in_first ? "only in the first" : "only in the second"});
      continue;
    }
    const SafetensorsFile a(first / name), b(second / name);
    for (const TensorSpec& tensor : a.tensors()) {
      const bool both = b.find(tensor.name) != nullptr;
      const std::string words =
          both ? difference_of(a, b, tensor.name) : std::string("only in the first");
      if (!words.empty()) out.push_back({name, tensor.name, words});
    }
    for (const TensorSpec& tensor : b.tensors()) {
      if (a.find(tensor.name) == nullptr) out.push_back({name, tensor.name, "only in the second"});
    }
  }
  return out;
}

}  // namespace ddprun
