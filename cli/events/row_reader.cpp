#include "events/row_reader.hpp"

#include <csv.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <exception>
#include <istream>
#include <memory>
#include <utility>

#include "events/event_log.hpp"

namespace jfa::tool {
namespace {

constexpr std::size_t kChunkBytes = std::size_t{1} << 16;
// Far above any real log; without them a stray quote or a binary file would be read into memory
// whole.
constexpr std::size_t kLongestField = std::size_t{1} << 20;
constexpr std::size_t kLongestRow = std::size_t{1} << 24;
constexpr std::size_t kMostColumns = 4096;

void* allocate_field(void* block, std::size_t size) {
  return size > kLongestField ? nullptr : std::realloc(block, size);
}

}  // namespace

// Collects libcsv's fields into a row. libcsv is C: nothing may throw while it is on the stack, so
// errors are kept and thrown after.
class RowAssembler {
 public:
  RowAssembler(std::string_view name, std::string_view delimiter, bool quotes,
               const std::function<void(const Row&)>& on_row)
      : name_(name), every_second_(delimiter.size() == 2), on_row_(on_row) {
    csv_init(&parser_, 0);
    csv_set_realloc_func(&parser_, allocate_field);
    csv_set_blk_size(&parser_, 4096);
    csv_set_delim(&parser_, static_cast<unsigned char>(delimiter.front()));
    if (!quotes) csv_set_quote(&parser_, '\0');
  }
  ~RowAssembler() { csv_free(&parser_); }
  RowAssembler(const RowAssembler&) = delete;
  RowAssembler& operator=(const RowAssembler&) = delete;

  // Text of one line or a part of it.
  void parse(std::string_view text) {
    if (at_row_start_) row_.line_ = line_;
    if (text.find_first_not_of(" \t\r\n") != std::string_view::npos) at_row_start_ = false;
    const std::size_t parsed =
        csv_parse(&parser_, text.data(), text.size(), field_callback, row_callback, this);
    rethrow();
    if (parsed != text.size()) {
      throw EventLogError(
          fmt::format("{}:{}: a field is longer than {} bytes: a quote that is never closed? Use "
                      "--no-quotes if quotes are ordinary characters",
                      name_, row_.line_, kLongestField));
    }
  }

  void next_line() { ++line_; }

  void finish() {
    // Strict only now: a quote inside an unquoted field is text, one still open at the end is an
    // error.
    csv_set_opts(&parser_, CSV_STRICT | CSV_STRICT_FINI);
    if (csv_fini(&parser_, field_callback, row_callback, this) != 0) {
      throw EventLogError(
          fmt::format("{}:{}: a quote that opens in this row is never closed; use --no-quotes if "
                      "quotes are ordinary characters",
                      name_, row_.line_));
    }
    rethrow();
  }

 private:
  static void field_callback(void* text, std::size_t size, void* self) {
    auto* assembler = static_cast<RowAssembler*>(self);
    assembler->guarded(
        [&] { assembler->add_field(std::string_view(static_cast<const char*>(text), size)); });
  }
  static void row_callback(int, void* self) {
    auto* assembler = static_cast<RowAssembler*>(self);
    assembler->guarded([&] { assembler->end_row(); });
  }

  template <typename Function>
  void guarded(const Function& function) {
    if (error_) return;
    try {
      function();
    } catch (...) {
      error_ = std::current_exception();
    }
  }

  void rethrow() const {
    if (error_) std::rethrow_exception(error_);
  }

  void add_field(std::string_view text) {
    const std::size_t place = fields_++;
    if (every_second_ && place % 2 == 1) {  // between the two colons of "::"
      if (text.empty()) return;
      throw EventLogError(
          fmt::format("{}:{}: a single ':' between '::' delimiters", name_, row_.line_));
    }
    if (row_.ends_.size() == kMostColumns || row_.text_.size() + text.size() > kLongestRow) {
      throw EventLogError(
          fmt::format("{}:{}: a row with more than {} columns or {} bytes is no event; is this a "
                      "text file, and --delimiter right?",
                      name_, row_.line_, kMostColumns, kLongestRow));
    }
    row_.text_.append(text);
    row_.ends_.push_back(row_.text_.size());
  }

  void end_row() {
    if (!row_.text_.empty()) on_row_(row_);
    row_.text_.clear();
    row_.ends_.clear();
    fields_ = 0;
    at_row_start_ = true;
  }

  std::string_view name_;
  bool every_second_;
  const std::function<void(const Row&)>& on_row_;
  csv_parser parser_{};
  Row row_;
  std::int64_t line_ = 1;
  std::size_t fields_ = 0;
  bool at_row_start_ = true;
  std::exception_ptr error_;
};

namespace {

std::string resolve_delimiter(std::string_view name, const std::string& wanted,
                              std::string_view first_chunk) {
  if (!wanted.empty()) {
    if (wanted != "::" && (wanted.size() != 1 || wanted == "\n" || wanted == "\r")) {
      throw EventLogError(fmt::format(
          "--delimiter '{}' is not usable: give one character, '::', or 'tab'", wanted));
    }
    return wanted;
  }
  const std::string found =
      detect_delimiter(first_chunk.substr(0, first_chunk.find_first_of("\r\n")));
  if (found.empty()) {
    throw EventLogError(fmt::format(
        "{}:1: no tab, '::', comma, semicolon or bar in the first line; give --delimiter", name));
  }
  return found;
}

// Drops the byte-order mark; refuses what is no text, as far as its first bytes tell.
std::string_view skip_mark(std::string_view name, std::string_view chunk) {
  using namespace std::string_view_literals;
  for (const auto& [mark, kind] : {std::pair("\x1f\x8b"sv, "gzip"sv),
                                   {"BZh"sv, "bzip2"sv},
                                   {"\x28\xb5\x2f\xfd"sv, "zstd"sv},
                                   {"\xfd"
                                    "7zXZ"sv,
                                    "xz"sv},
                                   {"PK\x03\x04"sv, "zip"sv},
                                   {"PAR1"sv, "Parquet"sv}}) {
    if (!chunk.starts_with(mark)) continue;
    throw EventLogError(fmt::format(
        "{}: a {} file; unpack or convert it to CSV first, or pipe it into --events /dev/stdin",
        name, kind));
  }
  if (chunk.starts_with("\xff\xfe") || chunk.starts_with("\xfe\xff")) {
    throw EventLogError(fmt::format("{}: UTF-16 text; convert it to UTF-8 first", name));
  }
  if (chunk.starts_with("\xef\xbb\xbf")) chunk.remove_prefix(3);
  return chunk;
}

// Gives the assembler a chunk line by line, so that it knows the line number. Lines end with \n,
// \r\n or \r.
class LineFeeder {
 public:
  explicit LineFeeder(RowAssembler& rows) : rows_(rows) {}

  void feed(std::string_view chunk) {
    while (!chunk.empty()) {
      if (after_carriage_return_ && chunk.front() != '\n') rows_.next_line();
      after_carriage_return_ = false;
      const std::size_t end = chunk.find_first_of("\r\n");
      const std::size_t size = end == std::string_view::npos ? chunk.size() : end + 1;
      rows_.parse(chunk.substr(0, size));
      if (chunk[size - 1] == '\n') rows_.next_line();
      after_carriage_return_ = chunk[size - 1] == '\r';
      chunk.remove_prefix(size);
    }
  }

 private:
  RowAssembler& rows_;
  bool after_carriage_return_ = false;
};

}  // namespace

std::string detect_delimiter(std::string_view line) {
  if (line.find('\t') != std::string_view::npos) return "\t";
  if (line.find("::") != std::string_view::npos) return "::";
  std::string best;
  std::ptrdiff_t most = 0;
  for (const char candidate : {',', ';', '|'}) {
    const std::ptrdiff_t count = std::count(line.begin(), line.end(), candidate);
    if (count > most) {
      most = count;
      best = candidate;
    }
  }
  return best;
}

void read_rows(std::istream& input, std::string_view name, const RowFormat& format,
               const std::function<void(const Row&)>& on_row,
               const std::function<void(std::int64_t)>& on_bytes) {
  std::vector<char> buffer(kChunkBytes);
  std::unique_ptr<RowAssembler> rows;
  std::unique_ptr<LineFeeder> feeder;
  std::int64_t bytes = 0;
  while (input.read(buffer.data(), static_cast<std::streamsize>(buffer.size())),
         input.gcount() > 0) {
    std::string_view chunk(buffer.data(), static_cast<std::size_t>(input.gcount()));
    bytes += input.gcount();
    if (!rows) {
      chunk = skip_mark(name, chunk);
      rows = std::make_unique<RowAssembler>(name, resolve_delimiter(name, format.delimiter, chunk),
                                            format.quotes, on_row);
      feeder = std::make_unique<LineFeeder>(*rows);
    }
    feeder->feed(chunk);
    if (on_bytes) on_bytes(bytes);
  }
  if (input.bad()) throw EventLogError(fmt::format("{}: reading failed", name));
  if (rows) rows->finish();
}

}  // namespace jfa::tool
