// Function bodies: scopes, registers, labels, instructions and their operands.
#include <bit>

#include "ptx/parser_state.hpp"

namespace ptxemu::ptx {
namespace {

constexpr unsigned kMaxScopeDepth = 200;
constexpr int kMaxOperandDepth = 4;
constexpr std::size_t kMaxOperands = 512;

bool is_special_register(std::string_view name) {
  static constexpr std::string_view kPrefixes[] = {"%tid",
                                                   "%ntid",
                                                   "%ctaid",
                                                   "%nctaid",
                                                   "%laneid",
                                                   "%warpid",
                                                   "%nwarpid",
                                                   "%smid",
                                                   "%nsmid",
                                                   "%gridid",
                                                   "%cluster",
                                                   "%ncluster",
                                                   "%is_explicit_cluster",
                                                   "%lanemask_",
                                                   "%clock",
                                                   "%globaltimer",
                                                   "%dynamic_smem_size",
                                                   "%total_smem_size",
                                                   "%aggr_smem_size",
                                                   "%reserved_smem_offset",
                                                   "%current_graph_exec",
                                                   "%envreg",
                                                   "%pm"};
  for (const std::string_view prefix : kPrefixes) {
    if (name.starts_with(prefix)) return true;
  }
  return false;
}

}  // namespace

void Parser::parse_body() {
  scopes_.assign(1, Scope{});
  scope_ = 0;
  depth_ = 0;
  location_ = 0;
  for (const auto* list : {&function_->returns, &function_->parameters}) {
    for (const Variable* variable : *list) scopes_[0].variables.emplace(variable->name, variable);
  }
  parse_block();
  for (Statement& statement : function_->body) {
    for (Operand& operand : statement.operands) resolve_labels(operand, statement);
  }
}

void Parser::parse_block() {
  if (++depth_ > kMaxScopeDepth) lexer_.fail("scopes are nested too deeply");
  const std::uint32_t opened = lexer_.peek().line;
  lexer_.expect('{');
  while (!lexer_.accept('}')) {
    if (lexer_.peek().kind == TokenKind::end) lexer_.fail("'{' is not closed", opened);
    parse_statement();
  }
  --depth_;
}

void Parser::parse_statement() {
  const Token token = lexer_.peek();
  if (token.is('{')) {
    const std::uint32_t outer = scope_;
    Scope inner;
    inner.parent = outer;
    scopes_.push_back(std::move(inner));
    scope_ = static_cast<std::uint32_t>(scopes_.size() - 1);
    parse_block();
    scope_ = outer;
    return;
  }
  if (token.is(';')) {
    lexer_.take();
    return;
  }
  if (token.kind == TokenKind::directive) {
    if (token.text == ".loc") return parse_location();
    if (token.text == ".file") return parse_file();
    lexer_.take();
    if (token.text == ".reg") return parse_registers();
    if (token.text == ".pragma") return skip_to_semicolon();
    StateSpace space{};
    if (token.text == ".shared") {
      space = StateSpace::shared;
    } else if (token.text == ".local") {
      space = StateSpace::local;
    } else if (token.text == ".param") {
      space = StateSpace::param;
    } else if (token.text == ".global") {
      space = StateSpace::global;
    } else if (token.text == ".const") {
      space = StateSpace::constant;
    } else {
      lexer_.fail("unknown directive '" + std::string(token.text) + "' in a function body",
                  token.line);
    }
    std::vector<Variable*> made;
    parse_variables(space, false, made);
    for (Variable* variable : made) {
      if (!scopes_[scope_].variables.emplace(variable->name, variable).second)
        lexer_.fail("variable '" + variable->name + "' is declared twice", variable->line);
      if (space == StateSpace::global || space == StateSpace::constant) {
        module_.globals.push_back(variable);
      } else {
        function_->variables.push_back(variable);
      }
    }
    return;
  }
  if (lexer_.at_label()) return parse_label();
  parse_instruction();
}

void Parser::parse_registers() {
  const ir::Type type = parse_type();
  Scope& scope = scopes_[scope_];
  do {
    if (lexer_.peek().kind != TokenKind::identifier) lexer_.fail("expected a register name");
    const std::string_view name = lexer_.take().text;
    if (lexer_.accept('<')) {
      scope.ranges.insert_or_assign(name, RegisterRange{parse_size(), type});
      lexer_.expect('>');
    } else {
      scope.declared.insert_or_assign(name, type);
    }
  } while (lexer_.accept(','));
  lexer_.expect(';');
}

void Parser::parse_label() {
  const Token name = lexer_.take();
  lexer_.expect(':');
  Scope& scope = scopes_[scope_];
  if (lexer_.peek().is(".branchtargets") || lexer_.peek().is(".calltargets")) {
    lexer_.take();
    // Kept as one pseudo statement, so that its labels are resolved like any other.
    Statement& statement = function_->body.emplace_back();
    statement.opcode = ".targets";
    statement.line = name.line;
    do {
      statement.operands.push_back(parse_name());
    } while (lexer_.accept(','));
    lexer_.expect(';');
    scope.tables.emplace(name.text, static_cast<std::uint32_t>(function_->body.size() - 1));
    scope.labels.emplace(name.text, static_cast<std::uint32_t>(function_->body.size() - 1));
    return;
  }
  if (lexer_.peek().is(".callprototype")) return skip_to_semicolon();
  if (!scope.labels.emplace(name.text, static_cast<std::uint32_t>(function_->body.size())).second)
    lexer_.fail("label '" + std::string(name.text) + "' is defined twice in its scope", name.line);
}

void Parser::parse_instruction() {
  Statement statement;
  statement.line = lexer_.peek().line;
  statement.location = location_;
  const std::size_t begin = lexer_.position();
  if (lexer_.accept('@')) {
    const bool negated = lexer_.accept('!');
    Operand guard = parse_name();
    if (guard.kind != Operand::Kind::reg ||
        function_->registers[guard.index].type != ir::Type::pred)
      lexer_.fail("a guard must be a predicate register", statement.line);
    guard.negated = negated;
    statement.guard = guard;
  }
  if (lexer_.peek().kind != TokenKind::identifier)
    lexer_.fail("expected an instruction but found '" + std::string(lexer_.peek().text) + "'");
  std::string joined;
  statement.opcode = lexer_.take_opcode(joined);
  if (!joined.empty()) statement.opcode = module_.storage.emplace_back(std::move(joined));
  if (!lexer_.peek().is(';')) {
    do {
      if (statement.operands.size() >= kMaxOperands) lexer_.fail("too many operands");
      statement.operands.push_back(parse_operand(0));
    } while (lexer_.accept(','));
  }
  statement.text = lexer_.slice(begin, lexer_.position());
  lexer_.expect(';');
  while (!statement.text.empty() && static_cast<unsigned char>(statement.text.back()) <= ' ')
    statement.text.remove_suffix(1);
  function_->body.push_back(std::move(statement));
}

Operand Parser::parse_operand(int depth) {
  if (depth > kMaxOperandDepth) lexer_.fail("operand is nested too deeply");
  const Token token = lexer_.peek();
  Operand operand;
  if (token.is('{') || token.is('(')) {
    const char close = token.is('{') ? '}' : ')';
    operand.kind = token.is('{') ? Operand::Kind::vector : Operand::Kind::list;
    lexer_.take();
    if (lexer_.accept(close)) return operand;
    do {
      if (operand.items.size() >= kMaxOperands) lexer_.fail("vector operand is too long");
      operand.items.push_back(parse_operand(depth + 1));
    } while (lexer_.accept(','));
    lexer_.expect(close);
  } else if (token.is('[')) {
    operand = parse_address();
  } else if (token.is('!')) {
    lexer_.take();
    operand = parse_name();
    operand.negated = true;
    if (operand.kind != Operand::Kind::reg) lexer_.fail("'!' needs a predicate register");
  } else if (token.is('-')) {
    lexer_.take();
    operand = parse_number(true);
  } else if (token.kind == TokenKind::integer || token.kind == TokenKind::float32 ||
             token.kind == TokenKind::float64) {
    operand = parse_number(false);
  } else if (token.kind == TokenKind::identifier) {
    operand = parse_name();
    if (operand.kind == Operand::Kind::variable && (lexer_.peek().is('+') || lexer_.peek().is('-')))
      operand.bits = static_cast<std::uint64_t>(parse_offset());
  } else {
    lexer_.fail("expected an operand but found '" + std::string(token.text) + "'");
  }
  if (lexer_.peek().is('|')) {
    lexer_.take();
    Operand pair;
    pair.kind = Operand::Kind::pair;
    pair.items.push_back(std::move(operand));
    pair.items.push_back(parse_operand(depth + 1));
    return pair;
  }
  return operand;
}

Operand Parser::parse_number(bool negative) {
  const Token token = lexer_.take();
  Operand operand;
  operand.bits = token.bits;
  switch (token.kind) {
    case TokenKind::integer:
      operand.kind = Operand::Kind::integer;
      if (negative) operand.bits = 0 - operand.bits;
      break;
    case TokenKind::float32:
      operand.kind = Operand::Kind::float32;
      if (negative) operand.bits ^= 0x80000000u;
      break;
    case TokenKind::float64:
      operand.kind = Operand::Kind::float64;
      if (negative) operand.bits ^= std::uint64_t{1} << 63;
      break;
    default:
      lexer_.fail("expected a number", token.line);
  }
  return operand;
}

std::int64_t Parser::parse_offset() {
  std::uint64_t offset = 0;
  while (lexer_.peek().is('+') || lexer_.peek().is('-')) {
    bool negative = lexer_.take().is('-');
    if (lexer_.accept('-')) negative = !negative;
    const std::uint64_t value = parse_size();
    offset += negative ? 0 - value : value;
  }
  return static_cast<std::int64_t>(offset);
}

Operand Parser::parse_address() {
  lexer_.expect('[');
  Operand operand;
  operand.kind = Operand::Kind::address;
  if (lexer_.peek().kind == TokenKind::integer || lexer_.peek().is('-')) {
    operand.items.push_back(parse_number(lexer_.accept('-')));
  } else {
    operand.items.push_back(parse_name());
  }
  operand.bits = static_cast<std::uint64_t>(parse_offset());
  while (lexer_.accept(',')) operand.items.push_back(parse_operand(1));
  lexer_.expect(']');
  return operand;
}

Operand Parser::parse_name() {
  if (lexer_.peek().kind != TokenKind::identifier)
    lexer_.fail("expected a name but found '" + std::string(lexer_.peek().text) + "'");
  const Token token = lexer_.take();
  Operand operand;
  if (token.text == "_") return operand;
  if (find_register(token.text, operand.index)) {
    operand.kind = Operand::Kind::reg;
  } else if (const Variable* variable = find_variable(token.text)) {
    operand.kind = Operand::Kind::variable;
    operand.variable = variable;
  } else if (token.text == "WARP_SZ") {
    operand.kind = Operand::Kind::integer;
    operand.bits = 32;
  } else if (token.text.front() == '%') {
    if (!is_special_register(token.text))
      lexer_.fail("register '" + std::string(token.text) + "' is not declared", token.line);
    operand.kind = Operand::Kind::special;
    operand.name = token.text;
  } else {
    operand.kind = Operand::Kind::label;  // or a function; resolved at the end of the body
    operand.name = token.text;
    operand.index = scope_;
  }
  return operand;
}

void Parser::resolve_labels(Operand& operand, const Statement& statement) {
  for (Operand& item : operand.items) resolve_labels(item, statement);
  if (operand.kind != Operand::Kind::label) return;
  for (std::uint32_t scope = operand.index;; scope = scopes_[scope].parent) {
    if (const auto found = scopes_[scope].labels.find(operand.name);
        found != scopes_[scope].labels.end()) {
      operand.index = found->second;
      return;
    }
    if (scope == 0) break;
  }
  operand.kind = Operand::Kind::function;
  operand.index = 0;
  // Functions may be defined further down; decoding checks that the name exists.
  (void)statement;
}

std::uint32_t Parser::make_register(Scope& scope, std::string_view name, ir::Type type) {
  const auto index = static_cast<std::uint32_t>(function_->registers.size());
  function_->registers.push_back({std::string(name), type});
  scope.registers.emplace(name, index);
  return index;
}

bool Parser::find_register(std::string_view name, std::uint32_t& index) {
  std::size_t digits = name.size();
  while (digits > 0 && name[digits - 1] >= '0' && name[digits - 1] <= '9') --digits;
  const std::string_view prefix = name.substr(0, digits);
  std::uint64_t number = 0;
  const bool numbered = digits < name.size() && name.size() - digits <= 9;
  if (numbered) {
    for (const char c : name.substr(digits)) number = number * 10 + static_cast<unsigned>(c - '0');
  }
  for (std::uint32_t i = scope_;; i = scopes_[i].parent) {
    Scope& scope = scopes_[i];
    if (const auto found = scope.registers.find(name); found != scope.registers.end()) {
      index = found->second;
      return true;
    }
    if (!scope.declared.empty()) {
      if (const auto found = scope.declared.find(name); found != scope.declared.end()) {
        index = make_register(scope, name, found->second);
        return true;
      }
    }
    if (numbered && !scope.ranges.empty()) {
      const auto found = scope.ranges.find(prefix);
      if (found != scope.ranges.end() && number < found->second.count) {
        index = make_register(scope, name, found->second.type);
        return true;
      }
    }
    if (i == 0) return false;
  }
}

const Variable* Parser::find_variable(std::string_view name) const {
  for (std::uint32_t i = scope_;; i = scopes_[i].parent) {
    if (const auto found = scopes_[i].variables.find(name); found != scopes_[i].variables.end())
      return found->second;
    if (i == 0) break;
  }
  const auto found = globals_.find(name);
  return found == globals_.end() ? nullptr : found->second;
}

}  // namespace ptxemu::ptx
