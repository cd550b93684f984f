// The shells that are told what may be typed.
#pragma once

#include <array>
#include <cstdint>

namespace ddprun {

enum class Shell : std::uint8_t { bash, zsh, fish };
constexpr auto choice_names(Shell) { return std::array{"bash", "zsh", "fish"}; }

}  // namespace ddprun
