// Files that keep the format's rules, and files that break one each.
#include "ddprun/checkpoint/safetensors.h"

#include <ATen/Functions.h>

#include <string>

#include "ddprun/checkpoint/tensor_file.h"
#include "support/ddprun_command.h"

namespace ddprun {
namespace {

std::string length_of(std::uint64_t length) {
  std::string out;
  for (int i = 0; i < 8; ++i) out += static_cast<char>((length >> (8 * i)) & 0xff);
  return out;
}

std::string file_of(const std::string& header, std::size_t bytes) {
  return length_of(header.size()) + header + std::string(bytes, '\x01');
}

struct Broken {
  const char* name;
  std::string text;
  const char* words;
};

void PrintTo(const Broken& broken, std::ostream* out) { *out << broken.name; }

class SafetensorsRules : public testing::TestWithParam<Broken> {};

TEST_P(SafetensorsRules, AFileThatBreaksOneIsRefused) {
  const test::TemporaryFolder folder("t.safetensors", GetParam().text);
  const std::string message = test::error_of<ConfigError>(
      [&] { const SafetensorsFile file(folder.path() / "t.safetensors"); });
  EXPECT_THAT(message, HasSubstr("not a whole file of tensors"));
  EXPECT_THAT(message, HasSubstr(GetParam().words));
}

std::string tensor(const std::string& shape, const std::string& offsets,
                   const std::string& dtype = "F32") {
  return R"({"dtype":")" + dtype + R"(","shape":)" + shape + R"(,"data_offsets":)" + offsets + "}";
}
/// Of tensor a alone.
std::string one(const std::string& shape, const std::string& offsets, std::size_t bytes,
                const std::string& dtype = "F32") {
  return file_of("{\"a\":" + tensor(shape, offsets, dtype) + "}", bytes);
}
/// Of tensor a and another of its shape.
std::string two(const std::string& shape, const std::string& offsets, const std::string& other,
                const std::string& others_offsets, std::size_t bytes) {
  return file_of("{\"a\":" + tensor(shape, offsets) + ",\"" + other +
                     "\":" + tensor(shape, others_offsets) + "}",
                 bytes);
}

INSTANTIATE_TEST_SUITE_P(
    Each, SafetensorsRules,
    testing::Values(
        Broken{"empty", "", "fewer than 8 bytes"}, Broken{"short", "abc", "fewer than 8 bytes"},
        Broken{"longer_than_the_file", length_of(1000) + "{}", "1000 bytes in a file of 10"},
        Broken{"longer_than_allowed", length_of(100'000'001) + "{}", "of 100,000,000 at most"},
        Broken{"length_above_63_bits", length_of(~std::uint64_t{0}) + "{}", "100,000,000 at most"},
        Broken{"no_json", file_of("{oops", 0), "parse error"},
        Broken{"a_list", file_of("[]", 0), "begins with no '{'"},
        Broken{"spaces_first", file_of(" {}", 0), "begins with no '{'"},
        Broken{"zeros_behind", file_of(std::string("{}\0\0", 4), 0), "a zero byte"},
        Broken{"no_utf8", file_of("{\"\xff\":1}", 0), "UTF-8"},
        Broken{"two_of_a_name", two("[1]", "[0,4]", "a", "[4,8]", 8), "a name that comes twice: a"},
        Broken{"deep", file_of(R"({"a":{"b":[[[[1]]]]}})", 0), "nested too deep"},
        Broken{"unknown_dtype", one("[1]", "[0,4]", 4, "F31"), "dtype F31"},
        Broken{"no_shape", file_of(R"({"a":{"dtype":"F32","data_offsets":[0,4]}})", 4),
               "not just dtype, shape, data_offsets"},
        Broken{"a_key_more",
               file_of(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4],"x":1}})", 4),
               "not just dtype, shape, data_offsets"},
        Broken{"negative_size", one("[-1]", "[0,4]", 4), "a size or an offset that is -1"},
        Broken{"size_of_a_fraction", one("[1.0]", "[0,4]", 4), "a size or an offset that is 1.0"},
        Broken{"size_of_64_bits", one("[18446744073709551615]", "[0,4]", 4), "a size or an offset"},
        // 2^32 x 2^32 x 4 bytes are 0 in 64 bits.
        Broken{"product_that_overflows", one("[4294967296,4294967296]", "[0,0]", 0),
               "a is too large"},
        Broken{"product_that_overflows_before_a_zero", one("[4294967296,4294967296,0]", "[0,0]", 0),
               "a is too large"},
        Broken{"offsets_of_another_size", one("[2]", "[0,4]", 4), "which is not its size"},
        Broken{"offsets_backwards", one("[0]", "[4,0]", 4), "which is not its size"},
        Broken{"three_offsets", one("[1]", "[0,4,8]", 4), "not two offsets"},
        Broken{"beyond_the_file", one("[2]", "[0,8]", 4), "tensors of 8 bytes in 4 bytes"},
        Broken{"bytes_of_nobody", one("[1]", "[0,4]", 5), "tensors of 4 bytes in 5 bytes"},
        Broken{"a_gap", one("[1]", "[4,8]", 8), "a begins at 4, and what is before it ends at 0"},
        Broken{"an_overlap", two("[2]", "[0,8]", "b", "[4,12]", 12),
               "b begins at 4, and what is before it ends at 8"},
        Broken{"the_same_bytes_twice", two("[1]", "[0,4]", "b", "[0,4]", 4),
               "b begins at 0, and what is before it ends at 4"},
        Broken{"metadata_of_numbers", file_of(R"({"__metadata__":{"a":1}})", 0), "type must be"},
        Broken{"a_tensor_that_is_a_number", file_of(R"({"a":1})", 0), "not just dtype"}),
    [](const auto& info) { return std::string(info.param.name); });

TEST(Safetensors, ReadsWhatItsWriterWrites) {
  const test::TemporaryFolder folder;
  const auto path = folder.path() / "t.safetensors";
  std::vector<TensorPart> parts;
  std::vector<TensorSpec> specs;
  for (const at::ScalarType dtype :
       {at::kBool, at::kByte, at::kChar, at::kShort, at::kInt, at::kLong, at::kHalf, at::kBFloat16,
        at::kFloat, at::kDouble}) {
    const at::Tensor values = at::arange(6).to(dtype);
    specs.push_back({std::string("τ ") + at::toString(dtype), dtype, {2, 3}});
    parts.push_back({.name = specs.back().name, .values = values});
  }
  specs.push_back({"scalar", at::kFloat, {}});
  parts.push_back({.name = "scalar", .values = at::full({1}, -0.0F)});
  specs.push_back({"nothing", at::kFloat, {3, 0}});
  parts.push_back({.name = "nothing", .values = at::empty({0})});
  const TensorFileLayout layout(specs);
  create_tensor_file(path, layout);
  write_parts(path, layout, parts);
  const SafetensorsFile file(path);
  EXPECT_EQ(file.tensors().size(), specs.size());
  EXPECT_EQ(file.find("absent"), nullptr);
  for (std::size_t i = 0; i < specs.size(); ++i) {
    const TensorSpec* const found = file.find(specs[i].name);
    ASSERT_NE(found, nullptr) << specs[i].name;
    EXPECT_EQ(found->dtype, specs[i].dtype);
    EXPECT_EQ(found->sizes, specs[i].sizes);
    EXPECT_TRUE(at::equal(file.read(specs[i].name).view({-1}), parts[i].values)) << specs[i].name;
  }
  EXPECT_TRUE(std::signbit(file.read("scalar").item<float>()));
  EXPECT_TRUE(at::equal(file.read(specs[8].name, 2, 3), at::arange(2, 5).to(at::kFloat)));
  const at::Tensor wide = at::empty({3}, at::kDouble), apart = at::empty({3, 2}).select(1, 0);
  for (const at::Tensor& each : {wide, apart}) {
    file.read_to(specs[8].name, 2, each);
    EXPECT_TRUE(at::equal(each.to(at::kFloat), at::arange(2, 5).to(at::kFloat)));
  }
  EXPECT_THAT(test::error_of([&] { file.read("scalar", 0, 2); }), HasSubstr("[0, 2)"));
  EXPECT_THAT(test::error_of([&] { file.read("scalar", -1, 1); }), HasSubstr("[-1, 0)"));
  std::filesystem::resize_file(path, layout.bytes() - 1);
  EXPECT_THAT(test::error_of([&] { file.read(file.tensors().back().name); }),
              HasSubstr("fewer bytes than when it was opened"));
}

}  // namespace
}  // namespace ddprun
