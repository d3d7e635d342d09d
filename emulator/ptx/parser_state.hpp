// State shared by the two halves of the parser: module level (parser.cpp) and function bodies
// (parser_body.cpp).
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "ptx/ast.hpp"
#include "ptx/lexer.hpp"

namespace ptxemu::ptx {

class Parser {
 public:
  explicit Parser(Module& module) : module_(module), lexer_(module.text, module.name) {}
  void parse_module();

 private:
  // Lexical scopes of a function body; scope 0 is the function itself.
  struct RegisterRange {
    std::uint64_t count;
    ir::Type type;
  };
  struct Scope {
    std::uint32_t parent = 0;
    std::unordered_map<std::string_view, std::uint32_t> registers;  // name -> register
    std::unordered_map<std::string_view, RegisterRange> ranges;     // prefix -> `<count>`
    std::unordered_map<std::string_view, ir::Type> declared;        // name -> type, unused so far
    std::unordered_map<std::string_view, const Variable*> variables;
    std::unordered_map<std::string_view, std::uint32_t> labels;  // name -> statement
    std::unordered_map<std::string_view, std::uint32_t> tables;  // name -> branch table
  };

  // Module level.
  void parse_directive();
  void parse_file();
  void parse_location();
  void parse_function(bool entry, bool is_extern);
  void parse_function_attributes(Function& function);
  std::vector<Variable*> parse_parameters();
  Variable* parse_parameter();
  void parse_module_variables(StateSpace space, bool is_extern);
  /// After the state space: `.align 8 .b8 name[4] = {…}`, one or several.
  void parse_variables(StateSpace space, bool is_extern, std::vector<Variable*>& out);
  void parse_declarator(Variable& variable);
  void parse_initialiser(Variable& variable);
  void parse_initialiser_value(Variable& variable);
  ir::Type parse_type();
  std::uint32_t parse_alignment();
  std::uint64_t parse_size();
  Dim3 parse_dimensions();
  Function* find_function(std::string_view name);
  void skip_to_semicolon();

  // Function bodies.
  void parse_body();
  void parse_block();
  void parse_statement();
  void parse_registers();
  void parse_label();
  void parse_instruction();
  Operand parse_operand(int depth);
  Operand parse_address();
  Operand parse_name();
  Operand parse_number(bool negative);
  std::int64_t parse_offset();
  void resolve_labels(Operand& operand, const Statement& statement);
  /// Register of that name as seen from the current scope; creates it on first use.
  bool find_register(std::string_view name, std::uint32_t& index);
  const Variable* find_variable(std::string_view name) const;
  std::uint32_t make_register(Scope& scope, std::string_view name, ir::Type type);

  Module& module_;
  Lexer lexer_;
  std::unordered_map<std::string_view, Variable*> globals_;
  std::unordered_map<std::string_view, Function*> functions_;
  Function* function_ = nullptr;  // being parsed
  std::vector<Scope> scopes_;
  std::uint32_t scope_ = 0;
  unsigned depth_ = 0;
  std::uint32_t location_ = 0;
};

}  // namespace ptxemu::ptx
