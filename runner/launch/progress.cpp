// Progress on stderr.
#include "runner/launch/progress.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "ddprun/base/clock.h"
#include "ddprun/base/text.h"

namespace ddprun {

namespace {

constexpr std::int64_t kLineIntervalNs = 1'000'000'000;
constexpr int kNarrowTerminal = 100;
constexpr int kLeastNameWidth = 12;

/// 75 -> "1 min 15 s".
std::string duration_text(double seconds) {
  const auto whole = static_cast<std::int64_t>(std::ceil(std::max(0.0, seconds)));
  if (whole < 60) return fmt::format("{} s", whole);
  if (whole < 3600) return fmt::format("{} min {} s", whole / 60, whole % 60);
  return fmt::format("{} h {} min", whole / 3600, whole / 60 % 60);
}

/// "━━━━━━━━╸           7/15  loss 5.412, 31.2 ms/step  4 s left"; `seconds_left` < 0: unknown.
std::string progress_text(const Progress& progress, double seconds_left, int bar_width) {
  const double done = progress.steps > 0 ? static_cast<double>(progress.step) / progress.steps : 0;
  const int filled = std::clamp(static_cast<int>(done * bar_width), 0, bar_width);
  std::string bar;
  for (int i = 0; i < bar_width; ++i) bar += i < filled ? "━" : "┄";
  auto text = fmt::format("{} {}/{}  {}", bar, progress.step, progress.steps, progress.figures);
  if (seconds_left >= 0) text += "  " + duration_text(seconds_left) + " left";
  return text;
}

}  // namespace

void ProgressDisplay::begin_run(int index, int count, const std::string& name, std::int64_t ranks) {
  name_ = fmt::format("[{}/{}] {}", index, count, name);
  begin_ns_ = now_ns();
  first_ns_ = 0;
  last_line_ns_ = begin_ns_;
  const std::string text = fmt::format("{}: starting {}", name_, counted(ranks, "rank"));
  if (mode_ == Mode::bar) draw(text);
  if (mode_ == Mode::plain || mode_ == Mode::verbose) message(text);
}

void ProgressDisplay::update(const Progress& progress) {
  const std::int64_t now = now_ns();
  double seconds_left = -1;
  if (first_ns_ == 0) {
    first_ns_ = now;
    first_step_ = progress.step;
  } else if (progress.step > first_step_) {
    const double per_step =
        to_s(now - first_ns_) / static_cast<double>(progress.step - first_step_);
    seconds_left = per_step * static_cast<double>(progress.steps - progress.step);
  }
  if (mode_ == Mode::bar) {  // a long name gives way to the figures
    const auto text = progress_text(progress, seconds_left, width_ < kNarrowTerminal ? 10 : 20);
    const int room = width_ - 1 - display_width("  " + text);
    draw(cut_to_width(name_, std::max(kLeastNameWidth, room)) + "  " + text);
  }
  if (mode_ == Mode::verbose && now - last_line_ns_ >= kLineIntervalNs) {
    last_line_ns_ = now;
    message(fmt::format("{}: step {} of {}, {}", name_, progress.step, progress.steps,
                        progress.figures));
  }
}

void ProgressDisplay::end_run(const std::string& text) {
  if (mode_ == Mode::silent) return;
  message(fmt::format("{}: {} ({:.1f} s)", name_, text, seconds_since(begin_ns_)));
}

void ProgressDisplay::message(const std::string& text) {
  clear();
  std::fprintf(stream_, "%s\n", text.c_str());
  std::fflush(stream_);
}

void ProgressDisplay::clear() {
  if (!drawn_) return;
  std::fputs("\r\033[K", stream_);
  std::fflush(stream_);
  drawn_ = false;
}

void ProgressDisplay::draw(const std::string& text) {
  std::fprintf(stream_, "\r%s\033[K", cut_to_width(text, std::max(20, width_ - 1)).c_str());
  std::fflush(stream_);
  drawn_ = true;
}

}  // namespace ddprun
