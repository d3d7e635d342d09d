// What `jfa run` tells: on the terminal, as JSON, and as one HTML page.
#pragma once

#include <cstdint>
#include <string>

#include "run/runner.hpp"
#include "run/settings.hpp"

namespace jfa::tool {

struct RunReport {
  std::string source;  // the log's file name, without its folder
  std::int64_t log_events = 0;
  std::int64_t log_users = 0;
  std::int64_t log_items = 0;
  std::int64_t rows_skipped = 0;
  std::string first_skipped_reason;
  std::int64_t longest_kept = 0;  // --max-history; 0: all
  double user_share = 1;          // --user-share
  double read_seconds = 0;
  std::string processor;
  std::string version;    // of jfa
  std::string attention;  // "float32, 4 heads of 64, causal mask, softmax"
  RunSettings settings;
  RunResult result;
};

// Derived numbers, the same in all three forms.
double rows_avoided(const RunReport& report);      // share of a padded batch's rows that is padding
double pairs_avoided(const RunReport& report);     // share of its scores
double allowed_error(DType dtype, bool gradient);  // docs/contract.md, "Accuracy"
bool within_accuracy(const RunReport& report);

void print_report(const RunReport& report);
std::string json_report(const RunReport& report);
std::string html_report(const RunReport& report);

}  // namespace jfa::tool
