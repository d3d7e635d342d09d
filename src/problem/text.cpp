#include "problem/text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <functional>

namespace jfa::detail {
namespace {

// What the message shows of a piece that may be long or hold anything.
std::string shown(std::string_view text) {
  constexpr std::size_t kMost = 40;
  std::string result(text.substr(0, kMost));
  std::replace_if(
      result.begin(), result.end(), [](char c) { return c < ' ' || c > '~'; }, '?');
  return text.size() > kMost ? result + "…" : result;
}

}  // namespace

std::string marked(std::string_view text, const TextError& error) {
  const std::string_view place = error.place();
  std::size_t first = text.size();
  const std::less_equal<const char*> at_most;
  if (place.data() != nullptr && at_most(text.data(), place.data()) &&
      at_most(place.data(), text.data() + text.size())) {
    first = static_cast<std::size_t>(place.data() - text.data());
  }
  // A window of the line around the place, so that the mark is visible on a terminal.
  constexpr std::size_t kBefore = 60;
  constexpr std::size_t kAfter = 60;
  const std::size_t start = first > kBefore ? first - kBefore : 0;
  const std::size_t stop = std::min(text.size(), first + kAfter);
  std::string window(text.substr(start, stop - start));
  std::replace_if(
      window.begin(), window.end(), [](char c) { return c < ' ' || c > '~'; }, '?');
  const std::string lead = start > 0 ? "…" : "";
  const std::size_t width = std::clamp<std::size_t>(place.size(), 1, kAfter);
  return fmt::format("{}\n  {}{}{}\n  {}{}", error.what(), lead, window,
                     stop < text.size() ? "…" : "",
                     std::string(first - start + (start > 0 ? 1 : 0), ' '),
                     std::string(std::min(width, std::max<std::size_t>(stop - first, 1)), '^'));
}

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> pieces;
  std::size_t start = 0;
  while (true) {
    const std::size_t end = text.find(separator, start);
    if (end == std::string_view::npos) break;
    pieces.push_back(text.substr(start, end - start));
    start = end + 1;
  }
  pieces.push_back(text.substr(start));
  return pieces;
}

std::vector<std::string_view> words(std::string_view text) {
  constexpr std::string_view kBlank = " \t\r\n";
  std::vector<std::string_view> pieces;
  std::size_t start = text.find_first_not_of(kBlank);
  while (start != std::string_view::npos) {
    const std::size_t end = std::min(text.find_first_of(kBlank, start), text.size());
    pieces.push_back(text.substr(start, end - start));
    start = text.find_first_not_of(kBlank, end);
  }
  return pieces;
}

Pair cut(std::string_view text, char separator) {
  const std::size_t at = text.find(separator);
  if (at == std::string_view::npos) return {text, text.substr(text.size()), false};
  return {text.substr(0, at), text.substr(at + 1), true};
}

std::int64_t parse_integer(std::string_view text, std::int64_t minimum, std::int64_t maximum) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size() || value < minimum ||
      value > maximum) {
    throw TextError(text, fmt::format("'{}' is not a whole number from {} to {}", shown(text),
                                      minimum, maximum));
  }
  return value;
}

std::uint64_t parse_unsigned(std::string_view text) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size()) {
    throw TextError(text,
                    fmt::format("'{}' is not a whole number from 0 to 2^64 − 1", shown(text)));
  }
  return value;
}

double parse_real(std::string_view text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size() || !std::isfinite(value)) {
    throw TextError(text, fmt::format("'{}' is not a finite number", shown(text)));
  }
  return value;
}

std::string alternatives(const std::vector<std::string_view>& names) {
  std::string text;
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (i > 0) text += i + 1 == names.size() ? " or " : ", ";
    text += names[i];
  }
  return text;
}

}  // namespace jfa::detail
