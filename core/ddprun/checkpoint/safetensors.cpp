// The header's rules, one by one.
#include "ddprun/checkpoint/safetensors.h"

#include <ATen/ops/empty.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <stdexcept>
#include <string_view>
#include <utility>

#include "ddprun/base/error.h"
#include "ddprun/base/hash.h"

namespace ddprun {

namespace {

using nlohmann::json;

constexpr std::int64_t kLengthBytes = 8;
constexpr std::int64_t kMostHeader = 100'000'000;
constexpr std::int64_t kVisitedBytes = 1 << 18;  // which a core's own cache holds
constexpr int kMostDepth = 3;                    // the header, a tensor, its shape

constexpr std::array kDtypes = {std::pair{"F64", at::kDouble}, std::pair{"F32", at::kFloat},
                                std::pair{"F16", at::kHalf},   std::pair{"BF16", at::kBFloat16},
                                std::pair{"I64", at::kLong},   std::pair{"I32", at::kInt},
                                std::pair{"I16", at::kShort},  std::pair{"I8", at::kChar},
                                std::pair{"U8", at::kByte},    std::pair{"BOOL", at::kBool}};

/// What is wrong, in a few words.
[[noreturn]] void refuse(const std::string& why) { throw std::runtime_error(why); }

[[noreturn]] void refuse_file(const std::filesystem::path& path, const std::string& why) {
  throw ConfigError(
      {.what = "not a whole file of tensors in the safetensors format",
       .where = path.string(),
       .got = why,
       .expected = "a file as train.checkpoint, or the safetensors library, writes it",
       .hint = "it may be cut short: copy or write it again"});
}

/// Refuses a name that comes twice, and what is nested deeper than any header is.
json parse_header(std::string_view text) {
  if (text.empty() || text.front() != '{') refuse("a header that begins with no '{'");
  if (text.find('\0') != text.npos) refuse("a zero byte in the header");
  std::vector<std::set<std::string>> names;
  const auto look = [&names](int depth, json::parse_event_t event, json& parsed) {
    if (depth > kMostDepth) refuse("a header that is nested too deep");
    if (event == json::parse_event_t::object_start) names.emplace_back();
    if (event == json::parse_event_t::object_end) names.pop_back();
    if (event == json::parse_event_t::key &&
        !names.back().insert(parsed.get<std::string>()).second) {
      refuse("a name that comes twice: " + parsed.get<std::string>());
    }
    return true;
  };
  return json::parse(text, look);
}

at::ScalarType dtype_of(const std::string& name) {
  for (const auto& [known, dtype] : kDtypes) {
    if (name == known) return dtype;
  }
  refuse("dtype " + name);
}

std::int64_t natural(const json& value) {
  if (!value.is_number_unsigned()) refuse("a size or an offset that is " + value.dump());
  const auto number = value.get<std::uint64_t>();
  if (number > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) {
    refuse("a size or an offset that is " + value.dump());
  }
  return static_cast<std::int64_t>(number);
}

/// A product that 64 bits cannot hold is refused, even where a 0 comes later.
std::int64_t checked_bytes(const TensorSpec& tensor) {
  auto bytes = static_cast<std::int64_t>(c10::elementSize(tensor.dtype));
  for (const std::int64_t size : tensor.sizes) {
    if (__builtin_mul_overflow(bytes, size, &bytes)) refuse(tensor.name + " is too large");
  }
  return bytes;
}

/// A tensor, and where its values begin and end behind the header.
struct Entry {
  TensorSpec tensor;
  std::int64_t begin = 0, end = 0;
};

Entry entry_of(const std::string& name, const json& in) {
  if (!in.is_object() || in.size() != 3) refuse(name + " has not just dtype, shape, data_offsets");
  Entry entry{.tensor = {.name = name, .dtype = dtype_of(in.at("dtype").get<std::string>())}};
  if (!in.at("shape").is_array()) refuse(name + " has no list of sizes");
  for (const json& size : in.at("shape")) entry.tensor.sizes.push_back(natural(size));
  const json& offsets = in.at("data_offsets");
  if (!offsets.is_array() || offsets.size() != 2) refuse(name + " has not two offsets");
  entry.begin = natural(offsets[0]);
  entry.end = natural(offsets[1]);
  if (entry.end < entry.begin || entry.end - entry.begin != checked_bytes(entry.tensor)) {
    refuse(fmt::format("{} has offsets {} and {}, which is not its size", name, entry.begin,
                       entry.end));
  }
  return entry;
}

/// In the order of the file.
std::vector<Entry> entries_of(const json& header, std::int64_t bytes) {
  std::vector<Entry> entries;
  for (const auto& [name, in] : header.items()) {
    if (name != "__metadata__") entries.push_back(entry_of(name, in));
  }
  std::ranges::sort(entries, {}, [](const Entry& entry) {
    return std::tuple(entry.begin, entry.end, entry.tensor.name);
  });
  std::int64_t end = 0;
  for (const Entry& entry : entries) {
    if (entry.begin != end) {
      refuse(fmt::format("{} begins at {}, and what is before it ends at {}", entry.tensor.name,
                         entry.begin, end));
    }
    end = entry.end;
  }
  if (end != bytes) refuse(fmt::format("tensors of {} bytes in {} bytes", end, bytes));
  return entries;
}

std::int64_t header_length(const RegularFile& file) {
  std::uint64_t length = 0;  // little-endian, as this processor is
  static_assert(kLengthBytes == sizeof length);
  if (file.read(0, &length, kLengthBytes) != kLengthBytes) refuse("fewer than 8 bytes");
  if (length > static_cast<std::uint64_t>(kMostHeader)) {
    refuse(fmt::format("a header of {} bytes, of 100,000,000 at most", length));
  }
  if (static_cast<std::int64_t>(length) > file.size() - kLengthBytes) {
    refuse(fmt::format("a header of {} bytes in a file of {}", length, file.size()));
  }
  return static_cast<std::int64_t>(length);
}

RegularFile open_file(const std::filesystem::path& path) {
  try {
    return RegularFile(path);
  } catch (const std::runtime_error& error) {
    refuse_file(path, error.what());
  }
}

}  // namespace

const char* safetensors_dtype(at::ScalarType dtype) {
  for (const auto& [name, known] : kDtypes) {
    if (dtype == known) return name;
  }
  return nullptr;
}

SafetensorsFile::SafetensorsFile(const std::filesystem::path& path)
    : path_(path), file_(open_file(path)) {
  try {
    read_header();
  } catch (const json::exception& error) {
    refuse_file(path, error.what());
  } catch (const std::runtime_error& error) {
    refuse_file(path, error.what());
  }
}

void SafetensorsFile::read_header() {
  const std::int64_t begin = kLengthBytes + header_length(file_);
  std::string text(static_cast<std::size_t>(begin), '\0');
  if (file_.read(0, text.data(), begin) != begin) refuse("a header cut short");
  header_hash_ = hash64(text);
  const json header = parse_header(std::string_view(text).substr(kLengthBytes));
  if (const auto found = header.find("__metadata__"); found != header.end()) {
    found->get<std::map<std::string, std::string>>();  // of texts alone
  }
  for (Entry& entry : entries_of(header, file_.size() - begin)) {
    offsets_.push_back(begin + entry.begin);
    add(std::move(entry.tensor));
  }
}

void SafetensorsFile::read_into(const std::string& name, std::int64_t begin,
                                const at::Tensor& values) const {
  const std::size_t index = index_of(name);
  const TensorSpec& tensor = tensors()[index];
  const auto size = static_cast<std::int64_t>(c10::elementSize(tensor.dtype));
  const std::int64_t elements = elements_of(tensor), count = values.numel();
  if (begin < 0 || begin > elements - count) {
    throw Error({.what = "elements that a tensor of a checkpoint does not have",
                 .where = path_.string() + ": " + name,
                 .got = fmt::format("[{}, {})", begin, begin + count),
                 .expected = fmt::format("within {} elements", elements),
                 .hint = "the checkpoint is of another model"});
  }
  std::int64_t got = 0;
  try {
    got = file_.read(offsets_[index] + begin * size, values.mutable_data_ptr(), count * size);
  } catch (const std::runtime_error& error) {
    refuse_file(path_, error.what());
  }
  if (got != count * size) refuse_file(path_, "fewer bytes than when it was opened");
}

at::Tensor SafetensorsFile::read(const std::string& name, std::int64_t begin,
                                 std::int64_t count) const {
  at::Tensor values = at::empty({count}, find(name)->dtype);
  read_into(name, begin, values);
  return values;
}

void SafetensorsFile::read_to(const std::string& name, std::int64_t begin,
                              const at::Tensor& values) const {
  if (values.is_cpu() && values.is_contiguous() && values.scalar_type() == find(name)->dtype) {
    read_into(name, begin, values);
  } else {
    values.copy_(read(name, begin, values.numel()).view(values.sizes()));
  }
}

void SafetensorsFile::visit(
    const std::string& name, std::int64_t begin, std::int64_t count,
    const std::function<void(std::int64_t, const at::Tensor&)>& visitor) const {
  const at::ScalarType dtype = find(name)->dtype;
  const auto size = static_cast<std::int64_t>(c10::elementSize(dtype));
  const at::Tensor buffer = at::empty({std::min(count, kVisitedBytes / size)}, dtype);
  for (std::int64_t done = 0; done < count;) {
    const at::Tensor part = buffer.narrow(0, 0, std::min(count - done, buffer.numel()));
    read_into(name, begin + done, part);
    visitor(begin + done, part);
    done += part.numel();
  }
}

at::Tensor SafetensorsFile::read(const std::string& name) const {
  const TensorSpec& tensor = *find(name);
  return read(name, 0, elements_of(tensor)).view(tensor.sizes);
}

}  // namespace ddprun
