// Sizes of memory that ranks share, and what is refused.
#include "ddprun/memory/mapped_memory.h"

#include <unistd.h>

#include <stdexcept>

#include "ddprun/base/machine_memory.h"
#include "support/matchers.h"

namespace ddprun {
namespace {

constexpr std::size_t kHuge = std::size_t{2} << 20;

TEST(MappedMemory, IsOfWholePagesOrWholeHugeOnes) {
  const auto page = static_cast<std::size_t>(getpagesize());
  EXPECT_EQ(whole_pages(1), page);
  EXPECT_EQ(whole_pages(page + 1), 2 * page);
  EXPECT_EQ(whole_pages(kHuge - 1), kHuge);
  EXPECT_EQ(whole_pages(kHuge + 1), 2 * kHuge);
}

TEST(MappedMemory, WhatIsNotThereIsRefusedBeforeItIsUsed) {
  const MemoryFile file = MemoryFile::create(100, 100);
  EXPECT_EQ(file.map(100).bytes(), 100U);
  EXPECT_THAT(test::error_of<std::runtime_error>([&] { file.map(101); }),
              HasSubstr("holds 100 bytes, not 101"));
  const auto available = static_cast<std::size_t>(available_memory());
  EXPECT_THAT(test::error_of<std::runtime_error>([&] { MemoryFile::create(100, 2 * available); }),
              HasSubstr("the ranks of this host need"));
}

}  // namespace
}  // namespace ddprun
