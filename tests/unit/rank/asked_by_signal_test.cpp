// What signals ask of a process.
#include "ddprun/rank/asked_by_signal.h"

#include <gtest/gtest.h>

namespace ddprun {
namespace {

TEST(AskedBySignal, ALaterRunInTheProcessIsAskedAnew) {
  {
    AskedBySignal asked;
    EXPECT_FALSE(asked.take_save() || asked.to_end());
    raise(SIGUSR1);
    EXPECT_TRUE(asked.take_save());
    EXPECT_FALSE(asked.take_save()) << "once";
    raise(SIGUSR1);
    raise(SIGTERM);
    EXPECT_TRUE(asked.to_end());
  }
  AskedBySignal later;
  EXPECT_FALSE(later.take_save() || later.to_end());
}

}  // namespace
}  // namespace ddprun
