// Groups of some of the ranks: their collectives, their records, their backends, their errors.
#include <ATen/Functions.h>

#include "support/matchers.h"
#include "support/thread_ranks.h"

namespace ddprun {
namespace {

/// Rows and columns of a square of ranks.
std::vector<int> row_of(int rank) { return {rank / 2 * 2, rank / 2 * 2 + 1}; }
std::vector<int> column_of(int rank) { return {rank % 2, rank % 2 + 2}; }

TEST(Subgroups, SumTheirOwnAndAreRecordedWithTheRest) {
  for (const BackendKind backend : {BackendKind::gloo, BackendKind::shm}) {
    const CommConfig config{.backend = backend, .timeout_s = 30};
    test::run_ranks(
        4,
        [](ProcessGroup& group) {
          const int me = group.rank();
          ProcessGroup& row = group.subgroup(row_of(me));
          ProcessGroup& column = group.subgroup(column_of(me));
          EXPECT_EQ(row.rank(), me % 2);
          EXPECT_EQ(column.rank(), me / 2);
          EXPECT_EQ(&group.subgroup(row_of(me)), &row) << "made once";
          EXPECT_EQ(&group.subgroup({0, 1, 2, 3}), &group);
          group.take_records();
          const at::Tensor all = at::full({5}, 1 << me), in_row = all.clone(),
                           in_column = all.clone();
          Work first = row.all_reduce(in_row, ReduceOp::sum, "row");
          Work second = column.all_reduce(in_column, ReduceOp::sum, "column");
          Work third = group.all_reduce(all, ReduceOp::sum, "all");
          EXPECT_EQ(group.open_collectives().size(), 3U);
          for (Work* work : {&third, &second, &first}) work->wait();
          EXPECT_EQ(group.open_collectives().size(), 0U);
          EXPECT_EQ(in_row[0].item<int>(), me < 2 ? 3 : 12);
          EXPECT_EQ(in_column[0].item<int>(), me % 2 == 0 ? 5 : 10);
          EXPECT_EQ(all[0].item<int>(), 15);
          const at::Tensor memory = row.allocate(1000, at::kFloat);
          memory.fill_(me);
          row.all_reduce(memory, ReduceOp::avg, "memory").wait();
          EXPECT_TRUE(at::equal(memory, at::full({1000}, me < 2 ? 0.5F : 2.5F)));
          const auto records = group.take_records();
          ASSERT_EQ(records.size(), 4U);
          EXPECT_EQ(records[0].label, "row");
          EXPECT_EQ(records[0].ranks, 2);
          EXPECT_EQ(records[1].label, "column");
          EXPECT_EQ(records[2].label, "all");
          EXPECT_EQ(records[2].ranks, 4);
          const double bytes = 5 * 8, payload = 4000;  // a sum of two ranks sends what it is
          EXPECT_EQ(wire_bytes(records), bytes + bytes + 1.5 * bytes + payload);
        },
        config);
  }
}

TEST(Subgroups, TakeTheBackendThatFitsWhereTheirRanksAre) {
  for (const BackendKind backend : {BackendKind::automatic, BackendKind::hierarchical}) {
    test::run_hosts(2, 2,
                    [](ProcessGroup& group) {
                      ProcessGroup& on_a_host = group.subgroup(row_of(group.rank()));
                      EXPECT_EQ(on_a_host.backend_name(), "shm");
                      EXPECT_EQ(on_a_host.ranks_per_host(), 2);
                      ProcessGroup& between = group.subgroup(column_of(group.rank()));
                      EXPECT_EQ(between.backend_name(), "gloo");
                      EXPECT_EQ(between.ranks_per_host(), 1);
                      const at::Tensor one = at::ones({3});
                      between.all_reduce(one, ReduceOp::sum, "between").wait();
                      EXPECT_TRUE(at::equal(one, at::full({3}, 2.0F)));
                    },
                    {.backend = backend, .timeout_s = 30});
  }
}

TEST(Subgroups, AreOfRanksInOrderAndThisOneAmongThem) {
  const auto group = connect_thread(make_thread_store(), 0, 1, {});
  for (const std::vector<int>& ranks : {std::vector<int>{}, {1}, {0, 0}, {-1, 0}, {0, 1}}) {
    EXPECT_THAT(test::error_of<CommError>([&] { group->subgroup(ranks); }),
                HasSubstr("these ranks cannot be a group"));
  }
  EXPECT_EQ(&group->subgroup({0}), &*group);
}

TEST(Subgroups, NameTheirRanksInErrors) {
  const auto store = make_thread_store();
  const auto connect = [&](int rank) {
    return connect_thread(store, rank, 4, {.backend = BackendKind::gloo, .timeout_s = 2});
  };
  const auto body = [](ProcessGroup& group) {
    if (group.rank() == 2) {  // rank 3 leaves its row alone
      EXPECT_THAT(test::error_of<CommError>([&] {
                    group.subgroup({2, 3});
                  }),
                  AllOf(HasSubstr("not all ranks came"), HasSubstr("the group of ranks 2, 3"),
                        HasSubstr("missing: rank 3")));
    }
    if (group.rank() < 2) {
      ProcessGroup& row = group.subgroup({0, 1});
      EXPECT_THAT(test::error_of<CommError>([&] {
                    row.all_reduce(at::ones({2, 3}).t(), ReduceOp::sum, "turned");
                  }),
                  HasSubstr("of ranks 0, 1: rank " + std::to_string(group.rank()) +
                            " of 2, all_reduce 'turned'"));
    }
  };
  try {
    test::run_threads(4, connect, body);
  } catch (const CommError&) {  // ranks leave at different times
  }
}

}  // namespace
}  // namespace ddprun
