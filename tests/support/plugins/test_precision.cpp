// A precision with every default, named by its build.
#include "ddprun/plugin/export.h"
#include "ddprun/plugin/precision.h"

namespace {

class TestPrecision final : public ddprun::Precision {};

}  // namespace

DDPRUN_PRECISION(TestPrecision, TEST_NAME, TEST_SUMMARY, "1.2")
