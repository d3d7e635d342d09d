// The keys of the one-line notation: one table that parses, prints and explains them.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "jfa/problem.hpp"

namespace jfa::detail {

// key=value.
struct Field {
  std::string_view key;
  std::string_view values;  // what is allowed, for messages and help
  void (*parse)(Problem& problem, std::string_view value);      // throws TextError
  std::optional<std::string> (*print)(const Problem& problem);  // nothing: the default
};

// A word that switches something on.
struct Flag {
  std::string_view word;
  std::string_view meaning;
  bool& (*of)(Problem& problem);
};

// In the order of the canonical line.
std::span<const Field> fields();
std::span<const Flag> flags();

// "bf16" and so on; "fwd" and "bwd". Nothing when `word` is none of them.
std::optional<DType> dtype_of(std::string_view word);
std::string_view word_of(DType dtype);
std::optional<Direction> direction_of(std::string_view word);
std::string_view word_of(Direction direction);

}  // namespace jfa::detail
