// A group's ranks for code that is written against c10d.
#pragma once

#include <c10/util/intrusive_ptr.h>

namespace c10d {
class ProcessGroup;
}

namespace ddprun {

class RankGroup;

/// For c10d::Reducer and its like: ProcessGroup::as_c10d() of a group of ddprun's own.
c10::intrusive_ptr<c10d::ProcessGroup> as_c10d(RankGroup& group);

}  // namespace ddprun
