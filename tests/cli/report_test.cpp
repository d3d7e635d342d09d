// Reports: bins, numbers for people, JSON, and a page that needs nothing from elsewhere.
#include <gmock/gmock.h>

#include <limits>
#include <nlohmann/json.hpp>
#include <numeric>

#include "report/charts.hpp"
#include "report/length_bins.hpp"
#include "report/run_report.hpp"
#include "report/svg.hpp"
#include "terminal/style.hpp"

namespace jfa::tool {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

RunReport report_of(const std::vector<std::int64_t>& lengths) {
  RunReport report;
  report.source = "<b>log</b> & co.csv";
  report.log_events = std::accumulate(lengths.begin(), lengths.end(), std::int64_t{0});
  report.attention = "float32, 4 heads of 64, mask causal, softmax";
  report.version = "1.2.3";
  report.result.all_lengths = lengths;
  report.result.lengths = length_statistics(lengths);
  report.result.peak = {2, 1e11, 1e10, "AVX2"};
  report.result.jagged = {10, 20, 1e6, 1e-4, 0.1, 0.2, 0.15, 1, 3};
  report.result.padded = LayoutResult{30, 60, 3e6, 1e-4, 0.4, 0.8, 0.5, 1, 2};
  report.result.errors = {{"out", 1e-7, 1e-6}, {"d_q", 2e-7, 1e-6}};
  return report;
}

TEST(LengthBins, CoverEveryUserOnce) {
  std::vector<std::int64_t> lengths;
  for (std::int64_t length = 3; length < 3000; length += 7) lengths.push_back(length);
  for (const int most : {1, 2, 12, 28}) {
    const std::vector<LengthBin> bins = length_bins(lengths, most);
    ASSERT_FALSE(bins.empty());
    EXPECT_LE(bins.size(), static_cast<std::size_t>(most));
    EXPECT_EQ(bins.front().low, 3);
    EXPECT_EQ(bins.back().high, lengths.back());
    std::int64_t users = 0;
    std::int64_t events = 0;
    for (std::size_t i = 0; i < bins.size(); ++i) {
      users += bins[i].users;
      events += bins[i].events;
      EXPECT_LE(bins[i].low, bins[i].high);
      EXPECT_EQ(bins[i].low, i == 0 ? 3 : bins[i - 1].high + 1);
    }
    EXPECT_EQ(users, static_cast<std::int64_t>(lengths.size()));
    EXPECT_EQ(events, std::accumulate(lengths.begin(), lengths.end(), std::int64_t{0}));
  }
}

TEST(LengthBins, FewDifferentLengths) {
  EXPECT_TRUE(length_bins({}, 10).empty());
  EXPECT_EQ(length_bins({7, 7, 7}, 10).size(), 1U);
  const std::vector<LengthBin> bins = length_bins({1, 2, 3}, 10);
  ASSERT_EQ(bins.size(), 3U);
  EXPECT_EQ(bins[1].low, 2);
  EXPECT_EQ(bins[1].high, 2);
}

TEST(Style, Numbers) {
  EXPECT_EQ(show_count(0), "0");
  EXPECT_EQ(show_count(999), "999");
  EXPECT_EQ(show_count(1000), "1,000");
  EXPECT_EQ(show_count(-1234567), "-1,234,567");
  EXPECT_EQ(show_bytes(512), "512 B");
  EXPECT_EQ(show_bytes(1.5 * 1024 * 1024), "1.5 MiB");
  EXPECT_EQ(show_seconds(0.0012), "1.2 ms");
  EXPECT_EQ(show_seconds(3), "3.00 s");
  EXPECT_EQ(show_seconds(180), "3.0 min");
  EXPECT_EQ(show_seconds(9000), "2.5 h");
  EXPECT_EQ(show_seconds(216000), "2.5 days");
  EXPECT_EQ(show_ratio(6.951), "6.95×");
  EXPECT_EQ(show_percent(0.8564), "85.6 %");
}

TEST(Style, WidthCountsCharactersNotBytes) {
  EXPECT_EQ(columns_of("6.95×"), 5U);
  EXPECT_EQ(pad_left("×", 3), "  ×");
  EXPECT_EQ(pad_right("×", 3), "×  ");
  EXPECT_EQ(columns_of(bar(0.5, 10)), 5U);
  EXPECT_EQ(columns_of(bar(1e-9, 10)), 1U);  // something is not nothing
  EXPECT_EQ(bar(0, 10), "");
}

TEST(Svg, Ticks) {
  EXPECT_THAT(ticks(100, 4), ElementsAre(0, 50, 100));
  EXPECT_THAT(ticks(79, 4), ElementsAre(0, 20, 40, 60));
  EXPECT_THAT(ticks(0, 4), ElementsAre(0));
}

TEST(Report, JsonHoldsTheNumbers) {
  const auto json = nlohmann::json::parse(json_report(report_of({1, 2, 30})));
  EXPECT_EQ(json["lengths"]["longest"], 30);
  EXPECT_EQ(json["jagged"]["forward_seconds"], 0.1);
  EXPECT_EQ(json["padded"]["tensor_bytes"], 3e6);
  EXPECT_TRUE(json["padded_difference"].is_null());
  EXPECT_EQ(json["errors"].size(), 2U);
}

TEST(Report, JsonSurvivesNamesThatAreNoUtf8) {
  RunReport report = report_of({1});
  report.source = "log\xff.csv";
  EXPECT_TRUE(nlohmann::json::accept(json_report(report)));
}

TEST(Report, PageIsSelfContainedAndEscaped) {
  const std::string page = html_report(report_of({1, 2, 30}));
  for (const char* elsewhere : {"http://", "https://", "src=", "<script", "@import", "url("}) {
    EXPECT_THAT(page, Not(HasSubstr(elsewhere)));
  }
  EXPECT_THAT(page, HasSubstr("&lt;b&gt;log&lt;/b&gt; &amp; co.csv"));
  EXPECT_THAT(page, Not(HasSubstr("<b>log")));
  EXPECT_THAT(page, HasSubstr("prefers-color-scheme: dark"));
  EXPECT_THAT(page, HasSubstr("Measured on 2 of 3 users"));
  EXPECT_THAT(page, Not(HasSubstr("nan")));
  EXPECT_THAT(page, Not(HasSubstr("inf")));
}

TEST(Report, PageOfOneEventAndWithoutPadding) {
  RunReport report = report_of({1});
  report.result.padded.reset();
  const std::string page = html_report(report);
  EXPECT_THAT(page, HasSubstr("all histories"));
  EXPECT_THAT(page, Not(HasSubstr("padded to the longest")));
  EXPECT_THAT(page, Not(HasSubstr("nan")));
}

TEST(Report, AccuracyOutsideTheContractIsSaid) {
  RunReport report = report_of({1, 2});
  EXPECT_TRUE(within_accuracy(report));
  report.result.errors[1].relative = 1e-3;
  EXPECT_FALSE(within_accuracy(report));
  EXPECT_THAT(html_report(report), HasSubstr("OUTSIDE"));
  report.result.errors[1].relative = std::numeric_limits<double>::quiet_NaN();
  EXPECT_FALSE(within_accuracy(report));
}

}  // namespace
}  // namespace jfa::tool
