// A library that ends the process which loads it, as a damaged one may.
#include <cstdlib>

namespace {

[[gnu::constructor]] void end() { DDPRUN_END; }

}  // namespace
