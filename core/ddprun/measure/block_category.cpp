// A scope says it; else the phase that made the block, and whether the block outlived that.
#include "ddprun/measure/block_category.h"

namespace ddprun {

MemoryCategory category_of(const BlockLife& life) {
  if (life.scope) return *life.scope;
  // Tables and masks that are made once; what is larger has a scope.
  if (!life.phase) return MemoryCategory::workspace;
  if (life.again) return life.left ? MemoryCategory::saved : MemoryCategory::backward;
  switch (*life.phase) {
    case Phase::forward:
      if (!life.left) return MemoryCategory::forward;
      return life.stays ? MemoryCategory::workspace : MemoryCategory::saved;
    case Phase::backward:
      return MemoryCategory::backward;
    case Phase::synchronize:
      return MemoryCategory::communication;
    case Phase::setup:
    case Phase::step:
    case Phase::optimizer:
      break;
  }
  return MemoryCategory::workspace;
}

}  // namespace ddprun
