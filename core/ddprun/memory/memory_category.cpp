// The innermost scope of each thread.
#include "ddprun/memory/memory_category.h"

namespace ddprun {

namespace {

thread_local const MemoryScope* innermost = nullptr;

}  // namespace

MemoryScope::MemoryScope(MemoryCategory category) : outer_(innermost), category_(category) {
  innermost = this;
}

MemoryScope::~MemoryScope() { innermost = outer_; }

const MemoryCategory* MemoryScope::current() {
  return innermost == nullptr ? nullptr : &innermost->category_;
}

}  // namespace ddprun
