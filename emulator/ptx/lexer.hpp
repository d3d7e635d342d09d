// Splits PTX text into tokens. Opcodes with their modifiers are read as one word, because modifiers
// such as `.2d` or `::` parts are no tokens of their own.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "ptxemu/error.hpp"

namespace ptxemu::ptx {

enum class TokenKind : std::uint8_t {
  end,
  identifier,  ///< names, with leading % $ _ allowed
  directive,   ///< .reg, .b32, …
  integer,
  float32,      ///< 0fXXXXXXXX: `bits` holds the binary32 pattern
  float64,      ///< 0d… or decimal: `bits` holds the binary64 pattern
  string,       ///< text without the quotes, escapes untouched
  punctuation,  ///< one character
};

struct Token {
  TokenKind kind = TokenKind::end;
  std::string_view text;
  std::uint64_t bits = 0;
  std::uint32_t line = 1;
  [[nodiscard]] bool is(char c) const {
    return kind == TokenKind::punctuation && text.front() == c;
  }
  [[nodiscard]] bool is(std::string_view directive) const {
    return kind == TokenKind::directive && text == directive;
  }
};

class Lexer {
 public:
  Lexer(std::string_view text, std::string_view file) : text_(text), file_(file) { advance(); }

  [[nodiscard]] const Token& peek() const { return current_; }
  Token take();
  /// Takes a token and requires it to be this character.
  void expect(char c);
  bool accept(char c);
  /// The current token re-read as an opcode: name, modifiers and `::` parts as one word. Blanks
  /// before a further `.modifier` are allowed; `storage` receives the joined word in that case.
  std::string_view take_opcode(std::string& storage);
  /// Whether the current identifier is a label definition (`name:` but not `name::`).
  [[nodiscard]] bool at_label() const;
  /// Skips a balanced `{ … }` block of any content, e.g. a debug section.
  void skip_block();
  /// Byte position of the current token, and text between two positions.
  [[nodiscard]] std::size_t position() const { return start_; }
  [[nodiscard]] std::string_view slice(std::size_t from, std::size_t to) const {
    return text_.substr(from, to - from);
  }
  [[noreturn]] void fail(const std::string& message) const { fail(message, current_.line); }
  [[noreturn]] void fail(const std::string& message, std::uint32_t line) const;

 private:
  void advance();
  void skip_blanks();
  void read_number();
  [[nodiscard]] char at(std::size_t i) const { return i < text_.size() ? text_[i] : '\0'; }

  std::string_view text_;
  std::string_view file_;
  std::size_t start_ = 0;  // of the current token
  std::size_t next_ = 0;   // after it
  std::uint32_t line_ = 1;
  Token current_;
};

}  // namespace ptxemu::ptx
