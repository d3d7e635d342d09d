// Lookup in the decode table.
#pragma once

#include <string>
#include <string_view>

#include "ir/decode.hpp"
#include "ir/modifiers.hpp"

namespace ptxemu::ir {

struct OpcodeEntry {
  const OpcodeRow* row;
  ModifierSpec spec;
};
/// Null when there is no such opcode.
const OpcodeEntry* find_opcode(std::string_view name);
/// Opcodes that share the first word, else all first words.
std::string supported_opcodes(std::string_view first_word);

}  // namespace ptxemu::ir
