// In which dtypes the flat buffers are, and which of them is read of a parameter: what
// ParameterLayout::dtypes() and reads() return.
#pragma once

#include "ddprun/optim/buffer_dtypes.h"    // IWYU pragma: export
#include "ddprun/optim/parameter_reads.h"  // IWYU pragma: export
