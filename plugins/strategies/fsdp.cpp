// Strategy "fsdp": parameters, gradients and moments are kept in parts (Rajbhandari et al., SC
// 2020, section 5.3; Zhao et al., VLDB 2023: fully sharded data parallelism).
#include "ddprun/plugin/export.h"
#include "ddprun/plugin/parts/unit_sharding.h"

DDPRUN_STRATEGY(ddprun::UnitSharding, "fsdp",
                "each rank keeps a slice of everything; units are gathered to be used", "1.3")
