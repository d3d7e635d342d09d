#include "report/svg.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace jfa::tool {
namespace {

std::string title(std::string_view tip) {
  return tip.empty() ? "" : fmt::format("<title>{}</title>", escape_html(tip));
}

}  // namespace

Svg::Svg(double width, double height, std::string_view description)
    : body_(fmt::format("<svg viewBox=\"0 0 {:g} {:g}\" role=\"img\" aria-label=\"{}\">\n", width,
                        height, escape_html(description))) {}

void Svg::rect(double x, double y, double width, double height, std::string_view css_class,
               std::string_view tip) {
  body_ += fmt::format(
      "<rect x=\"{:.2f}\" y=\"{:.2f}\" width=\"{:.2f}\" height=\"{:.2f}\" class=\"{}\">{}</rect>\n",
      x, y, width, height, css_class, title(tip));
}

void Svg::bar_right(double x, double y, double width, double height, std::string_view css_class,
                    std::string_view tip) {
  const double r = std::min({4.0, width, height / 2});
  path(fmt::format("M{:.2f} {:.2f}h{:.2f}q{r:.2f} 0 {r:.2f} {r:.2f}v{:.2f}q0 {r:.2f} -{r:.2f} "
                   "{r:.2f}h-{:.2f}z",
                   x, y, width - r, height - 2 * r, width - r, fmt::arg("r", r)),
       css_class, tip);
}

void Svg::bar_up(double x, double y, double width, double height, std::string_view css_class,
                 std::string_view tip) {
  const double r = std::min({4.0, width / 2, height});
  path(fmt::format("M{:.2f} {:.2f}v-{:.2f}q0 -{r:.2f} {r:.2f} -{r:.2f}h{:.2f}q{r:.2f} 0 {r:.2f} "
                   "{r:.2f}v{:.2f}z",
                   x, y, height - r, width - 2 * r, height - r, fmt::arg("r", r)),
       css_class, tip);
}

void Svg::line(double x1, double y1, double x2, double y2, std::string_view css_class) {
  body_ +=
      fmt::format("<line x1=\"{:.2f}\" y1=\"{:.2f}\" x2=\"{:.2f}\" y2=\"{:.2f}\" class=\"{}\"/>\n",
                  x1, y1, x2, y2, css_class);
}

void Svg::path(const std::string& commands, std::string_view css_class, std::string_view tip) {
  body_ += fmt::format("<path d=\"{}\" class=\"{}\">{}</path>\n", commands, css_class, title(tip));
}

void Svg::text(double x, double y, std::string_view anchor, std::string_view css_class,
               std::string_view content) {
  body_ +=
      fmt::format("<text x=\"{:.2f}\" y=\"{:.2f}\" text-anchor=\"{}\" class=\"{}\">{}</text>\n", x,
                  y, anchor, css_class, escape_html(content));
}

std::string Svg::finish() {
  return body_ + "</svg>\n";
}

std::string escape_html(std::string_view text) {
  std::string escaped;
  for (const char c : text) {
    switch (c) {
      case '&':
        escaped += "&amp;";
        break;
      case '<':
        escaped += "&lt;";
        break;
      case '>':
        escaped += "&gt;";
        break;
      case '"':
        escaped += "&quot;";
        break;
      default:
        escaped += c;
    }
  }
  return escaped;
}

std::vector<double> ticks(double largest, int count) {
  if (!(largest > 0) || count < 1) return {0};
  const double rough = largest / count;
  const double power = std::pow(10, std::floor(std::log10(rough)));
  double step = 10 * power;
  for (const double factor : {1.0, 2.0, 5.0}) {
    if (rough <= factor * power) {
      step = factor * power;
      break;
    }
  }
  std::vector<double> values;
  for (int i = 0; i * step <= largest * (1 + 1e-9); ++i) values.push_back(i * step);
  return values;
}

}  // namespace jfa::tool
