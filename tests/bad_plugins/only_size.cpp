// A descriptor that holds its size and nothing else: reading on would read past its end.
#include <cstdint>

extern "C" const std::uint32_t ddprun_plugin_v1;
const std::uint32_t ddprun_plugin_v1 = 4;
