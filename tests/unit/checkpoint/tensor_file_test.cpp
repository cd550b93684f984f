// Several writers of one file, and folders in which nothing can be written.
#include "ddprun/checkpoint/tensor_file.h"

#include <ATen/Functions.h>

#include "ddprun/base/hash.h"
#include "ddprun/checkpoint/safetensors.h"

namespace ddprun {
namespace {

std::uint64_t hash_of(const at::Tensor& values) {
  return hash64({static_cast<const char*>(values.const_data_ptr()), values.nbytes()});
}

TEST(TensorFile, WritersOfPartsMakeOneTensor) {
  const test::TemporaryFolder folder;
  const auto path = folder.path() / "t.safetensors";
  const at::Tensor whole = at::arange(24).to(at::kFloat);
  const TensorFileLayout layout({{"half", at::kHalf, {1}}, {"w", at::kFloat, {4, 6}}});
  create_tensor_file(path, layout);
  const FileHashes first =
      write_parts(path, layout,
                  {{.name = "w", .begin = 0, .values = whole.narrow(0, 0, 7)},
                   {.name = "half", .values = at::ones({1}, at::kHalf), .writes = false}});
  const FileHashes second =
      write_parts(path, layout,
                  {{.name = "w", .begin = 7, .values = whole.narrow(0, 7, 17)},
                   {.name = "half", .values = at::full({1}, 2).to(at::kHalf)}});
  const SafetensorsFile file(path);
  EXPECT_TRUE(at::equal(file.read("w"), whole.view({4, 6})));
  EXPECT_EQ(file.read("half").item<float>(), 2.0F) << "the rank that writes it";
  EXPECT_EQ(first.header, file.header_hash());
  ASSERT_EQ(first.tensors.size(), 1u);
  EXPECT_EQ(first.tensors.at("w"), (std::vector<PartHash>{{0, 7, hash_of(whole.narrow(0, 0, 7))}}));
  EXPECT_EQ(second.tensors.at("w"),
            (std::vector<PartHash>{{7, 17, hash_of(whole.narrow(0, 7, 17))}}));
  EXPECT_EQ(file.tensors().front().name, "w")
      << "the larger elements lie first, so all are aligned";
  EXPECT_EQ(layout.offset("w") % 4096, 0) << "so whole blocks go past the cache";
  EXPECT_EQ(layout.bytes(), static_cast<std::int64_t>(std::filesystem::file_size(path)));
}

TEST(TensorFile, ANameComesOnce) {
  EXPECT_THAT(test::error_of([] {
                const TensorFileLayout layout({{"w", at::kFloat, {1}}, {"w", at::kFloat, {2}}});
              }),
              HasSubstr("two tensors of a checkpoint have one name"));
}

TEST(TensorFile, ADtypeThatTheFormatLacksIsRefused) {
  EXPECT_THAT(test::error_of([] {
                const TensorFileLayout layout({{"w", at::kComplexFloat, {1}}});
              }),
              HasSubstr("cannot hold tensors of this dtype"));
}

TEST(TensorFile, WhatCannotBeWrittenIsSaid) {
  const TensorFileLayout layout({{"w", at::kFloat, {1}}});
  EXPECT_THAT(test::error_of([&] { create_tensor_file("/nowhere/t.safetensors", layout); }),
              HasSubstr("No such file or directory"));
  EXPECT_THAT(test::error_of([&] { write_parts("/nowhere/t.safetensors", layout, {}); }),
              HasSubstr("No such file or directory"));
  EXPECT_THAT(test::error_of([&] { create_tensor_file("/dev/full", layout); }),
              HasSubstr("No space left on device"));
}

}  // namespace
}  // namespace ddprun
