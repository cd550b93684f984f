// What a rank reads for one sample of a step.
#pragma once

#include <cstdint>
#include <string>

namespace ddprun {

struct SampleRead {
  std::int64_t rank = 0;
  std::int64_t micro_batch = 0;  ///< of the rank's step
  std::int64_t sample = 0;       ///< of the global batch
  std::string place = {};        ///< "a.txt 96..99, b.txt 0..4": tokens of files, the last included
  std::string bytes = {};        ///< of data whose tokens are text: all of the sample
  std::int64_t documents = 0;    ///< that it has tokens of; 0: nobody says where one ends
  std::int64_t targets = 0;      ///< tokens whose loss counts
};

}  // namespace ddprun
