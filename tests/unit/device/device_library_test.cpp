// Devices: the CPU's marks; libraries that are not there or do not fit; what is said where a GPU is
// missing.
#include "ddprun/device/device_library.h"

#include <cstdlib>
#include <fstream>
#include <set>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include "ddprun/base/clock.h"
#include "ddprun/base/own_library.h"
#include "ddprun/config/experiment.h"
#include "support/environment_variables.h"
#include "support/matchers.h"

namespace ddprun {
namespace {

const std::string kBuild = DDPRUN_BUILD_DIR;

std::string refusal_of(const std::string& name, const std::filesystem::path& file) {
  return test::error_of<ConfigError>([&] { load_device_library(name, file); });
}

std::string loaded_libraries() {
  std::ifstream in("/proc/self/maps");
  return {std::istreambuf_iterator<char>(in), {}};
}

TEST(CpuDevice, MarksAreTimes) {
  const auto device = open_device(DeviceKind::cpu, 3);
  const std::int64_t before = now_ns();
  const Mark mark = device->mark();
  EXPECT_LE(before, device->time_of(mark));
  EXPECT_LE(device->time_of(mark), now_ns());
  EXPECT_EQ(device->torch_device(), c10::kCPU);
  EXPECT_THAT(device->describe(), IsEmpty());
  EXPECT_EQ(device->make_backend({}, 0, 1, {}), nullptr);
}

TEST(CpuDevice, IsAlwaysThere) {
  EXPECT_NO_THROW(check_device(DeviceKind::cpu, 1000, "a.yaml:1:1"));
}

TEST(DeviceLibrary, StandsBesideTheCore) {
  EXPECT_EQ(own_library_file("cuda"), kBuild + "/lib/libddprun_cuda.so");
}

TEST(DeviceLibrary, ThatIsNotBuiltIsRefusedWithTheWayToBuildIt) {
  EXPECT_THAT(refusal_of("cuda", "/nowhere/libddprun_cuda.so"),
              AllOf(HasSubstr("this ddprun was built without support for device cuda"),
                    HasSubstr("no /nowhere/libddprun_cuda.so"), HasSubstr("DDPRUN_CUDA=ON")));
}

TEST(DeviceLibrary, ThatIsNoLibraryIsRefused) {
  EXPECT_THAT(refusal_of("cuda", kBuild + "/build.ninja"),
              HasSubstr("the library of device cuda cannot be loaded"));
}

TEST(DeviceLibrary, ThatIsNoDeviceIsRefused) {
  EXPECT_THAT(refusal_of("cuda", kBuild + "/lib/ddprun/plugins/strategy_flat.so"),
              AllOf(HasSubstr("the library is not of a device"), HasSubstr("ddprun_device_v1")));
}

class Cuda : public testing::Test {
 protected:
  void SetUp() override {
    if (!std::filesystem::exists(own_library_file("cuda"))) {
      GTEST_SKIP() << "CUDA support is not built";
    }
  }

  /// The library sets new variables for its process when it is loaded; other cases do without.
  void TearDown() override {
    for (const std::string& each : test::environment()) {
      if (!before_.contains(each)) ::unsetenv(test::name_of_variable(each).c_str());
    }
  }

 private:
  const std::set<std::string> before_ = test::environment();
};

TEST_F(Cuda, LibraryIsLoadedOnlyWhenAskedForAndNeedsNoDriver) {
  EXPECT_THAT(loaded_libraries(), Not(HasSubstr("libtorch_cuda.so")));
  EXPECT_EQ(refusal_of("cuda", own_library_file("cuda")), "no error");
  EXPECT_THAT(loaded_libraries(), HasSubstr("libtorch_cuda.so"));
}

TEST_F(Cuda, WithoutAGpuCheckSaysWhyInOneSentence) {
  if (probe_device(DeviceKind::cuda).count > 0) GTEST_SKIP() << "there is a GPU";
  const ErrorText error =
      test::error_text_of<ConfigError>([&] { check_device(DeviceKind::cuda, 1, "a.yaml:3:9"); });
  EXPECT_THAT(error.what, AnyOf(HasSubstr("driver"), HasSubstr("GPU")));
  EXPECT_EQ(error.where, "a.yaml:3:9");
  EXPECT_FALSE(error.got.empty());
  EXPECT_FALSE(error.hint.empty());
}

TEST_F(Cuda, ARankWithoutADeviceIsRefused) {
  const int count = probe_device(DeviceKind::cuda).count;
  if (count == 0) GTEST_SKIP() << "no GPU";
  EXPECT_THROW(check_device(DeviceKind::cuda, count + 1, ""), ConfigError);
  EXPECT_NO_THROW(check_device(DeviceKind::cuda, count, ""));
}

}  // namespace
}  // namespace ddprun
