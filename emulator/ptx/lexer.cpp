// Tokens of PTX: identifiers, directives, numbers in PTX's notations, strings.
#include "ptx/lexer.hpp"

#include <bit>
#include <cstdlib>

namespace ptxemu::ptx {
namespace {

bool is_alpha(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}
bool is_digit(char c) {
  return c >= '0' && c <= '9';
}
bool is_name_start(char c) {
  return is_alpha(c) || c == '_' || c == '$' || c == '%';
}
bool is_name(char c) {
  return is_alpha(c) || is_digit(c) || c == '_' || c == '$';
}

int digit_value(char c) {
  if (is_digit(c)) return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return 99;
}

}  // namespace

void Lexer::fail(const std::string& message, std::uint32_t line) const {
  SourcePosition position;
  position.ptx_file = std::string(file_);
  position.ptx_line = line;
  throw Error(ErrorKind::parse, std::string(file_) + ":" + std::to_string(line) + ": " + message,
              position);
}

void Lexer::skip_blanks() {
  for (;;) {
    const char c = at(next_);
    if (c == '\n') {
      ++line_;
      ++next_;
    } else if (c == ' ' || c == '\t' || c == '\r' || c == '\f' || c == '\v') {
      ++next_;
    } else if (c == '/' && at(next_ + 1) == '/') {
      while (next_ < text_.size() && text_[next_] != '\n') ++next_;
    } else if (c == '/' && at(next_ + 1) == '*') {
      const std::uint32_t opened = line_;
      next_ += 2;
      while (!(at(next_) == '*' && at(next_ + 1) == '/')) {
        if (next_ >= text_.size()) fail("comment is not closed", opened);
        if (text_[next_] == '\n') ++line_;
        ++next_;
      }
      next_ += 2;
    } else {
      return;
    }
  }
}

void Lexer::advance() {
  skip_blanks();
  start_ = next_;
  current_ = Token{};
  current_.line = line_;
  if (next_ >= text_.size() || text_[next_] == '\0') return;
  const char c = text_[next_];
  if (is_name_start(c)) {
    ++next_;
    while (is_name(at(next_))) ++next_;
    current_.kind = TokenKind::identifier;
    // Special registers have parts: %tid.x, %ntid.y, …
    if (c == '%' && at(next_) == '.' && at(next_ + 1) >= 'w' && at(next_ + 1) <= 'z' &&
        !is_name(at(next_ + 2)))
      next_ += 2;
  } else if (is_digit(c)) {
    read_number();
  } else if (c == '.' && (is_name_start(at(next_ + 1)) || is_digit(at(next_ + 1)))) {
    ++next_;
    while (is_name(at(next_))) ++next_;
    current_.kind = TokenKind::directive;
  } else if (c == '"') {
    ++next_;
    while (at(next_) != '"') {
      if (next_ >= text_.size() || at(next_) == '\n') fail("string is not closed");
      next_ += at(next_) == '\\' && at(next_ + 1) != '\n' ? 2 : 1;
    }
    ++next_;
    current_.kind = TokenKind::string;
    current_.text = text_.substr(start_ + 1, next_ - start_ - 2);
    return;
  } else {
    ++next_;
    current_.kind = TokenKind::punctuation;
  }
  current_.text = text_.substr(start_, next_ - start_);
}

void Lexer::read_number() {
  const char c1 = at(next_ + 1);
  const bool zero = at(next_) == '0';
  const auto read_bits = [&](std::size_t digits, TokenKind kind) {
    next_ += 2;
    for (std::size_t i = 0; i < digits; ++i, ++next_) {
      const int v = digit_value(at(next_));
      if (v > 15) fail("floating-point constant needs " + std::to_string(digits) + " hex digits");
      current_.bits = current_.bits << 4 | static_cast<unsigned>(v);
    }
    current_.kind = kind;
  };
  if (zero && (c1 == 'f' || c1 == 'F')) return read_bits(8, TokenKind::float32);
  if (zero && (c1 == 'd' || c1 == 'D')) return read_bits(16, TokenKind::float64);

  unsigned base = 10;
  if (zero && (c1 == 'x' || c1 == 'X')) {
    base = 16;
  } else if (zero && (c1 == 'b' || c1 == 'B')) {
    base = 2;
  } else if (zero && is_digit(c1)) {
    base = 8;
  }
  if (base == 10) {  // a decimal point or exponent makes it a double
    std::size_t end = next_;
    while (is_digit(at(end))) ++end;
    bool real = false;
    if (at(end) == '.' && is_digit(at(end + 1))) {
      real = true;
      ++end;
      while (is_digit(at(end))) ++end;
    }
    if ((at(end) == 'e' || at(end) == 'E') &&
        (is_digit(at(end + 1)) ||
         ((at(end + 1) == '-' || at(end + 1) == '+') && is_digit(at(end + 2))))) {
      real = true;
      end += 2;
      while (is_digit(at(end))) ++end;
    }
    if (real) {
      const std::string digits(text_.substr(next_, end - next_));
      current_.bits = std::bit_cast<std::uint64_t>(std::strtod(digits.c_str(), nullptr));
      current_.kind = TokenKind::float64;
      next_ = end;
      return;
    }
  }
  if (base == 16 || base == 2) next_ += 2;
  bool any = false;
  bool overflow = false;
  std::uint64_t value = 0;
  while (static_cast<unsigned>(digit_value(at(next_))) < base) {
    const auto v = static_cast<unsigned>(digit_value(at(next_)));
    overflow |= value > (~std::uint64_t{0} - v) / base;
    value = value * base + v;
    any = true;
    ++next_;
  }
  if (!any) fail("number has no digits");
  if (overflow) fail("integer constant does not fit 64 bits");
  if (at(next_) == 'U' || at(next_) == 'u') ++next_;
  if (is_name(at(next_))) fail("malformed number");
  current_.kind = TokenKind::integer;
  current_.bits = value;
}

Token Lexer::take() {
  Token token = current_;
  advance();
  return token;
}

void Lexer::expect(char c) {
  if (!current_.is(c)) {
    fail(std::string("expected '") + c + "' but found " +
         (current_.kind == TokenKind::end ? "the end of the text"
                                          : "'" + std::string(current_.text) + "'"));
  }
  advance();
}

bool Lexer::accept(char c) {
  if (!current_.is(c)) return false;
  advance();
  return true;
}

bool Lexer::at_label() const {
  if (current_.kind != TokenKind::identifier) return false;
  std::size_t i = next_;
  while (at(i) == ' ' || at(i) == '\t') ++i;
  return at(i) == ':' && at(i + 1) != ':';
}

std::string_view Lexer::take_opcode(std::string& storage) {
  const auto read_word = [&] {
    std::size_t end = start_;
    while (is_name(at(end)) || at(end) == '.' || at(end) == ':') ++end;
    next_ = end;
    const std::string_view word = text_.substr(start_, end - start_);
    advance();
    return word;
  };
  const std::string_view word = read_word();
  if (current_.kind != TokenKind::directive) return word;
  storage = word;
  while (current_.kind == TokenKind::directive) storage += read_word();
  return storage;
}

void Lexer::skip_block() {
  const std::uint32_t opened = current_.line;
  expect('{');
  for (unsigned depth = 1; depth > 0;) {
    if (current_.kind == TokenKind::end) fail("block is not closed", opened);
    if (current_.is('{')) ++depth;
    if (current_.is('}')) --depth;
    advance();
  }
}

}  // namespace ptxemu::ptx
