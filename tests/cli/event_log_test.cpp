// Event logs: columns by name and number, headers, times, bad rows.
#include "events/event_log.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <sstream>
#include <tuple>

namespace jfa::tool {

static bool operator==(const Event& a, const Event& b) {
  return std::tie(a.user, a.item, a.time) == std::tie(b.user, b.item, b.time);
}

namespace {

using ::testing::ElementsAre;
using ::testing::ElementsAreArray;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::ThrowsMessage;

EventLogOptions columns(std::string user, std::string time, std::string item = "") {
  EventLogOptions options;
  options.user_column = std::move(user);
  options.time_column = std::move(time);
  options.item_column = std::move(item);
  return options;
}

EventLog read(const std::string& text, const EventLogOptions& options) {
  std::istringstream input(text);
  return read_event_log(input, "log.csv", options);
}

TEST(EventLog, ColumnsByName) {
  const EventLog log =
      read("who,what,when\nann,x,3\nbob,y,2\nann,y,1\n", columns("who", "when", "what"));
  EXPECT_THAT(log.events, ElementsAre(Event{0, 0, 3}, Event{1, 1, 2}, Event{0, 1, 1}));
  EXPECT_EQ(log.users, 2);
  EXPECT_EQ(log.items, 2);
}

TEST(EventLog, RecBoleHeader) {
  const EventLog log =
      read("user_id:token\titem_id:token\trating:float\ttimestamp:float\n196\t242\t3\t881250949\n",
           columns("user_id", "timestamp", "item_id"));
  EXPECT_THAT(log.events, ElementsAre(Event{0, 0, 881250949}));
}

TEST(EventLog, ColumnsByNumberWithAndWithoutHeader) {
  const auto options = columns("1", "3", "2");
  EXPECT_THAT(read("a,x,10\nb,y,20\n", options).events,
              ElementsAre(Event{0, 0, 10}, Event{1, 1, 20}));
  EXPECT_THAT(read("user,item,time\na,x,10\n", options).events, ElementsAre(Event{0, 0, 10}));
}

TEST(EventLog, DoubleColonFilesOfMovieLens) {
  EXPECT_THAT(read("1::1193::5::978300760\n", columns("1", "4", "2")).events,
              ElementsAre(Event{0, 0, 978300760}));
}

TEST(EventLog, WithoutItemColumnEveryEventIsAnItem) {
  const EventLog log = read("u,t\na,1\na,2\nb,3\n", columns("u", "t"));
  EXPECT_THAT(log.events, ElementsAre(Event{0, 0, 1}, Event{0, 1, 2}, Event{1, 2, 3}));
  EXPECT_EQ(log.items, 3);
}

TEST(EventLog, HeaderOnlyAndEmptyFilesHaveNoEvents) {
  EXPECT_TRUE(read("u,t\n", columns("u", "t")).events.empty());
  EXPECT_TRUE(read("", columns("u", "t")).events.empty());
}

TEST(EventLog, MissingColumnListsTheHeader) {
  EXPECT_THAT([] { read("user,item,time\n", columns("usr", "time")); },
              ThrowsMessage<EventLogError>(
                  AllOf(HasSubstr("log.csv:1: --user usr"), HasSubstr("user, item, time"))));
}

TEST(EventLog, AmbiguousColumnIsRefused) {
  EXPECT_THAT([] { read("t,u,t\n", columns("u", "t")); },
              ThrowsMessage<EventLogError>(HasSubstr("two columns 't'")));
}

TEST(EventLog, ColumnsMustBeGiven) {
  EXPECT_THAT([] { read("u,t\n", columns("", "t")); },
              ThrowsMessage<EventLogError>(HasSubstr("--user")));
}

TEST(EventLog, BadRowsNameTheirLine) {
  const auto options = columns("u", "t", "i");
  EXPECT_THAT([&] { read("u,i,t\na,x,1\n\na,x\n", options); },
              ThrowsMessage<EventLogError>(HasSubstr("log.csv:4: no time: the row has 2 columns")));
  EXPECT_THAT([&] { read("u,i,t\n,x,1\n", options); },
              ThrowsMessage<EventLogError>(HasSubstr("log.csv:2: no user: column 1 is empty")));
  EXPECT_THAT([&] { read("u,i,t\na,,1\n", options); },
              ThrowsMessage<EventLogError>(HasSubstr("log.csv:2: no item")));
  EXPECT_THAT([&] { read("u,i,t\na,x,soon\n", options); },
              ThrowsMessage<EventLogError>(HasSubstr("log.csv:2: 'soon' is no time")));
}

TEST(EventLog, BadRowsCanBeSkippedAndAreCounted) {
  auto options = columns("u", "t", "i");
  options.skip_bad_rows = true;
  const EventLog log = read("u,i,t\na,x,1\nb\na,y,never\na,z,2\n", options);
  EXPECT_THAT(log.events, ElementsAre(Event{0, 0, 1}, Event{0, 1, 2}));
  EXPECT_EQ(log.users, 1);
  EXPECT_EQ(log.items, 2);
  EXPECT_EQ(log.rows_skipped, 2);
  EXPECT_THAT(log.first_skipped_reason, HasSubstr("log.csv:3"));
}

TEST(EventLog, ControlCharactersDoNotReachTheTerminal) {
  EXPECT_THAT([] { read("u,t\na,\x1b[31mred\n", columns("u", "t")); },
              ThrowsMessage<EventLogError>(HasSubstr("'?[31mred'")));
}

TEST(EventLog, MissingFile) {
  EXPECT_THAT([] { read_event_log_file("/no/such/file.csv", columns("u", "t")); },
              ThrowsMessage<EventLogError>(HasSubstr("/no/such/file.csv: cannot be read")));
}

TEST(EventLog, ShareOfTheUsers) {
  std::string text = "u,t,i\n";
  for (int row = 0; row < 3000; ++row) text += fmt::format("user{},{},x\n", row % 1000, row);
  EventLogOptions options = columns("u", "t", "i");
  options.user_share = 0.3;
  const EventLog log = read(text, options);
  EXPECT_NEAR(static_cast<double>(log.users), 300, 60);
  EXPECT_EQ(log.events.size(), 3 * static_cast<std::size_t>(log.users));  // a user whole, or not
  options.seed = 2;
  const EventLog other = read(text, options);
  EXPECT_THAT(other.events, Not(ElementsAreArray(log.events)));
  EXPECT_NEAR(static_cast<double>(other.users), 300, 60);
  options.user_share = 1;
  EXPECT_EQ(read(text, options).users, 1000);
}

TEST(EventLog, LogLargerThanMemoryIsRefusedEarly) {
  std::string text = "u,t\n";
  while (text.size() < (std::size_t{2} << 20)) text += "12345,1500000000\n";
  EventLogOptions options = columns("u", "t");
  options.memory_bytes = 1e9;
  std::istringstream small(text);
  EXPECT_NO_THROW(read_event_log(small, "log.csv", options, {}, std::int64_t{100} << 20));
  std::istringstream large(text);
  EXPECT_THAT([&] { read_event_log(large, "log.csv", options, {}, std::int64_t{1} << 40); },
              ThrowsMessage<EventLogError>(HasSubstr("--user-share")));
  EXPECT_FALSE(large.eof());
}

TEST(EventLog, FilesThatAreNoText) {
  for (const char* start : {"\x1f\x8b\x08", "PK\x03\x04", "BZh9", "PAR1", "\x28\xb5\x2f\xfd"}) {
    EXPECT_THAT([&] { read(std::string(start) + "\nabc,1\n", columns("u", "t")); },
                ThrowsMessage<EventLogError>(HasSubstr("unpack or convert")));
  }
}

TEST(EventLog, MessagesShowNothingThatATerminalCouldMisread) {
  const auto header = [](const std::string& name) {
    return [name] { read(name + ",t\n1,2\n", columns("u", "t")); };
  };
  const auto shows = [](const char* text) {
    return ThrowsMessage<EventLogError>(HasSubstr(std::string("first row has: ") + text + ", t"));
  };
  EXPECT_THAT(header("a\x1b[31m"), shows("a?[31m"));
  EXPECT_THAT(header("\x9b"
                     "31m"),
              shows("?31m"));  // CSI of one byte
  EXPECT_THAT(header("\xc2\x9b"
                     "31m"),
              shows("??31m"));  // the same in UTF-8
  EXPECT_THAT(header("gr\xc3\xb6\xc3\x9f"
                     "e"),
              shows("größe"));
  EXPECT_THAT(header("\xe7\x94"), shows("??"));  // cut off
  EXPECT_THAT(header(std::string(39, 'a') + "\xc3\xb6"
                                            "b"),
              shows((std::string(39, 'a') + "ö…").c_str()));
}

TEST(EventLog, FolderInPlaceOfFile) {
  EXPECT_THROW(read_event_log_file("/", columns("u", "t")), EventLogError);
}

TEST(ParseTime, Numbers) {
  EXPECT_EQ(parse_time("881250949"), 881250949.0);
  EXPECT_EQ(parse_time("-1.5e3"), -1500.0);
  EXPECT_EQ(parse_time("+7"), 7.0);
}

TEST(ParseTime, Iso8601) {
  EXPECT_EQ(parse_time("1970-01-02"), 86400.0);
  EXPECT_EQ(parse_time("2014-07-18T12:30:00Z"), 1405686600.0);
  EXPECT_EQ(parse_time("2014-07-18 12:30"), 1405686600.0);
  EXPECT_EQ(parse_time("2014-07-18 12:30:00.25"), 1405686600.25);
  EXPECT_EQ(parse_time("2014-07-18T14:30:00+02:00"), 1405686600.0);
  EXPECT_EQ(parse_time("2014-07-18T10:30:00-0200"), 1405686600.0);
}

TEST(ParseTime, EverythingElseIsRefused) {
  for (const char* text :
       {"", " ", "x", "1x", "nan", "inf", "1e999", "2014-13-01", "2014-02-30", "2014-07-18T",
        "2014-07-18T25:00:00", "2014-07-18T12:60:00", "2014-07-18T12:30:00Q", "--1", "+-1"}) {
    EXPECT_EQ(parse_time(text), std::nullopt) << text;
  }
}

}  // namespace
}  // namespace jfa::tool
