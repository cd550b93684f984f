// To be preloaded: a steady clock that goes a tenth slower, so that every step looks faster.
// With WOBBLES one that is too fast for 10 ms, and too slow for the next 10.
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

namespace {

long long ask(clockid_t clock) {
  timespec time = {};
  syscall(SYS_clock_gettime, clock, &time);
  return time.tv_sec * 1'000'000'000LL + time.tv_nsec;
}

const long long kBegin = ask(CLOCK_MONOTONIC);

long long shown(long long time) {
#ifdef WOBBLES
  constexpr long long kHalf = 10'000'000;
  const long long phase = time % (2 * kHalf);
  return time + (phase < kHalf ? phase : 2 * kHalf - phase) / 4;
#else
  return kBegin + (time - kBegin) / 10 * 9;
#endif
}

}  // namespace

extern "C" int clock_gettime(clockid_t clock, timespec* out) noexcept {
  long long time = ask(clock);
  if (clock == CLOCK_MONOTONIC && kBegin > 0) time = shown(time);
  *out = {.tv_sec = time / 1'000'000'000, .tv_nsec = time % 1'000'000'000};
  return 0;
}
