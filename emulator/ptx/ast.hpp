// What the parser makes of a PTX text: names are resolved to registers, variables, functions and
// statement indices; opcodes and modifiers are still text.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ir/instruction.hpp"
#include "ptxemu/device.hpp"

namespace ptxemu::ptx {

enum class StateSpace : std::uint8_t { reg, global, shared, local, param, constant };

struct Function;

/// One piece of an initialiser: bytes, or the address of a symbol.
struct Initialiser {
  std::vector<std::byte> bytes;
  struct Relocation {
    std::uint64_t offset = 0;
    std::string symbol;
    std::int64_t addend = 0;
    std::uint32_t line = 0;
  };
  std::vector<Relocation> relocations;
};

struct Variable {
  std::string name;
  StateSpace space = StateSpace::global;
  ir::Type type = ir::Type::none;
  std::uint32_t alignment = 1;
  std::uint64_t bytes = 0;  ///< 0 for `name[]`
  bool is_extern = false;   ///< dynamic shared memory when shared
  bool unsized = false;
  std::uint32_t line = 0;
  Initialiser initialiser;
};

struct Register {
  std::string name;
  ir::Type type = ir::Type::none;
};

struct Operand {
  enum class Kind : std::uint8_t {
    reg,
    special,
    integer,
    float32,
    float64,
    variable,
    function,
    label,
    sink,     ///< _
    vector,   ///< {a, b, …}
    address,  ///< [base + offset] or [base, {…}]
    pair,     ///< a|b
    list,     ///< (a, b, …) of a call
  } kind = Kind::sink;
  bool negated = false;     ///< !p
  std::uint32_t index = 0;  ///< register; label: statement index
  std::uint64_t bits = 0;   ///< integer or floating-point pattern; variable/address: offset
  const Variable* variable = nullptr;
  std::string_view name;  ///< special register, function or label
  std::vector<Operand> items;
};

struct Statement {
  std::string_view opcode;  ///< with all modifiers
  std::string_view text;    ///< as written
  std::optional<Operand> guard;
  std::vector<Operand> operands;
  std::uint32_t line = 0;
  std::uint32_t location = 0;  ///< index into Module::locations
};

struct Prototype {
  std::vector<std::unique_ptr<Variable>> returns, parameters;
};

struct Function {
  std::string name;
  bool entry = false;
  bool defined = false;
  bool no_return = false;
  std::uint32_t line = 0;
  std::vector<Variable*> returns, parameters;
  std::vector<Variable*> variables;  ///< declared inside: shared, local, param (of calls)
  std::vector<Register> registers;
  std::vector<Statement> body;
  std::optional<Dim3> required_block, maximum_block, required_cluster;
  std::uint32_t maximum_registers = 0;
  /// `.branchtargets` and `.calltargets`, by label.
  std::vector<std::vector<std::uint32_t>> branch_tables;
};

struct Location {
  std::uint32_t file = 0;
  std::uint32_t line = 0;
};

struct Module {
  std::string name;  ///< stands for the file
  std::string text;
  std::string version, target;
  std::deque<Variable> variables;  ///< all of them, stable addresses
  std::vector<Variable*> globals;  ///< module scope
  std::deque<Function> functions;
  std::vector<Location> locations{Location{}};  ///< entry 0 = unknown
  std::vector<std::pair<std::uint32_t, std::string>> files;
  std::deque<std::string> storage;  ///< joined opcode words
};

}  // namespace ptxemu::ptx
