// Interaction logs: one event a row (who, when, optionally what), read from CSV, TSV and the like.
#pragma once

#include <cstdint>
#include <functional>
#include <iosfwd>
#include <limits>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace jfa::tool {

// The log cannot be used; the message names file, line, what is wrong and what to do.
class EventLogError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// User and item are numbered in the order of their first appearance.
struct Event {
  std::int32_t user = 0;
  std::int32_t item = 0;
  double time = 0;  // seconds, or whatever unit the log counts in
};

struct EventLog {
  std::vector<Event> events;  // in file order
  std::int64_t users = 0;
  std::int64_t items = 0;
  std::int64_t rows_skipped = 0;     // with skip_bad_rows
  std::string first_skipped_reason;  // with the line; empty when none was skipped
};

// A column is named as in the header ("user_id", also when the header says "user_id:token"), or by
// its number from 1. A log without a header takes numbers only.
struct EventLogOptions {
  std::string user_column;
  std::string time_column;
  std::string item_column;     // empty: every event is an item of its own
  std::string delimiter;       // empty: tab, "::", comma, semicolon or bar, seen in the first line
  bool quotes = true;          // "…" encloses fields; without, a quote is an ordinary character
  bool skip_bad_rows = false;  // count rows that cannot be read instead of stopping at the first
  // Below 1: about this share of the users, chosen by their name and the seed, whatever the order
  // of the rows. The others take no memory.
  double user_share = 1;
  std::uint64_t seed = 1;
  double memory_bytes = std::numeric_limits<double>::infinity();  // that events may take
};

// Called now and then with the bytes read so far.
using ReadProgress = std::function<void(std::int64_t bytes)>;

// Reads a log in one pass; memory grows with events, users and items, not with bytes. `total_bytes`
// of the input, if known, lets a log that would not fit in memory be refused early. Throws
// EventLogError.
EventLog read_event_log(std::istream& input, std::string_view name, const EventLogOptions& options,
                        const ReadProgress& progress = {}, std::int64_t total_bytes = 0);
EventLog read_event_log_file(const std::string& path, const EventLogOptions& options,
                             const ReadProgress& progress = {});

// A point in time: a whole or decimal number, or ISO 8601 ("2014-07-18", "2014-07-18T12:30:00.5Z",
// "2014-07-18 12:30:00+02:00") as seconds since 1970 UTC.
std::optional<double> parse_time(std::string_view text);

}  // namespace jfa::tool
