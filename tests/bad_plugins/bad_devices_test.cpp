// Each library of a device that does not fit is refused with a sentence that says why.
#include "ddprun/device/device_library.h"
#include "support/matchers.h"

namespace ddprun::bad_devices_test {
namespace {

struct Case {
  const char* folder;
  const char* sentence;
};

class BadDevice : public testing::TestWithParam<Case> {};

INSTANTIATE_TEST_SUITE_P(Field, BadDevice,
                         testing::Values(Case{"device_size", "a descriptor of 1 bytes"},
                                         Case{"device_api", "API 999"},
                                         Case{"device_build", "torch 0"},
                                         Case{"device_no_build", "expected: torch "},
                                         Case{"device_name", "abacus"}),
                         [](const auto& test) { return std::string(test.param.folder); });

TEST_P(BadDevice, IsRefusedByItsHandshake) {
  const std::string name = GetParam().folder;
  const std::string file = DDPRUN_BUILD_DIR "/tests/bad_plugins/" + name + "/" + name + ".so";
  const std::string error = test::error_of<ConfigError>([&] { load_device_library("cuda", file); });
  EXPECT_THAT(error, AllOf(HasSubstr("the library of device cuda does not fit this ddprun"),
                           HasSubstr(file), HasSubstr(GetParam().sentence)));
}

}  // namespace
}  // namespace ddprun::bad_devices_test
