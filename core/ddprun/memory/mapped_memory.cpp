// Creates, opens and maps files in memory, with huge pages.
#include "ddprun/memory/mapped_memory.h"

#include <ATen/ceil_div.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <stdexcept>
#include <utility>

#include "ddprun/base/machine_memory.h"

namespace ddprun {

namespace {

constexpr std::size_t kHugePage = std::size_t{2} << 20;
constexpr int kCollapse = 25;  // MADV_COLLAPSE of Linux 6.1, which glibc 2.36 does not name

[[noreturn]] void fail(const std::string& call) { throw std::runtime_error(system_error(call)); }

[[noreturn]] void fail_to_map(std::size_t bytes) {
  fail("tried to allocate " + std::to_string(bytes) + " bytes: mmap");
}

std::size_t page() { return static_cast<std::size_t>(::getpagesize()); }

/// Reserves addresses for `bytes`, aligned to huge pages if they make at least one.
std::byte* reserve(std::size_t bytes) {
  const std::size_t slack = bytes >= kHugePage ? kHugePage : 0;
  void* found =
      ::mmap(nullptr, bytes + slack, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (found == MAP_FAILED) fail_to_map(bytes);
  auto* begin = static_cast<std::byte*>(found);
  if (slack == 0) return begin;
  const auto address = reinterpret_cast<std::uintptr_t>(begin);
  const std::size_t before = at::round_up(address, kHugePage) - address;
  if (before > 0) ::munmap(begin, before);
  if (slack > before) ::munmap(begin + before + bytes, slack - before);
  return begin + before;
}

/// Maps over reserved addresses.
Mapping map_over(std::size_t bytes, int flags, int descriptor) {
  Mapping mapping(reserve(bytes), bytes);
  if (::mmap(mapping.data(), bytes, PROT_READ | PROT_WRITE, flags | MAP_FIXED, descriptor, 0) ==
      MAP_FAILED) {
    fail_to_map(bytes);
  }
  return mapping;
}

/// Asks for whole huge pages in a file that is still empty. Systems switch them off for shared
/// memory by default, but grant this explicit request from Linux 6.1 on. Where they do not, the
/// pages stay small and everything else works as well. One page must be there first, because the
/// kernel completes a huge page but does not begin one.
void take_huge_pages(int descriptor, std::size_t bytes) {
  if (bytes < kHugePage) return;
  const Mapping mapping = map_over(bytes, MAP_SHARED, descriptor);
  for (std::size_t at = 0; at + kHugePage <= bytes; at += kHugePage) {
    if (::fallocate(descriptor, 0, static_cast<off_t>(at), 1) != 0 ||
        ::madvise(mapping.data() + at, kHugePage, kCollapse) != 0) {
      return;
    }
  }
}

}  // namespace

std::size_t whole_pages(std::size_t bytes) {
  return at::round_up(bytes, bytes >= kHugePage ? kHugePage : page());
}

std::string system_error(const std::string& call) { return call + ": " + std::strerror(errno); }

Mapping::~Mapping() {
  if (data_ != nullptr) ::munmap(data_, bytes_);
}
Mapping::Mapping(Mapping&& other) noexcept { *this = std::move(other); }
Mapping& Mapping::operator=(Mapping&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

void Mapping::forget() const { ::madvise(data_, bytes_, MADV_DONTNEED); }

Mapping map_private(std::size_t bytes) {
  Mapping mapping = map_over(at::round_up(bytes, page()), MAP_PRIVATE | MAP_ANONYMOUS, -1);
  // Wishes: without them it works as well. All of it is used, so its pages come now, and the first
  // to write it is not the one who waits.
  ::madvise(mapping.data(), mapping.bytes(), MADV_HUGEPAGE);
  ::madvise(mapping.data(), mapping.bytes(), MADV_POPULATE_WRITE);
  return mapping;
}

MemoryFile MemoryFile::create(std::size_t bytes, std::size_t bytes_of_all) {
  const auto available = static_cast<std::size_t>(available_memory());
  if (bytes_of_all > available) {
    throw std::runtime_error("the ranks of this host need " + std::to_string(bytes_of_all >> 20) +
                             " MiB of shared memory, and the machine has " +
                             std::to_string(available >> 20) + " MiB to give");
  }
  MemoryFile file(::memfd_create("ddprun", MFD_CLOEXEC));
  if (file.descriptor() < 0) fail("memfd_create");
  if (::ftruncate(file.descriptor(), static_cast<off_t>(bytes)) != 0) fail("ftruncate");
  take_huge_pages(file.descriptor(), bytes);
  if (::fallocate(file.descriptor(), 0, 0, static_cast<off_t>(bytes)) != 0) fail("fallocate");
  return file;
}

MemoryFile MemoryFile::open(pid_t pid, int descriptor) {
  const std::string path = "/proc/" + std::to_string(pid) + "/fd/" + std::to_string(descriptor);
  MemoryFile file(::open(path.c_str(), O_RDWR | O_CLOEXEC));
  if (file.descriptor() < 0) fail(path);
  return file;
}

Mapping MemoryFile::map(std::size_t bytes, bool at_once) const {
  struct stat status {};
  if (::fstat(descriptor(), &status) != 0) fail("fstat");
  if (static_cast<std::size_t>(status.st_size) < bytes) {
    throw std::runtime_error("the file holds " + std::to_string(status.st_size) + " bytes, not " +
                             std::to_string(bytes));
  }
  return map_over(bytes, at_once ? MAP_SHARED | MAP_POPULATE : MAP_SHARED, descriptor());
}

}  // namespace ddprun
