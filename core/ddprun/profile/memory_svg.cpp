// Stacked areas, axes and legend as SVG.
#include "ddprun/profile/memory_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <ranges>
#include <vector>

#include "ddprun/profile/svg.h"

namespace ddprun {

namespace {

/// From the bottom up, as the categories.
constexpr std::array<const char*, kChoices<MemoryCategory>.size()> kColours = {
    palette::kBlue,  palette::kLightBlue, palette::kOrange, palette::kGreen,
    palette::kRed,   palette::kYellow,    palette::kPink,   palette::kPurple,
    palette::kBrown, palette::kTeal,      palette::kGrey};
constexpr std::size_t kColumns = 1000;  // of the picture, each with one height

double megabytes(std::int64_t bytes) { return static_cast<double>(bytes) * 1e-6; }

/// In the order of time, at most one a column: the highest, so that no peak is lost.
std::vector<MemoryPoint> thinned(const MemoryAccount& account) {
  std::vector<MemoryPoint> out;
  const double duration = static_cast<double>(account.end_ns() - account.begin_ns());
  std::size_t column = 0;
  for (const MemoryPoint& point : account.points()) {
    const double part = static_cast<double>(point.time_ns - account.begin_ns()) / duration;
    const auto at = static_cast<std::size_t>(std::max(0.0, part) * kColumns);
    if (out.empty() || at != column) {
      out.push_back(point);
    } else if (point.bytes.sum() > out.back().bytes.sum()) {
      out.back() = point;
    }
    column = at;
  }
  MemoryPoint last = account.points().back();
  last.time_ns = account.end_ns();
  out.push_back(last);
  return out;
}

std::string words_of_peak(const MemoryAccount& account) {
  const MemoryMoment& peak = account.peak();
  std::string out = fmt::format(
      "Areas of each category, stacked over the time of the step. At the peak, in {}: "
      "{:.2f} MB",
      account.peak_phase(), megabytes(peak.tensors.sum()));
  for (const MemoryCategory each : kChoices<MemoryCategory>) {
    if (peak.tensors[each] == 0) continue;
    out += fmt::format(", {} {:.2f}", name_of(each), megabytes(peak.tensors[each]));
  }
  return out + ".";
}

class Picture {
 public:
  explicit Picture(const MemoryAccount& account)
      : account_(account),
        points_(thinned(account)),
        ms_{kLeft, kWidth, std::max(1e-6, ms(account.end_ns()))},
        mb_{kTop + kHeight, -kHeight,
            std::max(1e-6, megabytes(account.peak().tensors.sum()) * 1.12)},
        svg_(kLeft + kWidth + kLegend, kTop + kHeight + kBottom,
             "Memory of a step's tensors, rank 0", words_of_peak(account)) {}

  std::string text() {
    add_phases();
    add_areas();
    name_phases();
    add_axes();
    add_peak();
    add_legend();
    return svg_.finish();
  }

 private:
  double ms(std::int64_t ns) const { return static_cast<double>(ns - account_.begin_ns()) * 1e-6; }
  double x(std::int64_t ns) const { return ms_(ms(ns)); }

  void add_phases() {
    bool shaded = true;
    for (const MemorySpan& span : account_.recorded().spans) {
      if (span.again || span.phase == Phase::step) continue;
      const double begin = x(span.begin_ns), width = x(span.end_ns) - begin;
      svg_.box({begin, kTop - 22, width, kHeight + 22}, shaded ? ".band" : ".other");
      shaded = !shaded;
    }
  }

  /// Upright where the band is too narrow; not at all where it is narrower than a line.
  void name_phases() {
    for (const MemorySpan& span : account_.recorded().spans) {
      if (span.again || span.phase == Phase::step) continue;
      const double width = x(span.end_ns) - x(span.begin_ns), middle = x(span.begin_ns) + width / 2;
      const std::string name = span.name();
      if (width > text_width(name)) {
        svg_.text(middle, kTop - 7, name, "text-anchor=\"middle\" class=\"dim\"");
      } else if (width > 9) {
        svg_.text_upwards(middle + 4, kTop - 18, name, "text-anchor=\"end\" class=\"dim\"");
      }
    }
  }

  /// Each category as a polygon of steps upon those below it.
  void add_areas() {
    std::vector<double> floor(points_.size(), 0.0);
    for (const MemoryCategory category : kChoices<MemoryCategory>) {
      std::vector<double> roof = floor;
      bool any = false;
      for (std::size_t i = 0; i < points_.size(); ++i) {
        roof[i] += megabytes(points_[i].bytes[category]);
        any |= points_[i].bytes[category] > 0;
      }
      if (any) {
        svg_.path(fmt::format("M{}L{}Z", steps(roof, false), steps(floor, true)),
                  fmt::format("fill=\"{}\"", colour_of(category)));
      }
      floor = std::move(roof);
    }
  }

  /// The corners of a line that keeps each height until the next point.
  std::string steps(const std::vector<double>& mb, bool backwards) const {
    std::vector<std::pair<double, double>> corners;
    for (std::size_t i = 0; i < mb.size(); ++i) {
      const double at = x(points_[i].time_ns);
      if (i > 0 && mb[i] != mb[i - 1]) corners.emplace_back(at, mb_(mb[i - 1]));
      if (i == 0 || i + 1 == mb.size() || mb[i] != mb[i - 1]) corners.emplace_back(at, mb_(mb[i]));
    }
    if (backwards) std::ranges::reverse(corners);
    std::string out;
    for (const auto& [right, down] : corners) out += fmt::format("{:.1f},{:.1f} ", right, down);
    return out;
  }

  void add_axes() {
    svg_.line(kLeft, kTop, kLeft, kTop + kHeight);
    for (const double mb : ticks(mb_.range)) {
      svg_.line(kLeft - 5, mb_(mb), kLeft, mb_(mb));
      svg_.text(kLeft - 8, mb_(mb) + 4, fmt::format("{:g}", mb), "text-anchor=\"end\"");
    }
    svg_.text_upwards(16, kTop + kHeight / 2, "MB", "text-anchor=\"middle\"");
    svg_.time_axis(ms_, kTop + kHeight, "time in the step, ms");
  }

  void add_peak() {
    const MemoryMoment& peak = account_.peak();
    const double right = x(peak.time_ns), up = mb_(megabytes(peak.tensors.sum()));
    svg_.circle(right, up, 4);
    const bool left_half = right < kLeft + kWidth / 2;
    svg_.text(
        right + (left_half ? 8 : -8), up - 8,
        fmt::format("peak {:.2f} MB, {}", megabytes(peak.tensors.sum()), account_.peak_phase()),
        fmt::format("text-anchor=\"{}\" class=\"bold\"", left_half ? "start" : "end"));
  }

  /// In the order of the areas, with the bytes at the peak; below it what is no tensor.
  void add_legend() {
    constexpr double kAt = kLeft + kWidth + 16;
    const MemoryMoment& peak = account_.peak();
    double down = kTop;
    svg_.text(kAt, down - 7, "at the peak, MB", "class=\"dim\"");
    for (const MemoryCategory each : kChoices<MemoryCategory> | std::views::reverse) {
      const bool any = std::ranges::any_of(
          points_, [each](const MemoryPoint& point) { return point.bytes[each] > 0; });
      if (!any) continue;
      svg_.legend(kAt, down + 14, colour_of(each),
                  fmt::format("{} {:.2f}", name_of(each), megabytes(peak.tensors[each])));
      down += 20;
    }
    down += 30;
    svg_.text(kAt, down, account_.of_device() ? "the device, MB" : "the process, MB",
              "class=\"dim\"");
    svg_.text(kAt, down + 18,
              fmt::format("{} {:.1f}", account_.of_device() ? "used" : "resident",
                          megabytes(peak.resident)));
    svg_.text(kAt, down + 36,
              fmt::format("of it library {:.1f}", megabytes(peak.bytes[MemoryCategory::library])));
    svg_.text(kAt, down + 54, fmt::format("unexplained {:.1f}", megabytes(peak.unexplained())));
  }

  static constexpr double kLeft = 70, kTop = 70, kWidth = 700, kHeight = 380, kLegend = 250,
                          kBottom = 50;

  const MemoryAccount& account_;
  const std::vector<MemoryPoint> points_;
  const Scale ms_, mb_;
  Svg svg_;
};

}  // namespace

const char* colour_of(MemoryCategory category) {
  return kColours[static_cast<std::size_t>(category)];
}

std::string memory_svg(const MemoryAccount& account) { return Picture(account).text(); }

}  // namespace ddprun
