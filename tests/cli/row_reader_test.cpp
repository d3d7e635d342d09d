// Rows of delimited text: every way a file may be written, and hostile ones.
#include "events/row_reader.hpp"

#include <gmock/gmock.h>

#include <sstream>

#include "events/event_log.hpp"

namespace jfa::tool {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;
using ::testing::ThrowsMessage;

using Fields = std::vector<std::string>;
using Rows = std::vector<std::pair<std::int64_t, Fields>>;  // line, fields

Rows rows_of(const std::string& text, const RowFormat& format = {",", true}) {
  std::istringstream input(text);
  Rows rows;
  read_rows(input, "log", format, [&](const Row& row) {
    Fields fields;
    for (std::size_t i = 0; i < row.size(); ++i) fields.emplace_back(row[i]);
    rows.emplace_back(row.line(), fields);
  });
  return rows;
}

TEST(RowReader, EmptyInputHasNoRows) {
  EXPECT_TRUE(rows_of("").empty());
  EXPECT_TRUE(rows_of("\n\r\n\n").empty());
}

TEST(RowReader, AllLineEndings) {
  for (const char* end : {"\n", "\r\n", "\r"}) {
    const std::string text = std::string("a,b") + end + end + "c,d" + end + "e,f";
    EXPECT_THAT(rows_of(text), ElementsAre(Pair(1, Fields{"a", "b"}), Pair(3, Fields{"c", "d"}),
                                           Pair(4, Fields{"e", "f"})))
        << ::testing::PrintToString(end);
  }
}

TEST(RowReader, EmptyFieldsAreKept) {
  EXPECT_THAT(rows_of(",a,\nb,,c\n"),
              ElementsAre(Pair(1, Fields{"", "a", ""}), Pair(2, Fields{"b", "", "c"})));
}

TEST(RowReader, QuotesHoldDelimitersQuotesAndLineBreaks) {
  EXPECT_THAT(rows_of("\"a,b\",\"c\"\"d\"\n\"e\n\nf\",g\nh,i\n"),
              ElementsAre(Pair(1, Fields{"a,b", "c\"d"}), Pair(2, Fields{"e\n\nf", "g"}),
                          Pair(5, Fields{"h", "i"})));
}

TEST(RowReader, QuoteThatIsNeverClosedNamesItsRow) {
  EXPECT_THAT([] { rows_of("a,b\nc,\"d\ne,f\n"); },
              ThrowsMessage<EventLogError>(
                  AllOf(HasSubstr("log:2: a quote that opens"), HasSubstr("--no-quotes"))));
  EXPECT_THAT(rows_of("c,\"d\n", {",", false}), ElementsAre(Pair(1, Fields{"c", "\"d"})));
}

TEST(RowReader, ByteOrderMarks) {
  EXPECT_THAT(rows_of("\xef\xbb\xbf"
                      "a,b\n"),
              ElementsAre(Pair(1, Fields{"a", "b"})));
  EXPECT_THAT(
      [] {
        rows_of(
            std::string("\xff\xfe"
                        "a\0,\0",
                        6));
      },
      ThrowsMessage<EventLogError>(HasSubstr("UTF-16")));
}

TEST(RowReader, LineNumbersSkipBlankLines) {
  EXPECT_THAT(rows_of("\n  \n\na,b\n \t \n\nc,d"),
              ElementsAre(Pair(4, Fields{"a", "b"}), Pair(7, Fields{"c", "d"})));
}

TEST(RowReader, DetectsTheDelimiter) {
  EXPECT_EQ(detect_delimiter("a\tb,c,d"), "\t");
  EXPECT_EQ(detect_delimiter("1::2::3::4"), "::");
  EXPECT_EQ(detect_delimiter("a,b,c;d"), ",");
  EXPECT_EQ(detect_delimiter("a;b;c,d"), ";");
  EXPECT_EQ(detect_delimiter("a|b"), "|");
  EXPECT_EQ(detect_delimiter("abc"), "");
  EXPECT_THAT(
      [] {
        rows_of("abc\n", {"", true});
      },
      ThrowsMessage<EventLogError>(HasSubstr("--delimiter")));
}

TEST(RowReader, DoubleColon) {
  EXPECT_THAT(rows_of("1::1193::5\n2::::7\n", {"::", true}),
              ElementsAre(Pair(1, Fields{"1", "1193", "5"}), Pair(2, Fields{"2", "", "7"})));
  EXPECT_THAT(
      [] {
        rows_of("1:x:2\n", {"::", true});
      },
      ThrowsMessage<EventLogError>(HasSubstr("log:1: a single ':'")));
}

TEST(RowReader, RefusesAnUnusableDelimiter) {
  for (const char* delimiter : {"ab", "\n", "\r", ":::"}) {
    EXPECT_THAT(
        [&] {
          rows_of("a,b\n", {delimiter, true});
        },
        ThrowsMessage<EventLogError>(HasSubstr("--delimiter")));
  }
}

TEST(RowReader, LinesLongerThanTheBuffer) {
  const std::string longest(900'000, 'x');
  const std::string text = longest + "," + longest + "," + longest + "\nb,c\n";
  EXPECT_THAT(rows_of(text),
              ElementsAre(Pair(1, Fields{longest, longest, longest}), Pair(2, Fields{"b", "c"})));
}

TEST(RowReader, LimitsAgainstHostileFiles) {
  EXPECT_THAT([] { rows_of(std::string(3'000'000, 'x')); },
              ThrowsMessage<EventLogError>(HasSubstr("log:1: a field is longer than")));
  EXPECT_THAT([] { rows_of("a,b\n\"" + std::string(3'000'000, '\n')); },
              ThrowsMessage<EventLogError>(HasSubstr("log:2: a field is longer than")));
  EXPECT_THAT([] { rows_of(std::string(1'000'000, ',')); },
              ThrowsMessage<EventLogError>(HasSubstr("columns")));
}

TEST(RowReader, NulBytesAreText) {
  EXPECT_THAT(rows_of(std::string("a\0b,c\n", 6)),
              ElementsAre(Pair(1, Fields{std::string("a\0b", 3), "c"})));
}

}  // namespace
}  // namespace jfa::tool
