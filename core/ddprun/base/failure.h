// The text of an exception, whoever threw it; torch's own comes without its backtrace.
#pragma once

#include <cstddef>
#include <exception>
#include <string>

namespace ddprun {

/// The whole text.
std::string message_of(const std::exception& failure);
std::string first_line_of(const std::exception& failure);

/// Whether the exception says that memory ran out, of the host or of the device. At the limit of
/// this process it may do so by a thread that could not be started.
bool says_out_of_memory(const std::exception& failure);

/// Whether the exception says that a thread could not be started; what to do about it.
bool says_no_thread(const std::exception& failure);
inline constexpr const char* kNoThreadHint =
    "no thread could be started: `ulimit -u` counts all threads of a user, and a container's pids "
    "limit those in it";

/// What a few threads would take.
inline constexpr std::size_t kLittleMemory = 32 << 20;

/// Whether private memory of this process is limited (RLIMIT_DATA), and but little of it is left.
bool at_memory_limit();

}  // namespace ddprun
