// Layout of a kernel: registers, stack frames, shared memory, constants.
#pragma once

#include <map>
#include <unordered_map>
#include <utility>
#include <vector>

#include "ir/decode.hpp"

namespace ptxemu::ir {

class KernelBuilder {
 public:
  KernelBuilder(std::shared_ptr<const ptx::Module> module, const ptx::Function& entry,
                const GlobalAddress& global_address, std::uint32_t shared_base);
  std::shared_ptr<Kernel> build();

  // For Decode:
  Kernel& kernel() { return *kernel_; }
  [[nodiscard]] const ptx::Function& function() const { return *functions_[current_]; }
  [[nodiscard]] Operand register_operand(std::uint32_t index) const;
  Operand constant(Width width, std::uint64_t bits);
  /// Index in Kernel::functions; throws when there is no body.
  std::uint32_t function_index(std::string_view name, std::uint32_t line);
  [[nodiscard]] const ptx::Function* find_function(std::string_view name) const;
  [[nodiscard]] FrameSlot frame_slot(const ptx::Variable& variable, std::uint32_t line) const;
  [[nodiscard]] std::uint32_t parameter_offset(const ptx::Variable& variable) const;
  [[nodiscard]] bool is_kernel_parameter(const ptx::Variable& variable) const;
  [[nodiscard]] std::uint32_t shared_offset(const ptx::Variable& variable) const;
  [[nodiscard]] std::uint64_t global_address(const ptx::Variable& variable) const;
  /// Instruction index of a statement of the current function; valid while decoding.
  [[nodiscard]] std::uint32_t instruction_of(std::uint32_t statement) const;
  [[nodiscard]] const ptx::Statement& statement(std::uint32_t index) const;
  [[noreturn]] void fail(ErrorKind kind, const std::string& message, std::uint32_t line,
                         std::uint32_t location, std::string_view text = {}) const;
  std::deque<std::vector<Address>>& addresses() { return addresses_; }

 private:
  void collect_functions(const ptx::Function& entry);
  void add_callees(const ptx::Operand& operand);
  void mark_recursion();
  void layout_registers();
  void layout_frames();
  void layout_parameters();
  void layout_shared();
  void place_shared(const ptx::Variable& variable);
  void use_shared(const ptx::Operand& operand);
  void decode_function(std::uint32_t index);
  void decode_statement(const ptx::Statement& statement, Instruction& out);

  std::shared_ptr<Kernel> kernel_;
  std::shared_ptr<const ptx::Module> module_;
  const GlobalAddress& global_address_;
  std::vector<const ptx::Function*> functions_;
  std::unordered_map<std::string_view, std::uint32_t> function_indices_;
  std::vector<std::vector<Operand>> registers_;  // [function][register]
  std::unordered_map<const ptx::Variable*, FrameSlot> frame_slots_;
  std::unordered_map<const ptx::Variable*, std::uint32_t> parameter_offsets_;
  std::unordered_map<const ptx::Variable*, std::uint32_t> shared_offsets_;
  std::map<std::pair<Width, std::uint64_t>, Operand> constants_;
  std::vector<std::uint32_t> statement_instruction_;  // of the current function
  std::uint32_t current_ = 0;
  std::uint32_t shared_end_ = 0;
  std::vector<const ptx::Variable*> dynamic_shared_;
  std::deque<std::vector<Address>> addresses_;
};

}  // namespace ptxemu::ir
