// Texts of exceptions, and the words in which memory runs out.
#include "ddprun/base/failure.h"

#include <c10/util/Exception.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include <algorithm>
#include <array>
#include <new>
#include <system_error>

namespace ddprun {

namespace {

/// How torch's CPU allocators, the system (ENOMEM) and the CUDA driver say that memory ran out.
constexpr std::array kMemoryWords = {"can't allocate memory", "not enough memory",
                                     "Cannot allocate memory", "out of memory"};

/// How the system says (EAGAIN) that a thread could not be started: its stack is memory.
constexpr const char* kNoThread = "Resource temporarily unavailable";

}  // namespace

std::string message_of(const std::exception& failure) {
  const auto* torch_error = dynamic_cast<const c10::Error*>(&failure);
  return torch_error != nullptr ? torch_error->what_without_backtrace() : failure.what();
}

std::string first_line_of(const std::exception& failure) {
  const std::string text = message_of(failure);
  return text.substr(0, text.find('\n'));
}

bool says_out_of_memory(const std::exception& failure) {
  if (dynamic_cast<const c10::OutOfMemoryError*>(&failure) != nullptr ||
      dynamic_cast<const std::bad_alloc*>(&failure) != nullptr) {
    return true;
  }
  const std::string text = message_of(failure);
  const auto says = [&text](const char* words) { return text.find(words) != std::string::npos; };
  return std::ranges::any_of(kMemoryWords, says) || (says(kNoThread) && at_memory_limit());
}

bool says_no_thread(const std::exception& failure) {
  const auto* of_system = dynamic_cast<const std::system_error*>(&failure);
  return of_system != nullptr && of_system->code() == std::errc::resource_unavailable_try_again;
}

bool at_memory_limit() {
  rlimit limit = {};
  if (::getrlimit(RLIMIT_DATA, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return false;
  void* const room = ::mmap(nullptr, kLittleMemory, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (room == MAP_FAILED) return true;
  ::munmap(room, kLittleMemory);
  return false;
}

}  // namespace ddprun
