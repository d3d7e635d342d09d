#include "report/run_report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "report/length_bins.hpp"
#include "terminal/style.hpp"

namespace jfa::tool {
namespace {

using Json = nlohmann::ordered_json;

void heading(std::string_view text) {
  fmt::print("\n{}\n", paint(Colour::bold, text));
}

void line(std::string_view label, std::string_view text) {
  fmt::print("  {} {}\n", pad_right(label, 16), text);
}

void print_lengths(const RunReport& report) {
  const LengthStatistics& lengths = report.result.lengths;
  heading("Histories");
  line("users", fmt::format("{} with {} events, {} items", show_count(lengths.users),
                            show_count(lengths.events), show_count(report.log_items)));
  line("length", fmt::format("mean {:.1f}, shortest {}, longest {}", lengths.mean, lengths.shortest,
                             lengths.longest));
  line("percentiles",
       fmt::format("p5 {}  p25 {}  p50 {}  p75 {}  p90 {}  p95 {}  p99 {}", lengths.p5, lengths.p25,
                   lengths.p50, lengths.p75, lengths.p90, lengths.p95, lengths.p99));
  const std::vector<LengthBin> bins = length_bins(report.result.all_lengths, 12);
  std::int64_t most = 1;
  for (const LengthBin& bin : bins) most = std::max(most, bin.users);
  for (const LengthBin& bin : bins) {
    const std::string range =
        bin.low == bin.high ? fmt::format("{}", bin.low) : fmt::format("{}–{}", bin.low, bin.high);
    constexpr std::size_t kWidth = 40;
    const double share = static_cast<double>(bin.users) / static_cast<double>(most);
    fmt::print("  {} {} {}\n", pad_left(range, 16),
               paint(Colour::blue, pad_right(bar(share, kWidth), kWidth)),
               paint(Colour::dim, show_count(bin.users)));
  }
  line("padding avoided",
       fmt::format("{} of a padded batch's rows, {} of its scores",
                   show_percent(rows_avoided(report)), show_percent(pairs_avoided(report))));
}

void print_row(std::string_view label, std::string_view jagged, std::string_view padded,
               std::string_view ratio) {
  fmt::print("  {} {} {} {}\n", pad_right(label, 16), pad_left(jagged, 12), pad_left(padded, 12),
             paint(Colour::green, pad_left(ratio, 10)));
}

void print_costs(const RunReport& report) {
  const LayoutResult& jagged = report.result.jagged;
  heading("Time and memory");
  fmt::print("  {}\n",
             paint(Colour::dim, fmt::format("{}, {} threads, {}", report.processor,
                                            report.result.peak.threads, report.attention)));
  const bool has_padded = report.result.padded.has_value();
  const LayoutResult none;
  const LayoutResult& padded = has_padded ? *report.result.padded : none;
  const auto compare = [&](std::string_view label, double LayoutResult::*member, auto show) {
    print_row(label, show(jagged.*member), has_padded ? show(padded.*member) : "",
              has_padded ? show_ratio(padded.*member / jagged.*member) : "");
  };
  fmt::print("  {}\n", paint(Colour::dim,
                             fmt::format("{} {} {} {}", pad_right("", 16), pad_left("jagged", 12),
                                         pad_left(has_padded ? "padded" : "", 12),
                                         pad_left(has_padded ? "gain" : "", 10))));
  compare("forward", &LayoutResult::forward_seconds, show_seconds);
  compare("backward", &LayoutResult::backward_seconds, show_seconds);
  compare("tensors", &LayoutResult::bytes, show_bytes);
  line("floor",
       fmt::format("{} forward and backward; reached {}", show_seconds(jagged.floor_seconds),
                   show_percent(jagged.floor_seconds / jagged.seconds())));
  line("plan", fmt::format("{}, once a batch of {}", show_seconds(jagged.plan_seconds),
                           show_count(jagged.batches)));
  const auto say_if_scaled = [&](std::string_view label, const LayoutResult& layout) {
    if (layout.measured_users == report.result.lengths.users) return;
    line(label,
         fmt::format("measured on {} of {} users, chosen at random, and scaled up",
                     show_count(layout.measured_users), show_count(report.result.lengths.users)));
  };
  say_if_scaled("jagged", jagged);
  if (has_padded) say_if_scaled("padded", padded);
  if (!report.result.why_not_padded.empty()) {
    line("padded", "not measured: " + report.result.why_not_padded);
  }
}

void print_errors(const RunReport& report) {
  heading("Error against the float64 reference");
  fmt::print("  {}\n", paint(Colour::dim, fmt::format("{} users with {} events, chosen at random",
                                                      show_count(report.result.reference_users),
                                                      show_count(report.result.reference_events))));
  for (const ResultError& error : report.result.errors) {
    const double allowed = allowed_error(report.settings.shape.dtype, error.tensor != "out");
    const bool good = error.relative <= allowed;
    line(error.tensor,
         fmt::format("relative {:.1e} {} (allowed {:.0e}), worst element off by {:.1e}",
                     error.relative, paint(good ? Colour::green : Colour::red, good ? "✓" : "✗"),
                     allowed, error.worst));
  }
  if (report.result.padded_difference) {
    line("padded", fmt::format("differs from jagged by {:.1e}", *report.result.padded_difference));
  }
}

Json json_of(const LayoutResult& layout) {
  return {{"rows", layout.rows},
          {"pairs", layout.pairs},
          {"tensor_bytes", layout.bytes},
          {"plan_seconds", layout.plan_seconds},
          {"forward_seconds", layout.forward_seconds},
          {"backward_seconds", layout.backward_seconds},
          {"floor_seconds", layout.floor_seconds},
          {"batches", layout.batches},
          {"measured_users", layout.measured_users}};
}

}  // namespace

double rows_avoided(const RunReport& report) {
  return 1 - report.result.lengths.fill;
}

double pairs_avoided(const RunReport& report) {
  return 1 - report.result.lengths.score_fill;
}

double allowed_error(DType dtype, bool gradient) {
  const double output = dtype == DType::float32 ? 2e-6 : dtype == DType::float16 ? 8e-4 : 5e-3;
  return gradient ? 2 * output : output;
}

bool within_accuracy(const RunReport& report) {
  return std::all_of(
      report.result.errors.begin(), report.result.errors.end(), [&](const ResultError& error) {
        return error.relative <= allowed_error(report.settings.shape.dtype, error.tensor != "out");
      });
}

void print_report(const RunReport& report) {
  fmt::print("{}  {}\n", paint(Colour::bold, report.source),
             paint(Colour::dim, fmt::format("{} events read in {}", show_count(report.log_events),
                                            show_seconds(report.read_seconds))));
  if (report.user_share < 1) {
    fmt::print("{}\n", paint(Colour::yellow, fmt::format("of {} of the users (--user-share)",
                                                         show_percent(report.user_share))));
  }
  if (report.rows_skipped > 0) {
    fmt::print("{}\n", paint(Colour::yellow, fmt::format("{} rows skipped, the first: {}",
                                                         show_count(report.rows_skipped),
                                                         report.first_skipped_reason)));
  }
  print_lengths(report);
  print_costs(report);
  print_errors(report);
}

std::string json_report(const RunReport& report) {
  const RunResult& result = report.result;
  const LengthStatistics& lengths = result.lengths;
  Json json = {{"source", report.source},
               {"log",
                {{"events", report.log_events},
                 {"users", report.log_users},
                 {"items", report.log_items},
                 {"rows_skipped", report.rows_skipped},
                 {"user_share", report.user_share},
                 {"read_seconds", report.read_seconds}}},
               {"attention", report.attention},
               {"machine",
                {{"processor", report.processor},
                 {"simd", result.peak.target},
                 {"threads", result.peak.threads},
                 {"peak_flops", result.peak.flops},
                 {"bandwidth", result.peak.bandwidth}}},
               {"lengths",
                {{"users", lengths.users},
                 {"events", lengths.events},
                 {"mean", lengths.mean},
                 {"shortest", lengths.shortest},
                 {"longest", lengths.longest},
                 {"percentiles",
                  {{"5", lengths.p5},
                   {"25", lengths.p25},
                   {"50", lengths.p50},
                   {"75", lengths.p75},
                   {"90", lengths.p90},
                   {"95", lengths.p95},
                   {"99", lengths.p99}}}}},
               {"rows_avoided", rows_avoided(report)},
               {"pairs_avoided", pairs_avoided(report)},
               {"jagged", json_of(result.jagged)},
               {"padded", nullptr},
               {"why_not_padded", result.why_not_padded},
               {"padded_difference", nullptr},
               {"errors", Json::array()},
               {"reference_users", result.reference_users},
               {"reference_events", result.reference_events},
               {"version", report.version}};
  if (result.padded) json["padded"] = json_of(*result.padded);
  if (result.padded_difference) json["padded_difference"] = *result.padded_difference;
  for (const ResultError& error : result.errors) {
    json["errors"].push_back(
        {{"tensor", error.tensor}, {"relative", error.relative}, {"worst", error.worst}});
  }
  for (const LengthBin& bin : length_bins(result.all_lengths, 24)) {
    json["lengths"]["histogram"].push_back(
        {{"low", bin.low}, {"high", bin.high}, {"users", bin.users}, {"events", bin.events}});
  }
  // Names come from files: bytes that are no UTF-8 are replaced.
  return json.dump(2, ' ', false, Json::error_handler_t::replace);
}

}  // namespace jfa::tool
