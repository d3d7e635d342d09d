// Builds one inline SVG picture. Colours are CSS classes of the page (report/page_style.hpp).
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace jfa::tool {

class Svg {
 public:
  // `description` is read out to those who cannot see the picture.
  Svg(double width, double height, std::string_view description);

  // `tip` shows up when the pointer rests on the shape; may be empty.
  void rect(double x, double y, double width, double height, std::string_view css_class,
            std::string_view tip = {});
  // A bar from the baseline at `x` to the right, rounded at its end.
  void bar_right(double x, double y, double width, double height, std::string_view css_class,
                 std::string_view tip = {});
  // A bar from the baseline at `y` upwards, rounded at its end.
  void bar_up(double x, double y, double width, double height, std::string_view css_class,
              std::string_view tip = {});
  void line(double x1, double y1, double x2, double y2, std::string_view css_class);
  void path(const std::string& commands, std::string_view css_class, std::string_view tip = {});
  // anchor: start, middle or end.
  void text(double x, double y, std::string_view anchor, std::string_view css_class,
            std::string_view content);

  std::string finish();

 private:
  std::string body_;
};

std::string escape_html(std::string_view text);

// Round numbers from 0 to at most `largest`, about `count` of them: 0, 20, 40, ….
std::vector<double> ticks(double largest, int count);

}  // namespace jfa::tool
