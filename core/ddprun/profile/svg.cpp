// Elements of SVG as text.
#include "ddprun/profile/svg.h"

#include <fmt/format.h>

#include <boost/algorithm/string/replace.hpp>
#include <cmath>
#include <utility>

namespace ddprun {

namespace {

/// A page may hold several pictures beside elements of its own, so each rule is of pictures alone.
constexpr const char* kStyle =
    "<style>\n"
    ".ddprun text{fill:#1f2328}.ddprun .dim{fill:#59636e}.ddprun .on{fill:#101418}\n"
    ".ddprun .pale{fill:#fff}.ddprun .bold{font-weight:bold}\n"
    ".ddprun .in{font-size:9.5px;text-anchor:middle}\n"
    ".ddprun .paper{fill:#fff}.ddprun .band{fill:#eef1f5}.ddprun .other{fill:#f8f3ea}\n"
    ".ddprun .ink{fill:#1f2328}.ddprun .unit{fill:#eef1f5;stroke:#9da7b3;stroke-width:.5}\n"
    ".ddprun .axis{stroke:#59636e}.ddprun .grid{stroke:#d8dee4}\n"
    "@media screen and (prefers-color-scheme:dark){\n"
    ".ddprun text{fill:#e6edf3}.ddprun .dim{fill:#9da7b3}.ddprun .on{fill:#101418}\n"
    ".ddprun .pale{fill:#fff}\n"
    ".ddprun .paper{fill:#0d1117}.ddprun .band{fill:#161b22}.ddprun .other{fill:#1f1b16}\n"
    ".ddprun .ink{fill:#e6edf3}.ddprun .unit{fill:#21262d;stroke:#6e7781}\n"
    ".ddprun .axis{stroke:#9da7b3}.ddprun .grid{stroke:#30363d}\n"
    "}\n"
    "</style>\n";

std::string escaped(std::string text) {
  for (const auto& [special, entity] :
       {std::pair{"&", "&amp;"}, {"<", "&lt;"}, {">", "&gt;"}, {"\"", "&quot;"}}) {
    boost::replace_all(text, special, entity);
  }
  return text;
}

/// A decimal where there is one.
std::string place(double value) {
  const double rounded = std::round(value * 10) / 10;
  return fmt::format("{:g}", rounded == 0 ? 0.0 : rounded);  // no -0
}

std::string with_space(const std::string& attributes) {
  return attributes.empty() ? "" : " " + attributes;
}

}  // namespace

std::vector<double> ticks(double range) {
  const double power = std::pow(10.0, std::floor(std::log10(range / 5)));
  double step = power * 10;
  for (const double factor : {5.0, 2.0, 1.0}) {
    if (range / (power * factor) <= 6) step = power * factor;
  }
  std::vector<double> out;
  for (int i = 0; i * step <= range; ++i) out.push_back(i * step);
  return out;
}

double text_width(const std::string& words, double font_size) {
  return 0.58 * font_size * static_cast<double>(words.size());
}

Svg::Svg(double width, double height, const std::string& title, const std::string& description)
    : out_(fmt::format("<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"ddprun\" role=\"img\" "
                       "viewBox=\"0 0 {0} {1}\" width=\"{0}\" height=\"{1}\" "
                       "font-family=\"sans-serif\" font-size=\"12\">\n"
                       "<title>{2}</title>\n<desc>{3}</desc>\n{4}",
                       place(width), place(height), escaped(title), escaped(description), kStyle)) {
  box({0, 0, width, height}, ".paper");
  text(16, 24, title, "class=\"bold headline\" font-size=\"16\"");
}

void Svg::text(double x, double y, const std::string& words, const std::string& attributes) {
  out_ += fmt::format("<text x=\"{}\" y=\"{}\"{}>{}</text>\n", place(x), place(y),
                      with_space(attributes), escaped(words));
}

void Svg::text_upwards(double x, double y, const std::string& words,
                       const std::string& attributes) {
  text(x, y, words,
       fmt::format("{} transform=\"rotate(-90 {} {})\"", attributes, place(x), place(y)));
}

void Svg::box(const Box& box, const std::string& fill, const std::string& tooltip) {
  const bool of_class = fill.starts_with('.');
  out_ += fmt::format("<rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" {}=\"{}\"", place(box.x),
                      place(box.y), place(box.width), place(box.height),
                      of_class ? "class" : "fill", of_class ? fill.substr(1) : fill);
  out_ += tooltip.empty() ? "/>\n" : fmt::format("><title>{}</title></rect>\n", escaped(tooltip));
}

void Svg::line(double x1, double y1, double x2, double y2, const char* style) {
  out_ += fmt::format("<line x1=\"{}\" y1=\"{}\" x2=\"{}\" y2=\"{}\" class=\"{}\"/>\n", place(x1),
                      place(y1), place(x2), place(y2), style);
}

void Svg::path(const std::string& corners, const std::string& attributes) {
  out_ += fmt::format("<path {} d=\"{}\"/>\n", attributes, corners);
}

void Svg::circle(double x, double y, double radius) {
  out_ += fmt::format("<circle cx=\"{}\" cy=\"{}\" r=\"{}\" class=\"ink\"/>\n", place(x), place(y),
                      place(radius));
}

double Svg::legend(double x, double y, const std::string& colour, const std::string& words) {
  box({x, y - 10, 12, 12}, colour);
  text(x + 18, y, words);
  return 18 + text_width(words);
}

void Svg::time_axis(const Scale& ms, double y, const std::string& words) {
  line(ms.begin, y, ms.begin + ms.length, y);
  for (const double at : ticks(ms.range)) {
    line(ms(at), y, ms(at), y + 5);
    text(ms(at), y + 19, fmt::format("{:g}", at), "text-anchor=\"middle\"");
  }
  text(ms.begin + ms.length / 2, y + 40, words, "text-anchor=\"middle\"");
}

std::string Svg::finish() { return std::move(out_) + "</svg>\n"; }

}  // namespace ddprun
