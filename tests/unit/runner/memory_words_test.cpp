// What allocations that failed are called in a report, and what the kernel says of its kills.
#include "runner/launch/memory_words.h"

#include <ATen/Functions.h>

#include "ddprun/rank/heap.h"
#include "runner/launch/rank_process.h"
#include "support/matchers.h"
#include "support/sanitizers.h"

namespace ddprun {
namespace {

/// What a rank says of the exception that `fail` throws.
template <class Fail>
RankError said_of(const Fail& fail) {
  try {
    fail();
  } catch (...) {
    return describe_current_exception();
  }
  return {FailureKind::died, {.what = "nothing was thrown"}};
}

TEST(MemoryWords, SayTheSizesOfAGpu) {
  // As CUDACachingAllocator.cpp of PyTorch 2.11 writes it.
  const std::string message =
      "CUDA out of memory. Tried to allocate 20.00 GiB. GPU 1 has a total capacity of 79.10 GiB of "
      "which 512.31 MiB is free. Including non-PyTorch memory, this process has 78.60 GiB memory "
      "in "
      "use. Of the allocated memory 77.00 GiB is allocated by PyTorch, and 1.00 GiB is reserved by "
      "PyTorch but unallocated.";
  const RankError error = said_of([&] { C10_THROW_ERROR(OutOfMemoryError, message); });
  EXPECT_EQ(error.kind, FailureKind::out_of_memory);
  EXPECT_EQ(error.text.what,
            "out of memory: tried to allocate 20.00 GiB on GPU 1, which has 512.31 MiB of 79.10 "
            "GiB free");
  EXPECT_THAT(error.text.got, HasSubstr("1.00 GiB is reserved"));
}

TEST(MemoryWords, SayTheSizesOfTheHost) {
  const RankError refused = said_of([] { at::empty({std::int64_t{1} << 50}); });  // 4 PiB
  EXPECT_EQ(refused.kind, FailureKind::out_of_memory);
  EXPECT_THAT(
      refused.text.what,
      MatchesRegex(
          "out of memory: tried to allocate 4096.00 TiB; the host has [0-9.]+ [KMGT]iB of [0-9.]+ "
          "[KMGT]iB available.*"));
  const RankError bad_alloc = said_of([] { throw std::bad_alloc(); });
  EXPECT_EQ(bad_alloc.kind, FailureKind::out_of_memory);
  EXPECT_THAT(bad_alloc.text.what, HasSubstr("an allocation was refused; the host has "));
}

TEST(MemoryWords, SayALimitAndFromWhereItCounts) {
  if (test::kSanitized) GTEST_SKIP() << "a sanitizer's allocator ends the process";
  limit_memory(0.05);
  const RankError refused = said_of([] { at::empty({1 << 28}); });  // 1 GiB
  limit_memory(0);
  EXPECT_THAT(refused.text.what,
              ContainsRegex("this process may take 0.05 GB of private memory "
                            "\\(world.memory_limit_gb\\) on top of the [0-9.]+ [MG]iB that it had "
                            "when the row began"));
}

TEST(MemoryWords, KeepWordsWithoutSizes) {
  const RankError error = said_of([] { throw std::runtime_error("mmap: Cannot allocate memory"); });
  EXPECT_EQ(error.kind, FailureKind::out_of_memory);
  EXPECT_THAT(error.text.got, HasSubstr("mmap: Cannot allocate memory"));
  EXPECT_THAT(error.text.what, HasSubstr("the host"));
  EXPECT_EQ(said_of([] { throw std::runtime_error("no such thing"); }).kind, FailureKind::other);
}

TEST(MemoryWords, TheKernelCountsItsKills) {
  const std::int64_t kills = kernel_memory_kills();
  EXPECT_GE(kills, 0);
  EXPECT_GE(kernel_memory_kills(), kills);
}

}  // namespace
}  // namespace ddprun
