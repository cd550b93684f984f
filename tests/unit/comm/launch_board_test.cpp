// What one rank writes on a launch's board while another reads it.
#include "ddprun/comm/store/launch_board.h"

#include <gtest/gtest.h>

#include <atomic>
#include <string>
#include <thread>

namespace ddprun {
namespace {

// The board keeps the last calls alone, so the writer often overtakes who reads.
TEST(LaunchBoard, ACallIsReadWholeOrNotAtAllWhileOthersTakeItsPlace) {
  static LaunchBoard board(1);  // this process stays attached to it
  board.attach(0);
  constexpr std::uint64_t kCalls = 300'000;
  std::atomic<bool> done = false;
  std::thread writer([&done] {
    for (std::uint64_t number = 1; number <= kCalls; ++number) {
      LaunchBoard::announce(1, "all_reduce", static_cast<std::int64_t>(number),
                            std::to_string(number));
    }
    done = true;
  });
  std::uint64_t read = 0, mixed = 0;
  while (!done) {
    for (const CollectiveCall& call : board.recent_calls(0).calls) {
      ++read;
      const bool whole = call.number == static_cast<std::uint64_t>(call.bytes) &&
                         std::to_string(call.number) == call.label;
      if (!whole) ++mixed;
    }
  }
  writer.join();
  EXPECT_GT(read, 0u);
  EXPECT_EQ(mixed, 0u);
  const auto last = board.recent_calls(0).calls;
  ASSERT_FALSE(last.empty());
  EXPECT_EQ(last.back().number, kCalls);
}

}  // namespace
}  // namespace ddprun
