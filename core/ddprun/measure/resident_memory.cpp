// Sums up /proc/self/smaps.
#include "ddprun/measure/resident_memory.h"

#include <malloc.h>

#include <algorithm>
#include <charconv>
#include <fstream>
#include <string>
#include <string_view>

namespace ddprun {

namespace {

/// glibc's heaps for threads but the main one start at multiples of it (HEAP_MAX_SIZE).
constexpr std::uintptr_t kThreadHeap = 64 << 20;

/// A line that begins a mapping: "7f00-7f10 rw-p 00000000 00:00 0    [heap]".
struct Head {
  ResidentMemory::Range range;
  std::string_view name;  // empty: anonymous
};

bool parse_head(std::string_view line, Head& head) {
  const char* const end = line.data() + line.size();
  const auto first = std::from_chars(line.data(), end, head.range.begin, 16);
  if (first.ec != std::errc() || first.ptr == end || *first.ptr != '-') return false;
  const auto second = std::from_chars(first.ptr + 1, end, head.range.end, 16);
  if (second.ec != std::errc() || second.ptr == end || *second.ptr != ' ') return false;
  const std::size_t name =
      line.find_first_of("/[", static_cast<std::size_t>(second.ptr - line.data()));
  head.name = name == std::string_view::npos ? std::string_view() : line.substr(name);
  return true;
}

/// "Pss:   12 kB" -> 12288; -1: another line.
std::int64_t parse_bytes(std::string_view line, std::string_view key) {
  if (!line.starts_with(key)) return -1;
  const std::size_t digits = line.find_first_of("0123456789");
  std::int64_t kib = 0;
  if (digits == std::string_view::npos) return -1;
  std::from_chars(line.data() + digits, line.data() + line.size(), kib);
  return kib * 1024;
}

}  // namespace

bool ResidentMemory::within(const std::vector<Range>& ranges, const void* address) {
  const auto at = reinterpret_cast<std::uintptr_t>(address);
  return std::ranges::any_of(ranges,
                             [at](const Range& each) { return each.begin <= at && at < each.end; });
}

ResidentMemory parse_smaps(std::istream& smaps) {
  ResidentMemory out;
  std::int64_t* sum = &out.anonymous;
  std::string line;
  Head head;
  while (std::getline(smaps, line)) {
    if (const std::int64_t pss = parse_bytes(line, "Pss:"); pss >= 0) {
      *sum += pss;
      continue;
    }
    if (!parse_head(line, head)) continue;
    const bool thread_heap = head.name.empty() && head.range.begin % kThreadHeap == 0;
    if (head.name.starts_with("[heap") || thread_heap) {
      sum = &out.heap;
      out.heap_ranges.push_back(head.range);
    } else if (head.name.starts_with("/memfd:")) {
      sum = &out.shared;
      out.shared_ranges.push_back(head.range);
    } else {
      sum = head.name.starts_with('/') ? &out.files : &out.anonymous;
    }
  }
  return out;
}

ResidentMemory resident_memory() {
  std::ifstream smaps("/proc/self/smaps");
  ResidentMemory out = parse_smaps(smaps);
  out.heap_in_use = static_cast<std::int64_t>(mallinfo2().uordblks);
  return out;
}

std::int64_t shared_resident_bytes() {
  std::ifstream rollup("/proc/self/smaps_rollup");
  std::int64_t resident = 0, proportional = 0;
  for (std::string line; std::getline(rollup, line);) {
    resident = std::max(resident, parse_bytes(line, "Rss:"));
    proportional = std::max(proportional, parse_bytes(line, "Pss:"));
  }
  return resident - proportional;
}

}  // namespace ddprun
