#include "events/event_log.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <limits>
#include <unordered_map>

#include "events/row_reader.hpp"

namespace jfa::tool {
namespace {

constexpr std::size_t kNoColumn = std::numeric_limits<std::size_t>::max();

// Looks up std::string keys by std::string_view.
struct StringHash {
  using is_transparent = void;
  std::size_t operator()(std::string_view text) const {
    return std::hash<std::string_view>{}(text);
  }
};

// Numbers names in the order of their first appearance.
class Numbering {
 public:
  std::int32_t number_of(std::string_view name) {
    const auto found = numbers_.find(name);
    if (found != numbers_.end()) return found->second;
    const auto number = static_cast<std::int32_t>(numbers_.size());
    numbers_.emplace(name, number);
    return number;
  }
  std::int64_t size() const { return static_cast<std::int64_t>(numbers_.size()); }

 private:
  std::unordered_map<std::string, std::int32_t, StringHash, std::equal_to<>> numbers_;
};

// "3" → column 2; anything else is a name.
std::optional<std::size_t> column_number(std::string_view text) {
  std::size_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size() || number == 0) return {};
  return number - 1;
}

// Bytes of the UTF-8 character that `text` begins with; 0: none that a terminal should be sent.
std::size_t printable(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  if (byte(0) < 0x80) return byte(0) < 0x20 || byte(0) == 0x7f ? 0 : 1;
  const std::size_t size = byte(0) >= 0xf0 ? 4 : byte(0) >= 0xe0 ? 3 : 2;
  if (byte(0) < 0xc3 || byte(0) > 0xf4 || text.size() < size) return 0;  // 0xc2: control characters
  for (std::size_t i = 1; i < size; ++i) {
    if ((byte(i) & 0xc0U) != 0x80) return 0;
  }
  return size;
}

// What a terminal could misread is shown as '?', long text is cut.
std::string shown(std::string_view text) {
  constexpr std::size_t kMost = 40;
  std::string result;
  while (!text.empty() && result.size() < kMost) {
    const std::size_t size = printable(text);
    result += size > 0 ? text.substr(0, size) : "?";
    text.remove_prefix(std::max<std::size_t>(size, 1));
  }
  return text.empty() ? result : result + "…";
}

// Uniform in [0, 1), the same on every machine (FNV-1a, then the finalizer of splitmix64).
double place_of(std::string_view name, std::uint64_t seed) {
  std::uint64_t hash = 0xcbf29ce484222325U ^ seed;
  for (const char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3U;
  hash = (hash ^ (hash >> 30U)) * 0xbf58476d1ce4e5b9U;
  hash = (hash ^ (hash >> 27U)) * 0x94d049bb133111ebU;
  return static_cast<double>((hash ^ (hash >> 31U)) >> 11U) * 0x1p-53;
}

class LogBuilder {
 public:
  LogBuilder(std::string_view name, const EventLogOptions& options)
      : name_(name), options_(options) {
    if (options.user_column.empty() || options.time_column.empty()) {
      throw EventLogError("a user column and a time column are needed; give --user and --time");
    }
  }

  void add_row(const Row& row) {
    if (first_row_) {
      first_row_ = false;
      if (resolve_columns(row)) return;
    }
    try {
      add_event(row);
    } catch (const EventLogError& error) {
      if (!options_.skip_bad_rows) throw;
      if (log_.rows_skipped++ == 0) log_.first_skipped_reason = error.what();
    }
  }

  // Once a part of the input is read: makes room for all events, or says that there is none.
  void expect(std::int64_t bytes, std::int64_t total_bytes) {
    constexpr std::int64_t kEnough = std::int64_t{1} << 20;
    if (expected_ || bytes < kEnough || total_bytes <= bytes) return;
    expected_ = true;
    const double events = 1.02 * static_cast<double>(log_.events.size()) *
                          static_cast<double>(total_bytes) / static_cast<double>(bytes);
    // Histories are made of an index and an item for each event.
    const double needed = events * (sizeof(Event) + 2 * sizeof(std::int32_t));
    if (needed > options_.memory_bytes) {
      constexpr double kGiB = 1 << 30;
      throw EventLogError(fmt::format(
          "{}: about {:.0f} million events take {:.1f} GiB, but {:.1f} GiB are available; choose a "
          "share of the users with --user-share",
          name_, events / 1e6, needed / kGiB, options_.memory_bytes / kGiB));
    }
    log_.events.reserve(static_cast<std::size_t>(events));
  }

  EventLog finish() {
    log_.users = users_.size();
    log_.items = item_ == kNoColumn ? static_cast<std::int64_t>(log_.events.size()) : items_.size();
    return std::move(log_);
  }

 private:
  // True when the row is a header.
  bool resolve_columns(const Row& row) {
    user_ = column(row, options_.user_column, "--user");
    time_ = column(row, options_.time_column, "--time");
    if (!options_.item_column.empty()) item_ = column(row, options_.item_column, "--item");
    if (named_) return true;
    return time_ < row.size() && !parse_time(row[time_]);
  }

  std::size_t column(const Row& header, const std::string& wanted, std::string_view option) {
    if (const auto number = column_number(wanted)) return *number;
    named_ = true;
    std::size_t found = kNoColumn;
    std::vector<std::string> names;
    for (std::size_t i = 0; i < header.size(); ++i) {
      // RecBole writes the type behind the name: "user_id:token".
      const std::string_view text = header[i];
      names.push_back(shown(text));
      if (text != wanted && text.substr(0, text.find(':')) != wanted) continue;
      if (found != kNoColumn) {
        throw EventLogError(
            fmt::format("{}:{}: the header has two columns '{}'; give {} as a number", name_,
                        header.line(), wanted, option));
      }
      found = i;
    }
    if (found == kNoColumn) {
      throw EventLogError(fmt::format(
          "{}:{}: {} {}: no such column; the first row has: {}. Without a header give numbers from "
          "1",
          name_, header.line(), option, wanted, fmt::join(names, ", ")));
    }
    return found;
  }

  std::string_view field(const Row& row, std::size_t column, std::string_view what) const {
    if (column >= row.size()) {
      throw EventLogError(fmt::format("{}:{}: no {}: the row has {} column{}, column {} is needed",
                                      name_, row.line(), what, row.size(),
                                      row.size() == 1 ? "" : "s", column + 1));
    }
    if (row[column].empty()) {
      throw EventLogError(
          fmt::format("{}:{}: no {}: column {} is empty", name_, row.line(), what, column + 1));
    }
    return row[column];
  }

  void add_event(const Row& row) {
    const std::string_view user = field(row, user_, "user");
    const std::string_view time_text = field(row, time_, "time");
    const std::string_view item = item_ == kNoColumn ? "" : field(row, item_, "item");
    const auto time = parse_time(time_text);
    if (!time) {
      throw EventLogError(fmt::format(
          "{}:{}: '{}' is no time; a number or an ISO 8601 date (2014-07-18T12:30:00Z) is", name_,
          row.line(), shown(time_text)));
    }
    if (options_.user_share < 1 && place_of(user, options_.seed) >= options_.user_share) return;
    if (log_.events.size() == std::numeric_limits<std::int32_t>::max()) {
      throw EventLogError(
          fmt::format("{}:{}: more than 2³¹ − 1 events; split the log", name_, row.line()));
    }
    const auto index = static_cast<std::int32_t>(log_.events.size());
    log_.events.push_back(
        {users_.number_of(user), item_ == kNoColumn ? index : items_.number_of(item), *time});
  }

  std::string_view name_;
  const EventLogOptions& options_;
  EventLog log_;
  Numbering users_;
  Numbering items_;
  std::size_t user_ = kNoColumn;
  std::size_t time_ = kNoColumn;
  std::size_t item_ = kNoColumn;
  bool first_row_ = true;
  bool expected_ = false;
  bool named_ = false;  // at least one column is given by name, so there is a header
};

}  // namespace

EventLog read_event_log(std::istream& input, std::string_view name, const EventLogOptions& options,
                        const ReadProgress& progress, std::int64_t total_bytes) {
  LogBuilder builder(name, options);
  read_rows(
      input, name, {options.delimiter, options.quotes},
      [&](const Row& row) { builder.add_row(row); },
      [&](std::int64_t bytes) {
        builder.expect(bytes, total_bytes);
        if (progress) progress(bytes);
      });
  return builder.finish();
}

EventLog read_event_log_file(const std::string& path, const EventLogOptions& options,
                             const ReadProgress& progress) {
  std::ifstream input(path, std::ios::binary);
  if (!input) {
    throw EventLogError(fmt::format("{}: cannot be read: {}", path, std::strerror(errno)));
  }
  std::error_code unknown;  // a pipe
  const auto bytes = std::filesystem::file_size(path, unknown);
  return read_event_log(input, path, options, progress,
                        unknown ? 0 : static_cast<std::int64_t>(bytes));
}

}  // namespace jfa::tool
