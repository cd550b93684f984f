// Named ranges for a profiler's timeline: NVTX, domain "ddprun". They need no CUDA. Where no
// profiler listens, they do nothing.
#pragma once

#include <cstdint>
#include <string>

namespace ddprun {

/// A range of one thread, while it lives; they nest. A profiler shows `name` and `payload`.
class ProfilerRange {
 public:
  explicit ProfilerRange(const char* name, std::int64_t payload = 0);
  ~ProfilerRange();
  ProfilerRange(const ProfilerRange&) = delete;
  ProfilerRange& operator=(const ProfilerRange&) = delete;

 private:
  bool pushed_;
};

/// A range that may overlap others and end on another thread. A profiler shows it as "kind: label".
class ProfilerSpan {
 public:
  ProfilerSpan(const char* kind, const std::string& label, std::int64_t payload);
  ~ProfilerSpan();
  ProfilerSpan(const ProfilerSpan&) = delete;
  ProfilerSpan& operator=(const ProfilerSpan&) = delete;

 private:
  std::uint64_t id_ = 0;
  bool started_;
};

}  // namespace ddprun
