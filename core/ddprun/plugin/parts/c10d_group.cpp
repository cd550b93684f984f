// c10d code needs the group behind the interface that strategies see.
#include "ddprun/plugin/parts/c10d_group.h"

#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include "ddprun/comm/group/process_group.h"

namespace ddprun {

c10::intrusive_ptr<c10d::ProcessGroup> as_c10d(RankGroup& group) {
  return dynamic_cast<ProcessGroup&>(group).as_c10d();
}

}  // namespace ddprun
