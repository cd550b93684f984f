// Stacked areas, axes and legend as SVG.
#include "ddprun/profile/memory_svg.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <vector>

namespace ddprun {

namespace {

constexpr std::size_t kCategories = kChoiceNames<MemoryCategory>.size();
/// From the bottom up, as the categories.
constexpr std::array<const char*, kCategories> kColours = {
    "#4e79a7", "#a0cbe8", "#f28e2b", "#59a14f", "#e15759", "#edc948",
    "#ff9da7", "#b07aa1", "#9c755f", "#76b7b2", "#bab0ac"};
constexpr double kLeft = 70, kTop = 70, kWidth = 700, kHeight = 380, kLegend = 250, kBottom = 50;
constexpr std::size_t kColumns = 1000;  // of the picture, each with one height

std::string escaped(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '<')
      out += "&lt;";
    else if (c == '>')
      out += "&gt;";
    else if (c == '&')
      out += "&amp;";
    else
      out += c;
  }
  return out;
}

double megabytes(std::int64_t bytes) { return static_cast<double>(bytes) * 1e-6; }

/// Of 1, 2 or 5 times a power of ten, the step that makes about five ticks.
double tick_step(double range) {
  const double power = std::pow(10.0, std::floor(std::log10(range / 5)));
  for (const double factor : {1.0, 2.0, 5.0}) {
    if (range / (power * factor) <= 6) return power * factor;
  }
  return power * 10;
}

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
    } else if (sum(point.bytes) > sum(out.back().bytes)) {
      out.back() = point;
    }
    column = at;
  }
  MemoryPoint last = account.points().back();
  last.time_ns = account.end_ns();
  out.push_back(last);
  return out;
}

class Picture {
 public:
  explicit Picture(const MemoryAccount& account)
      : account_(account),
        points_(thinned(account)),
        duration_ms_(std::max(1e-6, ms(account.end_ns()))),
        top_mb_(std::max(1e-6, megabytes(sum(account.peak().tensors)) * 1.12)) {}

  std::string text() {
    constexpr double kAll = kLeft + kWidth + kLegend, kDown = kTop + kHeight + kBottom;
    out_ = fmt::format(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0} {1}\" width=\"{0}\" "
        "height=\"{1}\" font-family=\"sans-serif\" font-size=\"12\">\n"
        "<rect width=\"{0}\" height=\"{1}\" fill=\"white\"/>\n",
        kAll, kDown);
    write(kLeft, 24, "Memory of a step's tensors, rank 0", "font-size=\"16\"");
    add_phases();
    add_areas();
    name_phases();
    add_axes();
    add_peak();
    add_legend();
    return out_ + "</svg>\n";
  }

 private:
  double ms(std::int64_t ns) const { return static_cast<double>(ns - account_.begin_ns()) * 1e-6; }
  double x(std::int64_t ns) const { return kLeft + kWidth * ms(ns) / duration_ms_; }
  double y(double mb) const { return kTop + kHeight * (1 - mb / top_mb_); }

  void write(double left, double bottom, const std::string& text, const std::string& style = "") {
    out_ += fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" {}>{}</text>\n", left, bottom, style,
                        escaped(text));
  }
  void line(double x1, double y1, double x2, double y2, const char* colour) {
    out_ += fmt::format(
        "<line x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\" stroke=\"{}\"/>\n", x1, y1,
        x2, y2, colour);
  }

  void add_phases() {
    bool shaded = true;
    for (const MemorySpan& span : account_.recorded().spans) {
      if (span.again || span.phase == Phase::step) continue;
      const double begin = x(span.begin_ns), width = x(span.end_ns) - begin;
      out_ +=
          fmt::format("<rect x=\"{:.1f}\" y=\"{}\" width=\"{:.1f}\" height=\"{}\" fill=\"{}\"/>\n",
                      begin, kTop - 22, width, kHeight + 22, shaded ? "#eef1f5" : "#f8f3ea");
      shaded = !shaded;
    }
  }

  /// Upright where the band is too narrow; not at all where it is narrower than a line.
  void name_phases() {
    for (const MemorySpan& span : account_.recorded().spans) {
      if (span.again || span.phase == Phase::step) continue;
      const double width = x(span.end_ns) - x(span.begin_ns), middle = x(span.begin_ns) + width / 2;
      const std::string name = span.name();
      if (width > 7.0 * static_cast<double>(name.size())) {
        write(middle, kTop - 7, name, "text-anchor=\"middle\" fill=\"#444\"");
      } else if (width > 9) {
        write(middle + 4, kTop - 18, name,
              fmt::format("text-anchor=\"end\" fill=\"#444\" transform=\"rotate(-90 {:.1f} {})\"",
                          middle + 4, kTop - 18));
      }
    }
  }

  /// Each category as a polygon of steps upon those below it.
  void add_areas() {
    std::vector<double> floor(points_.size(), 0.0);
    for (std::size_t category = 0; category < kCategories; ++category) {
      std::vector<double> roof = floor;
      bool any = false;
      for (std::size_t i = 0; i < points_.size(); ++i) {
        roof[i] += megabytes(points_[i].bytes[category]);
        any |= points_[i].bytes[category] > 0;
      }
      if (any) {
        out_ += fmt::format("<path fill=\"{}\" d=\"M{}L{}Z\"/>\n", kColours[category],
                            steps(roof, false), steps(floor, true));
      }
      floor = std::move(roof);
    }
  }

  /// The corners of a line that keeps each height until the next point.
  std::string steps(const std::vector<double>& mb, bool backwards) const {
    std::vector<std::pair<double, double>> corners;
    for (std::size_t i = 0; i < mb.size(); ++i) {
      const double at = x(points_[i].time_ns);
      if (i > 0 && mb[i] != mb[i - 1]) corners.emplace_back(at, y(mb[i - 1]));
      if (i == 0 || i + 1 == mb.size() || mb[i] != mb[i - 1]) corners.emplace_back(at, y(mb[i]));
    }
    if (backwards) std::reverse(corners.begin(), corners.end());
    std::string out;
    for (const auto& [right, down] : corners) out += fmt::format("{:.1f},{:.1f} ", right, down);
    return out;
  }

  void add_axes() {
    line(kLeft, kTop, kLeft, kTop + kHeight, "black");
    line(kLeft, kTop + kHeight, kLeft + kWidth, kTop + kHeight, "black");
    const double mb_step = tick_step(top_mb_), ms_step = tick_step(duration_ms_);
    for (double mb = 0; mb <= top_mb_; mb += mb_step) {
      line(kLeft - 5, y(mb), kLeft, y(mb), "black");
      write(kLeft - 8, y(mb) + 4, fmt::format("{:g}", mb), "text-anchor=\"end\"");
    }
    for (double at = 0; at <= duration_ms_; at += ms_step) {
      const double right = kLeft + kWidth * at / duration_ms_;
      line(right, kTop + kHeight, right, kTop + kHeight + 5, "black");
      write(right, kTop + kHeight + 19, fmt::format("{:g}", at), "text-anchor=\"middle\"");
    }
    write(kLeft + kWidth / 2, kTop + kHeight + 40, "time in the step, ms",
          "text-anchor=\"middle\"");
    write(
        16, kTop + kHeight / 2, "MB",
        fmt::format("text-anchor=\"middle\" transform=\"rotate(-90 16 {})\"", kTop + kHeight / 2));
  }

  void add_peak() {
    const MemoryMoment& peak = account_.peak();
    const double right = x(peak.time_ns), up = y(megabytes(sum(peak.tensors)));
    out_ +=
        fmt::format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"4\" fill=\"black\"/>\n", right, up);
    const bool left_half = right < kLeft + kWidth / 2;
    write(right + (left_half ? 8 : -8), up - 8,
          fmt::format("peak {:.2f} MB, {}", megabytes(sum(peak.tensors)), account_.peak_phase()),
          fmt::format("text-anchor=\"{}\" font-weight=\"bold\"", left_half ? "start" : "end"));
  }

  /// In the order of the areas, with the bytes at the peak; below it what is no tensor.
  void add_legend() {
    constexpr double kAt = kLeft + kWidth + 16;
    const MemoryMoment& peak = account_.peak();
    double down = kTop;
    write(kAt, down - 7, "at the peak, MB", "fill=\"#444\"");
    for (std::size_t i = kCategories; i-- > 0;) {
      const bool any = std::any_of(points_.begin(), points_.end(),
                                   [i](const MemoryPoint& point) { return point.bytes[i] > 0; });
      if (!any) continue;
      out_ += fmt::format("<rect x=\"{}\" y=\"{:.1f}\" width=\"12\" height=\"12\" fill=\"{}\"/>\n",
                          kAt, down + 4, kColours[i]);
      write(kAt + 18, down + 14,
            fmt::format("{} {:.2f}", kChoiceNames<MemoryCategory>[i], megabytes(peak.tensors[i])));
      down += 20;
    }
    down += 30;
    write(kAt, down, "the process, MB", "fill=\"#444\"");
    write(kAt, down + 18, fmt::format("resident {:.1f}", megabytes(peak.resident)));
    write(kAt, down + 36,
          fmt::format("of it library {:.1f}",
                      megabytes(peak.bytes[static_cast<std::size_t>(MemoryCategory::library)])));
    write(kAt, down + 54, fmt::format("unexplained {:.1f}", megabytes(peak.unexplained())));
  }

  const MemoryAccount& account_;
  const std::vector<MemoryPoint> points_;
  const double duration_ms_, top_mb_;
  std::string out_;
};

}  // namespace

std::string memory_svg(const MemoryAccount& account) { return Picture(account).text(); }

}  // namespace ddprun
