// parse_time: numbers and ISO 8601.
#include <charconv>
#include <chrono>
#include <cmath>

#include "events/event_log.hpp"

namespace jfa::tool {
namespace {

std::optional<double> parse_number(std::string_view text) {
  if (text.starts_with('+') && !text.starts_with("+-")) text.remove_prefix(1);
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || !std::isfinite(value)) return {};
  return value;
}

// Takes fixed-width pieces off the front of a text; after the first miss everything fails.
class Scanner {
 public:
  explicit Scanner(std::string_view text) : rest_(text) {}

  int digits(std::size_t count) {
    int value = 0;
    if (rest_.size() < count) return fail();
    for (std::size_t i = 0; i < count; ++i) {
      if (rest_[i] < '0' || rest_[i] > '9') return fail();
      value = value * 10 + (rest_[i] - '0');
    }
    rest_.remove_prefix(count);
    return value;
  }

  // True and past it when one of `allowed` comes next.
  bool skip(std::string_view allowed) {
    if (rest_.empty() || allowed.find(rest_.front()) == std::string_view::npos) return false;
    rest_.remove_prefix(1);
    return true;
  }

  void expect(std::string_view allowed) {
    if (!skip(allowed)) fail();
  }

  double fraction() {
    double value = 0;
    double unit = 0.1;
    while (!rest_.empty() && rest_.front() >= '0' && rest_.front() <= '9') {
      value += unit * (rest_.front() - '0');
      unit /= 10;
      rest_.remove_prefix(1);
    }
    return value;
  }

  char front() const { return rest_.empty() ? '\0' : rest_.front(); }
  bool at_end() const { return rest_.empty(); }
  bool failed() const { return failed_; }

 private:
  int fail() {
    failed_ = true;
    return 0;
  }

  std::string_view rest_;
  bool failed_ = false;
};

std::optional<double> parse_iso_8601(std::string_view text) {
  Scanner scan(text);
  const int year = scan.digits(4);
  scan.expect("-/");
  const int month = scan.digits(2);
  scan.expect("-/");
  const int day = scan.digits(2);
  const std::chrono::year_month_day date{std::chrono::year(year),
                                         std::chrono::month(static_cast<unsigned>(month)),
                                         std::chrono::day(static_cast<unsigned>(day))};
  if (scan.failed() || !date.ok()) return {};
  double seconds = 86400.0 * std::chrono::sys_days(date).time_since_epoch().count();
  if (scan.at_end()) return seconds;

  scan.expect("T ");
  const int hour = scan.digits(2);
  scan.expect(":");
  const int minute = scan.digits(2);
  const int second = scan.skip(":") ? scan.digits(2) : 0;
  if (scan.skip(".,")) seconds += scan.fraction();
  if (hour > 23 || minute > 59 || second > 60) return {};
  seconds += 3600.0 * hour + 60.0 * minute + second;

  if (const char sign = scan.front(); scan.skip("+-")) {
    const int zone_hour = scan.digits(2);
    scan.skip(":");
    const int zone_minute = scan.at_end() ? 0 : scan.digits(2);
    seconds -= (sign == '-' ? -1 : 1) * (3600.0 * zone_hour + 60.0 * zone_minute);
  } else {
    scan.skip("Zz");
  }
  if (scan.failed() || !scan.at_end()) return {};
  return seconds;
}

}  // namespace

std::optional<double> parse_time(std::string_view text) {
  if (const auto number = parse_number(text)) return number;
  return parse_iso_8601(text);
}

}  // namespace jfa::tool
