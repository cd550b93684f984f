// A precision with every default.
#include "ddprun/plugin/export.h"
#include "ddprun/plugin/precision.h"

namespace {

class TestPrecision final : public ddprun::Precision {};

}  // namespace

DDPRUN_PLUGIN_AS(first_c, TestPrecision, precision, "apple", "first", "1.2")
