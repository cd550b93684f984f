// malloc's heap: whether it may lie in huge pages.
#include "ddprun/memory/huge_heap.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "support/sanitizers.h"

namespace ddprun::heap_test {
namespace {

constexpr std::int64_t kMiB = 1 << 20;

/// Of all that is mapped where huge pages were asked for.
std::int64_t advised_bytes() {
  std::ifstream maps("/proc/self/smaps");
  std::int64_t kib = 0, all_kib = 0;
  for (std::string line; std::getline(maps, line);) {
    if (line.starts_with("Size:")) kib = std::stoll(line.substr(5));
    if (line.starts_with("VmFlags:") && line.find(" hg") != std::string::npos) all_kib += kib;
  }
  return all_kib * 1024;
}

TEST(Heap, GrowsInHugePages) {
  if (!std::filesystem::exists("/sys/kernel/mm/transparent_hugepage")) {
    GTEST_SKIP() << "this kernel has no huge pages for ordinary memory";
  }
  if (test::kSanitized) GTEST_SKIP() << "a sanitizer's allocator has no heap";
  const std::int64_t before = advised_bytes();
  grow_heap_in_huge_pages(16 * kMiB);
  EXPECT_GE(advised_bytes() - before, 12 * kMiB);
  use_heap_as_usual();
}

}  // namespace
}  // namespace ddprun::heap_test
