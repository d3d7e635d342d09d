// One self-contained HTML page: no script, no font, no picture from elsewhere.
#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <string_view>

#include "report/charts.hpp"
#include "report/page_style.hpp"
#include "report/run_report.hpp"
#include "report/svg.hpp"
#include "terminal/style.hpp"

namespace jfa::tool {
namespace {

std::string tile(std::string_view label, std::string_view value, std::string_view note) {
  return fmt::format(
      "<div class=\"card tile\"><div class=\"label\">{}</div><div class=\"value\">{}</div>"
      "<div class=\"note\">{}</div></div>\n",
      escape_html(label), escape_html(value), escape_html(note));
}

std::string tiles(const RunReport& report) {
  const RunResult& result = report.result;
  std::string html = "<div class=\"tiles\">\n";
  if (result.padded) {
    html +=
        tile("Forward and backward", show_ratio(result.padded->seconds() / result.jagged.seconds()),
             "faster than padded, same engine");
    html +=
        tile("Memory", show_ratio(result.padded->bytes / result.jagged.bytes), "less than padded");
  } else {
    html += tile("Forward and backward", show_seconds(result.jagged.seconds()), "all histories");
    html += tile("Memory", show_bytes(result.jagged.bytes), "inputs, outputs, gradients");
  }
  html += tile("Padding avoided", show_percent(rows_avoided(report)),
               fmt::format("of the rows, {} of the scores", show_percent(pairs_avoided(report))));
  double largest = 0;
  for (const ResultError& error : result.errors) largest = std::max(largest, error.relative);
  html += tile("Largest relative error", fmt::format("{:.0e}", largest),
               within_accuracy(report) ? "against float64, within the contract"
                                       : "against float64, OUTSIDE the contract");
  return html + "</div>\n";
}

std::string section(std::string_view title, std::string_view text, const std::string& content) {
  return fmt::format("<section class=\"card\"><h2>{}</h2><p>{}</p>\n{}</section>\n",
                     escape_html(title), escape_html(text), content);
}

std::string percentile_table(const LengthStatistics& lengths) {
  std::string head;
  std::string row;
  const auto add = [&](std::string_view name, const std::string& value) {
    head += fmt::format("<th>{}</th>", name);
    row += fmt::format("<td>{}</td>", value);
  };
  add("shortest", show_count(lengths.shortest));
  add("p5", show_count(lengths.p5));
  add("p25", show_count(lengths.p25));
  add("median", show_count(lengths.p50));
  add("p75", show_count(lengths.p75));
  add("p90", show_count(lengths.p90));
  add("p95", show_count(lengths.p95));
  add("p99", show_count(lengths.p99));
  add("longest", show_count(lengths.longest));
  add("mean", fmt::format("{:.1f}", lengths.mean));
  return fmt::format("<div class=\"scroll\"><table><tr>{}</tr><tr>{}</tr></table></div>\n", head,
                     row);
}

std::string cost_table(const RunReport& report) {
  const LayoutResult& jagged = report.result.jagged;
  const bool has_padded = report.result.padded.has_value();
  std::string rows;
  const auto add = [&](std::string_view name, double LayoutResult::*member, auto show) {
    const double value = jagged.*member;
    rows += fmt::format("<tr><td>{}</td><td>{}</td>", name, show(value));
    if (has_padded) {
      const double padded = (*report.result.padded).*member;
      rows += fmt::format("<td>{}</td><td>{}</td>", show(padded), show_ratio(padded / value));
    }
    rows += "</tr>";
  };
  add("forward", &LayoutResult::forward_seconds, show_seconds);
  add("backward", &LayoutResult::backward_seconds, show_seconds);
  add("floor of this machine, both passes", &LayoutResult::floor_seconds, show_seconds);
  add("inputs, outputs, gradients", &LayoutResult::bytes, show_bytes);
  add("visible (query, key) pairs a head", &LayoutResult::pairs,
      [](double pairs) { return show_count(static_cast<std::int64_t>(pairs)); });
  return fmt::format(
      "<div class=\"scroll\"><table><tr><th></th><th>jagged</th>{}</tr>{}</table></div>\n",
      has_padded ? "<th>padded</th><th>gain</th>" : "", rows);
}

std::string error_table(const RunReport& report) {
  std::string rows;
  for (const ResultError& error : report.result.errors) {
    const double allowed = allowed_error(report.settings.shape.dtype, error.tensor != "out");
    const bool good = error.relative <= allowed;
    rows += fmt::format(
        "<tr><td><code>{}</code></td><td class=\"{}\">{} "
        "{:.2e}</td><td>{:.0e}</td><td>{:.2e}</td></tr>",
        escape_html(error.tensor), good ? "good" : "bad", good ? "✓" : "✗", error.relative, allowed,
        error.worst);
  }
  return fmt::format(
      "<div class=\"scroll\"><table><tr><th></th><th>relative error</th><th>allowed</th>"
      "<th>worst element off by</th></tr>{}</table></div>\n",
      rows);
}

std::string legend(const RunReport& report) {
  if (!report.result.padded) return "";
  return "<div class=\"legend\"><span style=\"--key:var(--jagged)\">jagged</span>"
         "<span style=\"--key:var(--padded)\">padded to the longest history</span></div>\n";
}

std::string method(const RunReport& report) {
  const RunResult& result = report.result;
  std::vector<std::string> items = {
      fmt::format("Attention: {}. q, k, v and the incoming gradient are random numbers drawn from "
                  "each event's item (seed {}), in place of a model's embeddings.",
                  report.attention, report.settings.seed),
      fmt::format(
          "Machine: {}, {} threads, {}; measured peak {:.1f} GFLOP/s (float32 multiply-add) "
          "and {:.1f} GB/s (reading memory).",
          report.processor, result.peak.threads, result.peak.target, result.peak.flops / 1e9,
          result.peak.bandwidth / 1e9),
      fmt::format(
          "Floor: the larger of visible arithmetic over peak rate and bytes over bandwidth, each "
          "input read once, each output written once. Jagged attention reaches {} of it.",
          show_percent(result.jagged.floor_seconds / result.jagged.seconds())),
      fmt::format(
          "Batches: {} of at most about {} events. Times are medians of three runs after one that "
          "warms up, or of one run when there are more than four batches or a run takes two "
          "seconds; the plan of {} is made once and used by both passes.",
          show_count(result.jagged.batches), show_count(report.settings.batch_rows),
          show_seconds(result.jagged.plan_seconds))};
  if (result.jagged.measured_users < result.lengths.users) {
    items.push_back(fmt::format(
        "Jagged attention was measured on {} of {} users, chosen at random, and its times are "
        "scaled up to all (--time-limit).",
        show_count(result.jagged.measured_users), show_count(result.lengths.users)));
  }
  if (!result.why_not_padded.empty()) {
    items.push_back("Padded attention was not measured: " + result.why_not_padded + ".");
  }
  if (report.user_share < 1) {
    items.push_back(fmt::format(
        "Only {} of the users were read, chosen by a hash of their name (--user-share).",
        show_percent(report.user_share)));
  }
  if (result.padded) {
    std::string padded = fmt::format(
        "Padded: the same engine on a dense tensor in which every history takes {} rows, as a "
        "kernel "
        "computes that is not told the lengths; in chunks of at most {}.",
        show_count(result.lengths.longest), show_bytes(report.settings.padded_bytes));
    if (result.padded->measured_users < result.lengths.users) {
      padded += fmt::format(
          " Measured on {} of {} users and scaled up to all, since all padded histories "
          "cost the same.",
          show_count(result.padded->measured_users), show_count(result.lengths.users));
    }
    if (result.padded_difference) {
      padded += fmt::format(" Its results differ from the jagged ones by {:.1e} (relative).",
                            *result.padded_difference);
    }
    items.push_back(padded);
  }
  if (report.longest_kept > 0) {
    items.push_back(fmt::format("Only the newest {} events of a user are kept.",
                                show_count(report.longest_kept)));
  }
  if (report.rows_skipped > 0) {
    items.push_back(
        fmt::format("{} rows of the log could not be read and were skipped; the first: {}",
                    show_count(report.rows_skipped), report.first_skipped_reason));
  }
  std::string html = "<ul>\n";
  for (const std::string& item : items) html += fmt::format("<li>{}</li>\n", escape_html(item));
  return html + "</ul>\n";
}

}  // namespace

std::string html_report(const RunReport& report) {
  const RunResult& result = report.result;
  const LengthStatistics& lengths = result.lengths;
  std::string html =
      "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n";
  html +=
      fmt::format("<title>Jagged attention on {}</title>\n<style>{}</style></head>\n<body><main>\n",
                  escape_html(report.source), kPageStyle);
  html += fmt::format(
      "<header><h1>Jagged attention on {}</h1><p>{} users, {} events, {} items. {}.</p></header>\n",
      escape_html(report.source), show_count(lengths.users), show_count(lengths.events),
      show_count(report.log_items), escape_html(report.attention));
  html += tiles(report);
  html += section(
      "Histories differ in length",
      fmt::format("Half of the users have at most {} events, one in a hundred more than {}.",
                  show_count(lengths.p50), show_count(lengths.p99)),
      length_chart(report) + percentile_table(lengths));
  html += section(
      "What padding would add",
      fmt::format(
          "The blue area is the log; the whole rectangle is what a padded batch stores: {} of "
          "its rows hold no event.",
          show_percent(rows_avoided(report))),
      padding_chart(report) +
          "<div class=\"legend\"><span style=\"--key:var(--jagged)\">events</span>"
          "<span style=\"--key:var(--padding)\">padding</span></div>\n");
  html += section("Time", "Attention over all histories, forward and backward.",
                  time_chart(report) + legend(report));
  html += section("Memory", "q, k, v, out, lse and all gradients of all histories.",
                  memory_chart(report) + legend(report));
  html += section("The numbers", "", cost_table(report));
  html +=
      section("Error against the float64 reference",
              fmt::format("{} users with {} events, chosen at random.",
                          show_count(result.reference_users), show_count(result.reference_events)),
              error_table(report));
  html += section("How this was measured", "", method(report));
  return html + fmt::format("<footer>jfa {}</footer>\n</main></body></html>\n", report.version);
}

}  // namespace jfa::tool
