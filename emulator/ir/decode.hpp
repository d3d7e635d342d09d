// Turns a parsed kernel into a Kernel. Each opcode has a row in the decode table; its `bind`
// function gets a Decode, which reads modifiers and operands of one statement and fills in one
// Instruction.
#pragma once

#include <functional>
#include <initializer_list>
#include <map>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "ir/modifiers.hpp"
#include "ir/program.hpp"
#include "ptx/ast.hpp"

namespace ptxemu::ir {

class KernelBuilder;

/// Reads one statement. Every read of a register is recorded in the instruction's lists.
class Decode {
 public:
  Decode(KernelBuilder& builder, const ptx::Statement& statement, Instruction& instruction)
      : out(instruction), statement_(statement), builder_(builder) {}

  Instruction& out;
  std::vector<std::string_view> modifiers;

  [[nodiscard]] bool has(std::string_view modifier) const;
  /// The first of these modifiers that is present, else an empty view.
  [[nodiscard]] std::string_view one_of(std::initializer_list<std::string_view> names) const;
  [[nodiscard]] std::vector<Type> types() const;
  /// The i-th type modifier.
  [[nodiscard]] Type type(std::size_t i = 0) const;
  /// Space from `.global`, `.shared::cta`, …; generic without one.
  [[nodiscard]] Space space() const;
  void memory_order(Semantics fallback);  ///< fills semantics and scope

  [[nodiscard]] std::size_t operand_count() const { return statement_.operands.size(); }
  [[nodiscard]] const ptx::Operand& operand(std::size_t i) const;
  void require_operands(std::size_t least, std::size_t most);
  /// Register (or `_`) of exactly the width of `type`.
  Operand destination(const ptx::Operand& operand, Type type);
  /// Register, special register or constant of exactly the width of `type`.
  Operand source(const ptx::Operand& operand, Type type);
  /// Register at least as wide as `type`, as loads, stores and cvt allow.
  Operand wide_destination(const ptx::Operand& operand, Type type);
  Operand wide_source(const ptx::Operand& operand, Type type);
  Operand predicate(const ptx::Operand& operand) { return source(operand, Type::pred); }
  Operand destination(std::size_t i, Type type) { return destination(operand(i), type); }
  Operand source(std::size_t i, Type type) { return source(operand(i), type); }
  /// The common form, `d, a[, b[, c]]` and nothing else: fills out.type, out.d and the sources in
  /// order.
  void plain_operands(Type type, Type result, std::initializer_list<Type> sources);
  void plain_operands(Type type, std::initializer_list<Type> sources) {
    plain_operands(type, type, sources);
  }
  /// `d` or `d|p`: fills out.d and out.d2.
  void destination_and_predicate(std::size_t i, Type type);
  [[nodiscard]] bool is_constant(std::size_t i) const;
  [[nodiscard]] bool is_predicate(const ptx::Operand& operand) const;
  /// Integer constant in [low, high].
  std::int64_t constant(std::size_t i, std::int64_t low, std::int64_t high);
  std::int64_t constant(const ptx::Operand& operand, std::int64_t low, std::int64_t high);
  /// `[…]`: appended to the instruction's addresses.
  void address(std::size_t i) { address(operand(i)); }
  void address(const ptx::Operand& operand);
  [[nodiscard]] bool is_address(std::size_t i) const;
  /// Elements of `{…}`; a single operand counts as one element.
  std::span<const Operand> destinations(const ptx::Operand& vector, Type type, std::size_t count);
  std::span<const Operand> sources(const ptx::Operand& vector, Type type, std::size_t count);
  [[nodiscard]] std::size_t vector_size(const ptx::Operand& vector) const;
  std::span<const Operand> keep(std::vector<Operand> operands);

  std::uint32_t branch_target(const ptx::Operand& label);
  [[nodiscard]] bool is_kernel_parameter(const ptx::Variable& variable) const;
  KernelBuilder& builder() { return builder_; }
  const ptx::Statement& statement() const { return statement_; }
  [[noreturn]] void fail(const std::string& message) const;
  [[noreturn]] void unsupported(const std::string& message) const;

  void finish();  ///< publishes the recorded reads and writes

 private:
  Operand constant_operand(const ptx::Operand& operand, Type type);
  Operand register_operand(const ptx::Operand& operand);

  const ptx::Statement& statement_;
  KernelBuilder& builder_;
  std::vector<Operand> reads_, writes_;
  std::vector<Address> addresses_;
};

/// One row of the decode table.
struct OpcodeRow {
  std::string_view name;
  std::string_view modifiers;  ///< ModifierSpec text
  void (*bind)(Decode&);
  std::string_view note = {};
};
struct OpcodeGroup {
  std::string_view title;
  std::span<const OpcodeRow> rows;
};
/// The whole table, in the order of the documentation.
std::span<const OpcodeGroup> opcode_groups();

/// Where a `.global` or `.const` variable lives.
using GlobalAddress = std::function<std::uint64_t(const ptx::Variable&)>;

/// Decodes one `.entry` with every function it can reach. Throws Error(unsupported) or
/// Error(parse).
std::shared_ptr<Kernel> decode_kernel(std::shared_ptr<const ptx::Module> module,
                                      const ptx::Function& entry,
                                      const GlobalAddress& global_address,
                                      std::uint32_t shared_base);

}  // namespace ptxemu::ir
