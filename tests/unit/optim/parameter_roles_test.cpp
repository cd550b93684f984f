// Which parameters are trained, frozen, or the same as another, and in which unit.
#include "ddprun/optim/parameter_roles.h"

#include <ATen/Functions.h>

#include "support/matchers.h"

namespace ddprun::parameter_roles_test {
namespace {

at::Tensor trained() { return at::ones({4}).requires_grad_(); }
at::Tensor frozen() { return at::ones({4}); }

std::string error_of(const std::vector<NamedTensor>& parameters) {
  return test::error_of<ConfigError>([&] { ParameterRoles roles(parameters); });
}

TEST(ParameterRoles, SayWhereEachParameterIs) {
  const at::Tensor twice = trained(), still = frozen();
  const ParameterRoles roles({{"a", still, "1"},
                              {"b", twice, "2"},
                              {"c", frozen(), "3"},
                              {"d", trained(), "4"},
                              {"e", still, "4"},
                              {"f", twice, "5"}});
  ASSERT_EQ(roles.trained.size(), 2U);
  ASSERT_EQ(roles.frozen.size(), 2U);
  EXPECT_THAT(roles.names, ElementsAre("a", "b", "c", "d", "e", "f"));
  std::vector<std::pair<bool, int>> places;
  for (const auto& place : roles.places) places.emplace_back(place.trained, place.number);
  EXPECT_THAT(places, ElementsAre(std::pair{false, 0}, std::pair{true, 0}, std::pair{false, 1},
                                  std::pair{true, 1}, std::pair{false, 0}, std::pair{true, 0}));
  EXPECT_THAT(roles.units, ElementsAre(-1, 0, -1, 1, -1));
  EXPECT_TRUE(roles.trained[0].used_elsewhere) << "b and f";
  EXPECT_FALSE(roles.trained[1].used_elsewhere);
  EXPECT_TRUE(roles.frozen[0].used_elsewhere) << "a and e";
  EXPECT_THAT(roles.unit_names, ElementsAre("1", "2", "3", "4", "5"));
  const at::Tensor once = frozen();
  const ParameterRoles within({{"a", once, "1"}, {"b", once, "1"}, {"c", trained(), "2"}});
  EXPECT_FALSE(within.frozen[0].used_elsewhere);
}

TEST(ParameterRoles, KnowWhatReadsATiedWeightWhicheverUseComesFirst) {
  const at::Tensor tensor = trained();
  for (const bool table_first : {true, false}) {
    const ParameterRoles roles({{"a", tensor, "1", table_first}, {"b", tensor, "2", !table_first}});
    ASSERT_EQ(roles.trained.size(), 1U);
    EXPECT_TRUE(roles.trained[0].read_in_float32);
    EXPECT_TRUE(roles.trained[0].read_in_products);
  }
  const ParameterRoles in_float32({{"a", tensor, "1", true}, {"b", tensor, "1", true}});
  EXPECT_FALSE(in_float32.trained[0].read_in_products);
}

TEST(ParameterRoles, RefuseWhatNoModelCanMean) {
  EXPECT_THAT(error_of({}), HasSubstr("the model has no parameters"));
  EXPECT_THAT(error_of({{"a", {}}}), HasSubstr("\"a\" is undefined"));
  EXPECT_THAT(error_of({{"a", frozen()}, {"a", trained()}}), HasSubstr("\"a\" appears twice"));
  EXPECT_THAT(error_of({{"a", trained(), "1"}, {"b", frozen(), "2"}, {"c", trained(), "1"}}),
              HasSubstr("the parameters of unit \"1\" do not follow each other"));
  EXPECT_THAT(error_of({{"a", frozen()}, {"b", frozen()}}),
              AllOf(HasSubstr("all parameters are frozen"), HasSubstr("2 that require")));
}

}  // namespace
}  // namespace ddprun::parameter_roles_test
