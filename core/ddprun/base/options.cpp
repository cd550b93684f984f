// The visitor's vtable.
#include "ddprun/base/options.h"

namespace ddprun {

Options::~Options() = default;

}  // namespace ddprun
