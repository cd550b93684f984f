// Rounds of texts that are not as they should be.
#include "ddprun/comm/store/store_round.h"

#include <torch/csrc/distributed/c10d/HashStore.hpp>

#include "ddprun/comm/store/comm_failure.h"
#include "support/matchers.h"

namespace ddprun {
namespace {

class StoreRounds : public testing::Test {
 protected:
  StoreRound round_of(int size, std::vector<int> members = {}) {
    return {*store_, "round", size, "rank 0", std::move(members)};
  }
  ErrorText error_of_texts(int size) {
    return test::error_text_of<CommError>([&] { round_of(size).texts(); });
  }

  c10::intrusive_ptr<c10d::Store> store_ = c10::make_intrusive<c10d::HashStore>();
};

TEST_F(StoreRounds, TheLastToComeIsToldSo) {
  EXPECT_FALSE(round_of(3).bring(2, "2 of 3 "));
  EXPECT_FALSE(round_of(3).bring(0, "0\n1 0 1 x"));
  EXPECT_TRUE(round_of(3).bring(1));
  round_of(3).wait(std::chrono::milliseconds(1));
  EXPECT_THAT(round_of(3).texts(), ElementsAre("0\n1 0 1 x", "", "2 of 3 "));
  round_of(3).remove();
  EXPECT_EQ(store_->getNumKeys(), 0);
}

TEST_F(StoreRounds, LongTextsTravelInPiecesAndLeaveNone) {
  const std::string third((std::size_t{4} << 20) / 3 + 1, 'x');  // three are more than an answer
  for (int rank = 0; rank < 3; ++rank) round_of(3).bring(rank, third + std::to_string(rank));
  EXPECT_LT(store_->get_to_str("round").size(), 100U);
  EXPECT_THAT(round_of(3).texts(), ElementsAre(third + "0", third + "1", third + "2"));
  round_of(3).remove();
  EXPECT_EQ(store_->getNumKeys(), 0);
}

TEST_F(StoreRounds, WhoDoesNotComeIsNamedByItsNumberInTheRun) {
  round_of(4, {1, 3, 5, 7}).bring(2);
  const ErrorText error = test::error_text_of<TimeoutError>([&] {
    round_of(4, {1, 3, 5, 7}).wait(std::chrono::milliseconds(100));
  });
  EXPECT_EQ(error.what, "not all ranks came");
  EXPECT_EQ(error.got, "1 of 4 within 0.1 s; missing: rank 1, 3, 7");
}

TEST_F(StoreRounds, WhatIsNoneOfItsRanksIsRefused) {
  for (const std::string foreign : {"x", "0 0 1 ", "2 0 0 ", "0 9999 0 ", "0 0", "-1 0 0 "}) {
    store_->set("round", foreign);
    EXPECT_THAT(error_of_texts(2).what, HasSubstr("is not ddprun's")) << foreign;
  }
}

TEST_F(StoreRounds, TwoOfOneRankAreRefused) {
  round_of(2).bring(1, "one");
  round_of(2).bring(1, "another");
  EXPECT_THAT(error_of_texts(2).got, HasSubstr("another"));
}

}  // namespace
}  // namespace ddprun
