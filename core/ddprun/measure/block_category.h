// What a block of memory is for, by its life: of a step that was recorded, and of one that was
// predicted.
#pragma once

#include <optional>

#include "ddprun/measure/phase.h"
#include "ddprun/memory/memory_category.h"

namespace ddprun {

struct BlockLife {
  std::optional<MemoryCategory> scope = {};  ///< what its maker said that it is for
  std::optional<Phase> phase = {};           ///< of the step, in which it was made; empty: before
  bool again = false;  ///< it was made where backward computes a part of the forward again
  bool left = false;   ///< it outlived that phase, or that part
  bool stays = false;  ///< it outlived the step
};

MemoryCategory category_of(const BlockLife& life);

}  // namespace ddprun
