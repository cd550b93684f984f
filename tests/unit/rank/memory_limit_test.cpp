// A limit makes an allocation fail, and can be taken back.
#include "ddprun/rank/heap.h"

#include <ATen/ops/empty.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include "ddprun/base/failure.h"
#include "support/sanitizers.h"

namespace ddprun {
namespace {

constexpr std::int64_t kMegabyte = 1'000'000;

bool fails(std::int64_t bytes) {
  try {
    at::empty({bytes}, at::kByte);
    return false;
  } catch (const std::exception& failure) {
    EXPECT_TRUE(says_out_of_memory(failure)) << failure.what();
    return true;
  }
}

TEST(MemoryLimit, IsOfWhatComesOnTopAndCanBeTakenBack) {
  if (test::kSanitized) GTEST_SKIP() << "a sanitizer's allocator ends the process";
  rlimit before = {};
  ASSERT_EQ(getrlimit(RLIMIT_DATA, &before), 0);
  limit_memory(0.3);
  EXPECT_FALSE(fails(100 * kMegabyte));
  EXPECT_TRUE(fails(400 * kMegabyte));
  limit_memory(0.6);
  EXPECT_FALSE(fails(400 * kMegabyte));
  limit_memory(0);
  EXPECT_FALSE(fails(900 * kMegabyte));
  rlimit limit = {};
  ASSERT_EQ(getrlimit(RLIMIT_DATA, &limit), 0);
  EXPECT_EQ(limit.rlim_cur, before.rlim_cur);
}

}  // namespace
}  // namespace ddprun
