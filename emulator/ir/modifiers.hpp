// The declarative part of decoding: which modifiers an opcode takes, as groups of alternatives.
//
// A specification such as "[rn|rz] [ftz] f32|f64" lists groups separated by blanks; `[…]` is
// optional, a trailing `+` may occur several times, `@name` stands for a named set of alternatives.
// Modifiers may come in any order in the text, because compilers and inline assembly order some of
// them differently.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "ir/instruction.hpp"

namespace ptxemu::ir {

Type parse_type(std::string_view name);  ///< Type::none for anything that is no type
bool is_float(Type type);
bool is_signed(Type type);
Width width_of(Type type);  ///< of the register that holds a value of this type

struct ModifierGroup {
  std::vector<std::string_view> alternatives;
  bool optional = false;
  bool repeated = false;
};

class ModifierSpec {
 public:
  explicit ModifierSpec(std::string_view text);
  [[nodiscard]] const std::vector<ModifierGroup>& groups() const { return groups_; }
  /// Empty if the modifiers fit; else what is wrong and what is supported.
  [[nodiscard]] std::string check(const std::vector<std::string_view>& modifiers) const;
  /// Groups as text for messages and the coverage table.
  [[nodiscard]] std::string to_string() const;

 private:
  std::vector<ModifierGroup> groups_;
};

}  // namespace ptxemu::ir
