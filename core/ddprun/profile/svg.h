// Writes pictures as SVG: any browser shows them, on light and on dark paper, and their text can be
// selected.
#pragma once

#include <string>
#include <vector>

namespace ddprun {

/// Colours of areas, after Tableau 10. They stand out from light and from dark paper.
namespace palette {
inline constexpr const char *kBlue = "#4e79a7", *kLightBlue = "#a0cbe8", *kOrange = "#f28e2b",
                            *kGreen = "#59a14f", *kRed = "#e15759", *kYellow = "#edc948",
                            *kPink = "#ff9da7", *kPurple = "#b07aa1", *kBrown = "#9c755f",
                            *kTeal = "#76b7b2", *kGrey = "#bab0ac";
}  // namespace palette

struct Box {
  double x = 0, y = 0;  ///< of the upper left corner, pixels
  double width = 0, height = 0;
};

/// Of 1, 2 or 5 times a power of ten those from 0 to `range` that are about five; range > 0.
std::vector<double> ticks(double range);

/// How wide that text is about, in pixels.
double text_width(const std::string& words, double font_size = 12);

/// Values from 0 to `range` on a line of `length` pixels, which may be negative.
struct Scale {
  double begin = 0, length = 0, range = 1;

  double operator()(double value) const { return begin + length * value / range; }
};

/// A picture under way: an element a line, coordinates in pixels with a decimal, so that two
/// pictures can be compared as text. Attributes are SVG's. The style sheet has the classes `dim`
/// and `bold` of text, `in` of small text in the middle of a box, `on` (and `pale`, on blue) of
/// text on a colour of the palette, `axis` and `grid` of lines, `band` and `other` of backgrounds,
/// and `unit` of boxes with a border. They hold within the class `ddprun`, which the picture is of,
/// so that it may stand in a page; the page may take away `paper` and `headline`, the title.
class Svg {
 public:
  static constexpr double kSmall = 9.5;  ///< the font of `in`, pixels

  /// `description`: what the picture shows, for those who do not see it.
  Svg(double width, double height, const std::string& title, const std::string& description);

  /// `y`: of the base line. `words` may have any characters.
  void text(double x, double y, const std::string& words, const std::string& attributes = {});
  /// Text that runs upwards.
  void text_upwards(double x, double y, const std::string& words, const std::string& attributes);
  /// `fill`: a colour, or "." and a class. A browser shows `tooltip` beside the pointer.
  void box(const Box& box, const std::string& fill, const std::string& tooltip = {});
  void line(double x1, double y1, double x2, double y2, const char* style = "axis");
  void path(const std::string& corners, const std::string& attributes);
  void circle(double x, double y, double radius);
  /// A square of that colour with its meaning. Returns how wide they are.
  double legend(double x, double y, const std::string& colour, const std::string& words);
  /// Milliseconds from left to right, and what they are.
  void time_axis(const Scale& ms, double y, const std::string& words);

  /// The whole picture. Nothing is added any more.
  std::string finish();

 private:
  std::string out_;
};

}  // namespace ddprun
