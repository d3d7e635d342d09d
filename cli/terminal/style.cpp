#include "terminal/style.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>

namespace jfa::tool {

bool is_terminal(std::FILE* stream) {
  return isatty(fileno(stream)) != 0;
}

bool takes_colours(std::FILE* stream) {
  const char* no_color = std::getenv("NO_COLOR");
  const char* terminal = std::getenv("TERM");
  const bool refused = no_color != nullptr && *no_color != '\0';
  const bool dumb = terminal == nullptr || std::string_view(terminal) == "dumb";
  return is_terminal(stream) && !refused && !dumb;
}

std::string paint(Colour colour, std::string_view text) {
  static const bool colours = takes_colours(stdout);
  if (!colours || colour == Colour::plain) return std::string(text);
  static constexpr std::array<std::string_view, 7> kCodes = {"0", "1", "2", "31", "32", "33", "34"};
  return fmt::format("\x1b[{}m{}\x1b[0m", kCodes.at(static_cast<std::size_t>(colour)), text);
}

std::string show_bytes(double bytes) {
  static constexpr std::array<std::string_view, 5> kUnits = {"B", "KiB", "MiB", "GiB", "TiB"};
  std::size_t unit = 0;
  while (bytes >= 1024 && unit + 1 < kUnits.size()) {
    bytes /= 1024;
    ++unit;
  }
  return fmt::format("{:.{}f} {}", bytes, unit == 0 || bytes >= 100 ? 0 : 1, kUnits.at(unit));
}

std::string show_seconds(double seconds) {
  if (seconds < 1e-3) return fmt::format("{:.1f} µs", seconds * 1e6);
  if (seconds < 1) return fmt::format("{:.{}f} ms", seconds * 1e3, seconds < 0.1 ? 1 : 0);
  if (seconds < 120) return fmt::format("{:.2f} s", seconds);
  if (seconds < 2 * 3600) return fmt::format("{:.1f} min", seconds / 60);
  if (seconds < 48 * 3600) return fmt::format("{:.1f} h", seconds / 3600);
  return fmt::format("{:.1f} days", seconds / (24 * 3600));
}

std::string show_count(std::int64_t count) {
  std::string digits = std::to_string(count);
  const std::size_t first = count < 0 ? 1 : 0;
  for (std::size_t place = digits.size(); place > first + 3; place -= 3) {
    digits.insert(place - 3, 1, ',');
  }
  return digits;
}

std::string show_ratio(double ratio) {
  return fmt::format("{:.{}f}×", ratio, ratio < 10 ? 2 : ratio < 100 ? 1 : 0);
}

std::string show_percent(double share) {
  return fmt::format("{:.1f} %", 100 * share);
}

std::size_t columns_of(std::string_view text) {
  return static_cast<std::size_t>(std::count_if(text.begin(), text.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xc0U) != 0x80;
  }));
}

std::string pad_left(std::string_view text, std::size_t width) {
  const std::size_t columns = columns_of(text);
  return std::string(width > columns ? width - columns : 0, ' ') + std::string(text);
}

std::string pad_right(std::string_view text, std::size_t width) {
  const std::size_t columns = columns_of(text);
  return std::string(text) + std::string(width > columns ? width - columns : 0, ' ');
}

std::string bar(double share, std::size_t width) {
  static constexpr std::array<std::string_view, 8> kParts = {" ", "▏", "▎", "▍",
                                                             "▌", "▋", "▊", "▉"};
  const double filled = std::clamp(share, 0.0, 1.0) * static_cast<double>(width);
  auto eighths = static_cast<std::size_t>(std::lround(filled * 8));
  if (eighths == 0 && share > 0) eighths = 1;
  std::string text;
  for (std::size_t i = 0; i < eighths / 8; ++i) text += "█";
  if (eighths % 8 != 0) text += kParts.at(eighths % 8);
  return text;
}

}  // namespace jfa::tool
