// Module level of PTX: directives, variables with initialisers, function heads.
#include "ptx/parser.hpp"

#include <bit>
#include <cstring>

#include "ptx/parser_state.hpp"

namespace ptxemu::ptx {
namespace {

constexpr std::uint64_t kMaxVariableBytes = std::uint64_t{1} << 36;
constexpr std::uint64_t kMaxInitialiserBytes = std::uint64_t{1} << 28;

}  // namespace

std::shared_ptr<Module> parse(std::string_view text, std::string_view name) {
  auto module = std::make_shared<Module>();
  module->name = name;
  module->text = text;
  Parser(*module).parse_module();
  return module;
}

void Parser::parse_module() {
  while (lexer_.peek().kind != TokenKind::end) parse_directive();
  if (module_.version.empty()) lexer_.fail("no .version directive: not a PTX text");
}

void Parser::parse_directive() {
  const Token token = lexer_.peek();
  if (token.kind != TokenKind::directive)
    lexer_.fail("expected a directive but found '" + std::string(token.text) + "'");
  if (token.text == ".file") return parse_file();
  if (token.text == ".loc") return parse_location();
  lexer_.take();
  bool is_extern = false;
  std::string_view word = token.text;
  while (word == ".extern" || word == ".visible" || word == ".weak" || word == ".common") {
    is_extern |= word == ".extern";
    word = lexer_.peek().text;
    if (lexer_.peek().kind != TokenKind::directive) lexer_.fail("expected a declaration");
    lexer_.take();
  }
  if (word == ".version") {
    module_.version = lexer_.take().text;
  } else if (word == ".target") {
    module_.target = lexer_.take().text;
    while (lexer_.accept(',')) lexer_.take();
  } else if (word == ".address_size") {
    if (lexer_.take().bits != 64) lexer_.fail(".address_size must be 64", token.line);
  } else if (word == ".entry" || word == ".func") {
    parse_function(word == ".entry", is_extern);
  } else if (word == ".global") {
    parse_module_variables(StateSpace::global, is_extern);
  } else if (word == ".const") {
    parse_module_variables(StateSpace::constant, is_extern);
  } else if (word == ".shared") {
    parse_module_variables(StateSpace::shared, is_extern);
  } else if (word == ".section") {
    while (!lexer_.peek().is('{') && lexer_.peek().kind != TokenKind::end) lexer_.take();
    lexer_.skip_block();
  } else if (word == ".pragma" || word == ".alias") {
    skip_to_semicolon();
  } else {
    lexer_.fail("unknown directive '" + std::string(word) +
                    "'; supported: .version .target .address_size .file .loc .section .pragma "
                    ".extern .visible .weak .common .global .const .shared .entry .func",
                token.line);
  }
}

void Parser::skip_to_semicolon() {
  while (!lexer_.peek().is(';')) {
    if (lexer_.peek().kind == TokenKind::end) lexer_.fail("missing ';'");
    lexer_.take();
  }
  lexer_.take();
}

void Parser::parse_file() {
  lexer_.take();
  const auto index = static_cast<std::uint32_t>(lexer_.take().bits);
  if (lexer_.peek().kind != TokenKind::string) lexer_.fail("expected the file name of .file");
  module_.files.emplace_back(index, std::string(lexer_.take().text));
  while (lexer_.accept(',')) lexer_.take();
}

void Parser::parse_location() {
  const std::uint32_t line = lexer_.take().line;
  Location location;
  location.file = static_cast<std::uint32_t>(lexer_.take().bits);
  location.line = static_cast<std::uint32_t>(lexer_.take().bits);
  lexer_.take();  // column
  // `, function_name label+offset, inlined_at file line column`: the rest of this line.
  while (lexer_.peek().kind != TokenKind::end && lexer_.peek().line == line) lexer_.take();
  if (location.line == 0) return;  // compiler-generated: keep the last known line
  module_.locations.push_back(location);
  location_ = static_cast<std::uint32_t>(module_.locations.size() - 1);
}

ir::Type Parser::parse_type() {
  const Token token = lexer_.peek();
  static const std::unordered_map<std::string_view, ir::Type> kTypes{
      {".pred", ir::Type::pred},   {".b8", ir::Type::b8},     {".b16", ir::Type::b16},
      {".b32", ir::Type::b32},     {".b64", ir::Type::b64},   {".b128", ir::Type::b128},
      {".u8", ir::Type::u8},       {".u16", ir::Type::u16},   {".u32", ir::Type::u32},
      {".u64", ir::Type::u64},     {".s8", ir::Type::s8},     {".s16", ir::Type::s16},
      {".s32", ir::Type::s32},     {".s64", ir::Type::s64},   {".f16", ir::Type::f16},
      {".f16x2", ir::Type::f16x2}, {".bf16", ir::Type::bf16}, {".bf16x2", ir::Type::bf16x2},
      {".f32", ir::Type::f32},     {".f64", ir::Type::f64}};
  const auto found = kTypes.find(token.text);
  if (token.kind != TokenKind::directive || found == kTypes.end())
    lexer_.fail("expected a type (.b32, .u64, .f32, …) but found '" + std::string(token.text) +
                "'");
  lexer_.take();
  return found->second;
}

std::uint64_t Parser::parse_size() {
  if (lexer_.peek().kind != TokenKind::integer) lexer_.fail("expected a number");
  return lexer_.take().bits;
}

std::uint32_t Parser::parse_alignment() {
  if (!lexer_.peek().is(".align")) return 0;
  lexer_.take();
  const std::uint64_t alignment = parse_size();
  if (alignment > 1 << 20 || !std::has_single_bit(alignment))
    lexer_.fail(".align must be a power of two up to 2^20");
  return static_cast<std::uint32_t>(alignment);
}

void Parser::parse_module_variables(StateSpace space, bool is_extern) {
  std::vector<Variable*> made;
  parse_variables(space, is_extern, made);
  for (Variable* variable : made) {
    const auto [slot, inserted] = globals_.emplace(variable->name, variable);
    if (inserted) {
      module_.globals.push_back(variable);
    } else if (!is_extern) {
      if (!slot->second->is_extern)
        lexer_.fail("variable '" + variable->name + "' is defined twice", variable->line);
      *slot->second = std::move(*variable);  // the definition replaces the declaration
    }
  }
}

void Parser::parse_variables(StateSpace space, bool is_extern, std::vector<Variable*>& out) {
  Variable model;
  model.space = space;
  model.is_extern = is_extern;
  std::uint32_t alignment = 0;
  std::uint64_t vector = 1;
  for (;;) {
    if (const std::uint32_t a = parse_alignment(); a != 0) {
      alignment = a;
    } else if (lexer_.peek().is(".attribute")) {
      lexer_.take();
      lexer_.expect('(');
      while (!lexer_.accept(')')) {
        if (lexer_.peek().kind == TokenKind::end) lexer_.fail("missing ')'");
        lexer_.take();
      }
    } else if (lexer_.peek().is(".v2") || lexer_.peek().is(".v4")) {
      vector = lexer_.take().text == ".v2" ? 2 : 4;
    } else {
      break;
    }
  }
  model.type = parse_type();
  const std::uint64_t element =
      static_cast<std::uint64_t>(ir::bit_size(model.type) + 7) / 8 * vector;
  model.bytes = element;
  model.alignment = alignment != 0 ? alignment : static_cast<std::uint32_t>(element);
  do {
    Variable& variable = module_.variables.emplace_back(model);
    parse_declarator(variable);
    out.push_back(&variable);
  } while (lexer_.accept(','));
  lexer_.expect(';');
}

void Parser::parse_declarator(Variable& variable) {
  if (lexer_.peek().kind != TokenKind::identifier) lexer_.fail("expected a variable name");
  variable.line = lexer_.peek().line;
  variable.name = lexer_.take().text;
  if (lexer_.accept('<')) lexer_.fail("parameterised names are for .reg only");
  while (lexer_.accept('[')) {
    if (lexer_.accept(']')) {
      variable.unsized = true;
      continue;
    }
    const std::uint64_t extent = parse_size();
    lexer_.expect(']');
    if (extent != 0 && variable.bytes > kMaxVariableBytes / extent)
      lexer_.fail("variable '" + variable.name + "' is too large");
    variable.bytes *= extent;
  }
  if (variable.unsized && !lexer_.peek().is('=')) variable.bytes = 0;
  if (lexer_.accept('=')) parse_initialiser(variable);
}

void Parser::parse_initialiser(Variable& variable) {
  unsigned depth = 0;
  do {
    while (lexer_.accept('{')) {
      if (++depth > 16) lexer_.fail("initialiser is nested too deeply");
    }
    if (!(depth > 0 && lexer_.peek().is('}'))) parse_initialiser_value(variable);
    while (depth > 0 && lexer_.accept('}')) --depth;
  } while (depth > 0 && lexer_.accept(','));
  if (depth != 0) lexer_.fail("initialiser is not closed");
  if (variable.unsized) variable.bytes = variable.initialiser.bytes.size();
  if (variable.initialiser.bytes.size() > variable.bytes)
    lexer_.fail("initialiser of '" + variable.name + "' has more bytes than the variable");
}

void Parser::parse_initialiser_value(Variable& variable) {
  const auto size = static_cast<std::size_t>(ir::bit_size(variable.type) + 7) / 8;
  std::vector<std::byte>& bytes = variable.initialiser.bytes;
  if (bytes.size() + size > kMaxInitialiserBytes) lexer_.fail("initialiser is too long");
  std::uint64_t bits = 0;
  const bool negative = lexer_.accept('-');
  const Token token = lexer_.peek();
  if (token.kind == TokenKind::identifier) {
    lexer_.take();
    Initialiser::Relocation relocation{bytes.size(), std::string(token.text), 0, token.line};
    if (token.text == "generic" && lexer_.accept('(')) {
      relocation.symbol = lexer_.take().text;
      lexer_.expect(')');
    }
    if (lexer_.accept('+')) relocation.addend = static_cast<std::int64_t>(parse_size());
    if (size != 8) lexer_.fail("only 64-bit variables can hold addresses");
    variable.initialiser.relocations.push_back(std::move(relocation));
  } else if (token.kind == TokenKind::integer) {
    bits = lexer_.take().bits;
    if (negative) bits = 0 - bits;
  } else if (token.kind == TokenKind::float32 || token.kind == TokenKind::float64) {
    lexer_.take();
    double value = token.kind == TokenKind::float64
                       ? std::bit_cast<double>(token.bits)
                       : std::bit_cast<float>(static_cast<std::uint32_t>(token.bits));
    if (negative) value = -value;
    bits = size == 8 ? std::bit_cast<std::uint64_t>(value)
                     : std::bit_cast<std::uint32_t>(static_cast<float>(value));
  } else {
    lexer_.fail("expected an initial value but found '" + std::string(token.text) + "'");
  }
  const std::size_t at = bytes.size();
  bytes.resize(at + size);
  std::memcpy(bytes.data() + at, &bits, std::min<std::size_t>(size, 8));
}

Function* Parser::find_function(std::string_view name) {
  const auto found = functions_.find(name);
  return found == functions_.end() ? nullptr : found->second;
}

Variable* Parser::parse_parameter() {
  if (!lexer_.peek().is(".param"))
    lexer_.fail("parameters must be .param variables (the CUDA calling convention)");
  lexer_.take();
  Variable model;
  model.space = StateSpace::param;
  std::uint32_t alignment = parse_alignment();
  model.type = parse_type();
  // `.ptr .global .align 8` only informs.
  if (lexer_.peek().is(".ptr")) {
    lexer_.take();
    while (lexer_.peek().kind == TokenKind::directive) {
      if (lexer_.peek().is(".align")) {
        parse_alignment();
      } else {
        lexer_.take();
      }
    }
  }
  model.bytes = static_cast<std::uint64_t>(ir::bit_size(model.type) + 7) / 8;
  model.alignment = alignment != 0 ? alignment : static_cast<std::uint32_t>(model.bytes);
  Variable& variable = module_.variables.emplace_back(model);
  parse_declarator(variable);
  if (variable.bytes > 1 << 20) lexer_.fail("parameter is too large");
  return &variable;
}

std::vector<Variable*> Parser::parse_parameters() {
  std::vector<Variable*> parameters;
  lexer_.expect('(');
  if (lexer_.accept(')')) return parameters;
  do {
    parameters.push_back(parse_parameter());
  } while (lexer_.accept(','));
  lexer_.expect(')');
  return parameters;
}

Dim3 Parser::parse_dimensions() {
  Dim3 result;
  result.x = static_cast<std::uint32_t>(parse_size());
  if (lexer_.accept(',')) result.y = static_cast<std::uint32_t>(parse_size());
  if (lexer_.accept(',')) result.z = static_cast<std::uint32_t>(parse_size());
  return result;
}

void Parser::parse_function_attributes(Function& function) {
  while (lexer_.peek().kind == TokenKind::directive) {
    const Token token = lexer_.take();
    if (token.text == ".maxntid") {
      function.maximum_block = parse_dimensions();
    } else if (token.text == ".reqntid") {
      function.required_block = parse_dimensions();
    } else if (token.text == ".reqnctapercluster") {
      function.required_cluster = parse_dimensions();
    } else if (token.text == ".maxnreg") {
      function.maximum_registers = static_cast<std::uint32_t>(parse_size());
    } else if (token.text == ".minnctapersm" || token.text == ".maxnctapersm" ||
               token.text == ".maxclusterrank" || token.text == ".local_maxnreg") {
      parse_size();
    } else if (token.text == ".noreturn") {
      function.no_return = true;
    } else if (token.text == ".pragma") {
      skip_to_semicolon();
    } else if (token.text == ".abi_preserve" || token.text == ".abi_preserve_control") {
      parse_size();
    } else if (token.text != ".explicitcluster" && token.text != ".blocksareclusters" &&
               token.text != ".unified") {
      lexer_.fail("unknown function attribute '" + std::string(token.text) + "'", token.line);
    }
  }
}

void Parser::parse_function(bool entry, bool is_extern) {
  std::vector<Variable*> returns;
  if (lexer_.peek().is('(')) returns = parse_parameters();
  if (lexer_.peek().kind != TokenKind::identifier) lexer_.fail("expected a function name");
  const Token name = lexer_.take();
  Function* function = find_function(name.text);
  if (function == nullptr) {
    function = &module_.functions.emplace_back();
    function->name = name.text;
    functions_.emplace(function->name, function);
  } else if (function->entry != entry) {
    lexer_.fail("'" + function->name + "' is declared both as .entry and as .func", name.line);
  }
  std::vector<Variable*> parameters;
  if (lexer_.peek().is('(')) parameters = parse_parameters();
  if (!function->defined) {
    function->entry = entry;
    function->line = name.line;
    function->returns = std::move(returns);
    function->parameters = parameters;
  }
  parse_function_attributes(*function);
  if (lexer_.accept(';')) return;
  if (is_extern) lexer_.fail("an .extern function has no body");
  if (function->defined)
    lexer_.fail("function '" + function->name + "' is defined twice", name.line);
  function->defined = true;
  function_ = function;
  parse_body();
  function_ = nullptr;
}

}  // namespace ptxemu::ptx
