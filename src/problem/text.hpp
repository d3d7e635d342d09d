// Pieces of a line of text that know where they stand in it, so that every error can mark the
// place.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace jfa::detail {

// Something is wrong with `place`, a piece of the text that is being parsed. Caught by whoever
// knows the whole text; see marked().
class TextError : public std::runtime_error {
 public:
  TextError(std::string_view place, const std::string& message)
      : std::runtime_error(message), place_(place) {}
  std::string_view place() const { return place_; }

 private:
  std::string_view place_;
};

// The message, the text, and a line of ^ under the place.
std::string marked(std::string_view text, const TextError& error);

// Pieces between separators; empty pieces count. split("", ',') is one empty piece.
std::vector<std::string_view> split(std::string_view text, char separator);

// Pieces between runs of spaces and tabs; none is empty.
std::vector<std::string_view> words(std::string_view text);

// The text before and after the first separator; `after` is an empty piece at the end without one.
struct Pair {
  std::string_view before;
  std::string_view after;
  bool found = false;
};
Pair cut(std::string_view text, char separator);

// Whole numbers and decimal numbers. Throw TextError when `text` is not one within the bounds.
std::int64_t parse_integer(std::string_view text, std::int64_t minimum, std::int64_t maximum);
std::uint64_t parse_unsigned(std::string_view text);
double parse_real(std::string_view text);

// "a, b or c"
std::string alternatives(const std::vector<std::string_view>& names);

// "name=value,name=value" after a colon. `set` is called with each name and value in turn and
// returns whether it knows the name; `allowed` lists the names for the message.
template <typename Set>
void parse_options(std::string_view text, const std::vector<std::string_view>& allowed, Set set) {
  std::vector<std::string_view> seen;
  for (const std::string_view option : split(text, ',')) {
    const Pair pair = cut(option, '=');
    if (!pair.found) {
      throw TextError(option, "expected name=value; names: " + alternatives(allowed));
    }
    for (const std::string_view name : seen) {
      if (name == pair.before) throw TextError(pair.before, "given twice");
    }
    seen.push_back(pair.before);
    if (!set(pair.before, pair.after)) {
      throw TextError(pair.before, "unknown option; allowed: " + alternatives(allowed));
    }
  }
}

}  // namespace jfa::detail
