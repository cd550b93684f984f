// In which dtypes the flat buffers are: what ParameterLayout::dtypes() returns.
#pragma once

#include "ddprun/optim/buffer_dtypes.h"  // IWYU pragma: export
