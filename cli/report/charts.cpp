#include "report/charts.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <utility>
#include <vector>

#include "report/length_bins.hpp"
#include "report/svg.hpp"
#include "terminal/style.hpp"

namespace jfa::tool {
namespace {

constexpr double kWidth = 880;

// Plot area of a chart with numbers at its left and bottom.
struct Frame {
  double left = 56;
  double top = 30;
  double right = kWidth - 8;
  double bottom = 250;

  double width() const { return right - left; }
  double height() const { return bottom - top; }
};

void draw_vertical_scale(Svg& svg, const Frame& frame, double largest) {
  for (const double tick : ticks(largest, 4)) {
    const double y = frame.bottom - tick / largest * frame.height();
    svg.line(frame.left, y, frame.right, y, tick == 0 ? "axis" : "grid");
    svg.text(frame.left - 8, y + 4, "end", "muted", show_count(static_cast<std::int64_t>(tick)));
  }
}

// Where a length lies on the horizontal axis of the histogram, whose bins all have one width.
double place_in_bins(const std::vector<LengthBin>& bins, const Frame& frame, std::int64_t length) {
  const double step = frame.width() / static_cast<double>(bins.size());
  for (std::size_t i = 0; i < bins.size(); ++i) {
    if (length > bins[i].high) continue;
    const auto span = static_cast<double>(bins[i].high - bins[i].low + 1);
    const double inside = (static_cast<double>(length - bins[i].low) + 0.5) / span;
    return frame.left + step * (static_cast<double>(i) + inside);
  }
  return frame.right;
}

struct Bar {
  std::string label;
  double value = 0;
  std::string text;       // behind the bar
  const char* css_class;  // jagged or padded
};

std::string bar_chart(const std::vector<Bar>& bars, const std::string& description) {
  constexpr double kRow = 34;
  constexpr double kThickness = 18;
  constexpr double kLabels = 150;
  constexpr double kNumbers = 120;
  double largest = 0;
  for (const Bar& bar : bars) largest = std::max(largest, bar.value);
  if (!(largest > 0)) largest = 1;
  Svg svg(kWidth, kRow * static_cast<double>(bars.size()) + 4, description);
  const double scale = (kWidth - kLabels - kNumbers) / largest;
  double y = 4;
  for (const Bar& bar : bars) {
    const double length = std::max(bar.value * scale, 1.5);
    const double middle = y + kThickness / 2 + 4;
    svg.text(kLabels - 12, middle, "end", "", bar.label);
    svg.bar_right(kLabels, y, length, kThickness, bar.css_class,
                  fmt::format("{}: {}", bar.label, bar.text));
    svg.text(kLabels + length + 10, middle, "start", "strong", bar.text);
    y += kRow;
  }
  svg.line(kLabels, 0, kLabels, y - kRow + kThickness + 4, "axis");
  return svg.finish();
}

}  // namespace

std::string length_chart(const RunReport& report) {
  const std::vector<LengthBin> bins = length_bins(report.result.all_lengths, 28);
  if (bins.empty()) return "";
  std::int64_t most = 1;
  for (const LengthBin& bin : bins) most = std::max(most, bin.users);
  const Frame frame;
  Svg svg(kWidth, frame.bottom + 44, "Histogram: users by length of their history");
  draw_vertical_scale(svg, frame, static_cast<double>(most));
  svg.text(0, 8, "start", "muted", "users");

  const double step = frame.width() / static_cast<double>(bins.size());
  const double gap = std::min(2.0, step / 4);
  double free_from = 0;  // where the next label fits
  for (std::size_t i = 0; i < bins.size(); ++i) {
    const LengthBin& bin = bins[i];
    const double x = frame.left + step * static_cast<double>(i);
    const std::string range = bin.low == bin.high ? fmt::format("{}", bin.low)
                                                  : fmt::format("{} to {}", bin.low, bin.high);
    if (bin.users > 0) {
      const double height =
          static_cast<double>(bin.users) / static_cast<double>(most) * frame.height();
      svg.bar_up(x + gap / 2, frame.bottom, step - gap, height, "jagged",
                 fmt::format("{} events: {} users, {} events in all", range, show_count(bin.users),
                             show_count(bin.events)));
    }
    if (x >= free_from) {
      svg.text(x + step / 2, frame.bottom + 18, "middle", "muted", fmt::format("{}", bin.low));
      free_from = x + 40;
    }
  }
  svg.text(frame.left + frame.width() / 2, frame.bottom + 38, "middle", "muted",
           "events in a history (each bar: the same ratio of lengths)");

  const LengthStatistics& lengths = report.result.lengths;
  double label_from = 0;
  for (const auto& [name, length] :
       {std::pair{"median", lengths.p50}, {"p90", lengths.p90}, {"p99", lengths.p99}}) {
    const double x = place_in_bins(bins, frame, length);
    if (x < label_from) continue;
    label_from = x + 70;
    svg.line(x, frame.top - 6, x, frame.bottom, "mark");
    svg.text(x, frame.top - 12, "middle", "", fmt::format("{} {}", name, length));
  }
  return svg.finish();
}

std::string padding_chart(const RunReport& report) {
  std::vector<std::int64_t> lengths = report.result.all_lengths;
  if (lengths.empty()) return "";
  std::sort(lengths.begin(), lengths.end(), std::greater<>());
  const auto users = static_cast<double>(lengths.size());
  const auto longest = static_cast<double>(lengths.front());
  const Frame frame{.top = 22};
  Svg svg(kWidth, frame.bottom + 44,
          "Histories side by side, longest first, inside the rectangle of a padded batch");
  svg.rect(frame.left, frame.top, frame.width(), frame.height(), "padding",
           fmt::format("padding: {} of all rows", show_percent(rows_avoided(report))));

  // One step a column of the picture is as fine as it can show.
  constexpr double kColumns = 480;
  const double columns = std::min(users, kColumns);
  std::string commands = fmt::format("M{:.2f} {:.2f}", frame.left, frame.bottom);
  for (double column = 0; column < columns; ++column) {
    const auto user = static_cast<std::size_t>(column * users / columns);
    const double y = frame.bottom - static_cast<double>(lengths[user]) / longest * frame.height();
    const double right = frame.left + (column + 1) / columns * frame.width();
    commands += fmt::format("V{:.2f}H{:.2f}", y, right);
  }
  commands += fmt::format("V{:.2f}z", frame.bottom);
  svg.path(commands, "jagged",
           fmt::format("events: {} of all rows", show_percent(report.result.lengths.fill)));

  for (const double tick : ticks(longest, 4)) {
    const double y = frame.bottom - tick / longest * frame.height();
    svg.text(frame.left - 8, y + 4, "end", "muted", show_count(static_cast<std::int64_t>(tick)));
  }
  svg.line(frame.left, frame.bottom, frame.right, frame.bottom, "axis");
  for (const double tick : ticks(users, 6)) {
    svg.text(frame.left + tick / users * frame.width(), frame.bottom + 18, "middle", "muted",
             show_count(static_cast<std::int64_t>(tick)));
  }
  svg.text(0, 8, "start", "muted", "events in a history");
  svg.text(frame.left + frame.width() / 2, frame.bottom + 38, "middle", "muted",
           "users, longest history first");
  return svg.finish();
}

std::string time_chart(const RunReport& report) {
  const LayoutResult& jagged = report.result.jagged;
  std::vector<Bar> bars;
  const auto add = [&](const std::string& pass, double LayoutResult::*member) {
    bars.push_back({pass + ", jagged", jagged.*member, show_seconds(jagged.*member), "jagged"});
    if (!report.result.padded) return;
    const double padded = (*report.result.padded).*member;
    bars.push_back({pass + ", padded", padded, show_seconds(padded), "padded"});
  };
  add("forward", &LayoutResult::forward_seconds);
  add("backward", &LayoutResult::backward_seconds);
  return bar_chart(bars, "Time of the forward and the backward pass, jagged and padded");
}

std::string memory_chart(const RunReport& report) {
  std::vector<Bar> bars = {
      {"jagged", report.result.jagged.bytes, show_bytes(report.result.jagged.bytes), "jagged"}};
  if (report.result.padded) {
    const double bytes = report.result.padded->bytes;
    bars.push_back({"padded", bytes, show_bytes(bytes), "padded"});
  }
  return bar_chart(bars, "Memory of inputs, outputs and gradients, jagged and padded");
}

}  // namespace jfa::tool
