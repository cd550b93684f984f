// What a plugin declares its options with.
#pragma once

#include "ddprun/base/options.h"  // IWYU pragma: export
