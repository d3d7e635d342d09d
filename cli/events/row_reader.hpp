// Rows of a delimited text file (CSV, TSV, …), streamed: quoting, CRLF, byte-order mark, empty
// lines, line numbers, limits against hostile input. A thin layer on libcsv.
#pragma once

#include <cstdint>
#include <functional>
#include <iosfwd>
#include <string>
#include <string_view>
#include <vector>

namespace jfa::tool {

struct RowFormat {
  std::string delimiter;  // one character, or "::"; empty: seen in the first line
  bool quotes = true;
};

// The fields of one row, valid during the call it is passed to.
class Row {
 public:
  std::int64_t line() const { return line_; }
  std::size_t size() const { return ends_.size(); }
  std::string_view operator[](std::size_t column) const {
    const std::size_t begin = column == 0 ? 0 : ends_[column - 1];
    return std::string_view(text_).substr(begin, ends_[column] - begin);
  }

 private:
  friend class RowAssembler;

  std::int64_t line_ = 1;  // where the row starts
  std::string text_;       // all fields, one after the other
  std::vector<std::size_t> ends_;
};

// Calls `on_row` for every row that has any text. `on_bytes`, if set, is called now and then with
// the number of bytes read. Throws EventLogError; `name` is the file's name in messages.
void read_rows(std::istream& input, std::string_view name, const RowFormat& format,
               const std::function<void(const Row&)>& on_row,
               const std::function<void(std::int64_t)>& on_bytes = {});

// The delimiter of a line: tab, "::", or the most frequent of comma, semicolon and bar; empty when
// there is none.
std::string detect_delimiter(std::string_view line);

}  // namespace jfa::tool
