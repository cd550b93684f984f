// The text of an exception, whoever threw it; torch's own comes without its backtrace.
#pragma once

#include <exception>
#include <string>

namespace ddprun {

/// The whole text.
std::string message_of(const std::exception& failure);
std::string first_line_of(const std::exception& failure);

/// Whether the exception says that memory ran out, of the host or of the device.
bool says_out_of_memory(const std::exception& failure);

}  // namespace ddprun
