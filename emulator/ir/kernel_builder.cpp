// Layout and decoding of a kernel with the functions it reaches.
#include "ir/kernel_builder.hpp"

#include <algorithm>
#include <cstring>

#include "ir/opcode_table.hpp"

namespace ptxemu::ir {
namespace {

constexpr std::uint64_t kMaxRegisterBank = std::uint64_t{32} << 20;  // per warp
constexpr std::uint64_t kMaxFrame = std::uint64_t{1} << 19;  // 512 KB of local memory per thread
constexpr std::uint64_t kMaxParameters = 32764;
constexpr std::uint64_t kMaxShared = std::uint64_t{1} << 24;

std::uint64_t align_up(std::uint64_t value, std::uint64_t alignment) {
  return (value + alignment - 1) / alignment * alignment;
}

std::uint32_t row_bytes(Width width) {
  switch (width) {
    case Width::predicate:
      return 4;
    case Width::bits32:
      return 128;
    case Width::bits64:
      return 256;
    case Width::bits128:
      return 512;
  }
  return 0;
}

}  // namespace

KernelBuilder::KernelBuilder(std::shared_ptr<const ptx::Module> module, const ptx::Function& entry,
                             const GlobalAddress& global_address, std::uint32_t shared_base)
    : kernel_(std::make_shared<Kernel>()),
      module_(std::move(module)),
      global_address_(global_address) {
  kernel_->module = module_;
  kernel_->shared_base = shared_base;
  KernelInfo& info = kernel_->info;
  info.name = entry.name;
  info.required_block = entry.required_block;
  info.maximum_block = entry.maximum_block;
  info.required_cluster = entry.required_cluster;
  info.maximum_registers = entry.maximum_registers;
  collect_functions(entry);
}

void KernelBuilder::fail(ErrorKind kind, const std::string& message, std::uint32_t line,
                         std::uint32_t location, std::string_view text) const {
  SourcePosition position = position_of(*module_, line, location);
  position.function = functions_.empty() ? kernel_->info.name : functions_[current_]->name;
  position.instruction = text;
  throw Error(kind, to_string(position) + ": " + message, position);
}

const ptx::Function* KernelBuilder::find_function(std::string_view name) const {
  for (const ptx::Function& function : module_->functions) {
    if (function.name == name) return &function;
  }
  return nullptr;
}

void KernelBuilder::add_callees(const ptx::Operand& operand) {
  for (const ptx::Operand& item : operand.items) add_callees(item);
  if (operand.kind != ptx::Operand::Kind::function) return;
  const ptx::Function* callee = find_function(operand.name);
  if (callee == nullptr || !callee->defined || callee->entry) return;
  if (function_indices_.emplace(callee->name, functions_.size()).second)
    functions_.push_back(callee);
}

void KernelBuilder::collect_functions(const ptx::Function& entry) {
  functions_.push_back(&entry);
  function_indices_.emplace(entry.name, 0);
  for (std::size_t i = 0; i < functions_.size(); ++i) {
    for (const ptx::Statement& statement : functions_[i]->body) {
      for (const ptx::Operand& operand : statement.operands) add_callees(operand);
    }
  }
  kernel_->functions.resize(functions_.size());
  for (std::size_t i = 0; i < functions_.size(); ++i)
    kernel_->functions[i].name = functions_[i]->name;
}

void KernelBuilder::mark_recursion() {
  // With an indirect call anything may call anything; else a function is recursive if it reaches
  // itself through the call graph.
  const std::size_t n = functions_.size();
  std::vector<std::vector<std::uint32_t>> callees(n);
  bool indirect = false;
  for (std::size_t i = 0; i < n; ++i) {
    for (const ptx::Statement& statement : functions_[i]->body) {
      if (!statement.opcode.starts_with("call")) continue;
      bool direct = false;
      for (const ptx::Operand& operand : statement.operands) {
        if (operand.kind != ptx::Operand::Kind::function) continue;
        direct = true;
        if (const auto found = function_indices_.find(operand.name);
            found != function_indices_.end())
          callees[i].push_back(found->second);
      }
      indirect |= !direct;
    }
  }
  for (std::uint32_t i = 0; i < n; ++i) {
    std::vector<bool> seen(n);
    std::vector<std::uint32_t> open = callees[i];
    while (!open.empty() && !seen[i]) {
      const std::uint32_t f = open.back();
      open.pop_back();
      if (seen[f]) continue;
      seen[f] = true;
      open.insert(open.end(), callees[f].begin(), callees[f].end());
    }
    kernel_->functions[i].recursive = indirect || seen[i];
  }
}

void KernelBuilder::layout_registers() {
  // Every function has its own part of the bank, so a call needs no register window; recursion
  // saves.
  std::uint64_t end = 0;
  registers_.resize(functions_.size());
  for (std::size_t f = 0; f < functions_.size(); ++f) {
    end = align_up(end, 128);
    kernel_->functions[f].register_begin = static_cast<std::uint32_t>(end);
    auto& slots = registers_[f];
    const auto& registers = functions_[f]->registers;
    slots.resize(registers.size());
    for (const bool predicates : {false, true}) {
      for (std::size_t r = 0; r < registers.size(); ++r) {
        const Width width = width_of(registers[r].type);
        if ((width == Width::predicate) != predicates) continue;
        slots[r].bank = Bank::registers;
        slots[r].width = width;
        slots[r].bits = static_cast<std::uint8_t>(bit_size(registers[r].type));
        slots[r].offset = static_cast<std::uint32_t>(end);
        end += row_bytes(width);
      }
    }
    if (end > kMaxRegisterBank)
      fail(ErrorKind::unsupported, "too many registers", functions_[f]->line, 0);
    FunctionLayout& layout = kernel_->functions[f];
    layout.register_bytes = static_cast<std::uint32_t>(end) - layout.register_begin;
    if (!layout.recursive) continue;
    layout.saved = slots;
    for (const Operand& slot : slots)
      layout.saved_bytes += std::max(row_bytes(slot.width) / kWarpSize, 1u);
    layout.saved_bytes = static_cast<std::uint32_t>(align_up(layout.saved_bytes, 16));
  }
  kernel_->register_bytes =
      static_cast<std::uint32_t>(align_up(std::max<std::uint64_t>(end, 4), 128));
}

void KernelBuilder::layout_frames() {
  for (std::size_t f = 0; f < functions_.size(); ++f) {
    FunctionLayout& layout = kernel_->functions[f];
    std::uint64_t end = 0;
    const auto place = [&](const ptx::Variable& variable) {
      end = align_up(end, std::max(variable.alignment, 1u));
      const FrameSlot slot{static_cast<std::uint32_t>(end),
                           static_cast<std::uint32_t>(variable.bytes)};
      end += variable.bytes;
      if (end > kMaxFrame)
        fail(ErrorKind::unsupported, "function needs more than 512 KB of local memory per thread",
             variable.line, 0);
      frame_slots_.emplace(&variable, slot);
      return slot;
    };
    if (f != 0) {
      for (const ptx::Variable* v : functions_[f]->parameters)
        layout.parameters.push_back(place(*v));
      for (const ptx::Variable* v : functions_[f]->returns) layout.returns.push_back(place(*v));
    }
    for (const ptx::Variable* v : functions_[f]->variables) {
      if (v->space != ptx::StateSpace::shared) place(*v);
    }
    layout.frame_bytes = static_cast<std::uint32_t>(align_up(end, 16));
  }
  kernel_->info.local_bytes = kernel_->functions[0].frame_bytes;
}

void KernelBuilder::layout_parameters() {
  std::uint64_t end = 0;
  for (const ptx::Variable* v : functions_[0]->parameters) {
    end = align_up(end, std::max(v->alignment, 1u));
    parameter_offsets_.emplace(v, static_cast<std::uint32_t>(end));
    kernel_->info.parameters.push_back({v->name, static_cast<std::uint32_t>(v->bytes), v->alignment,
                                        static_cast<std::uint32_t>(end)});
    end += v->bytes;
    if (end > kMaxParameters)
      fail(ErrorKind::unsupported, "more than 32764 bytes of parameters", v->line, 0);
  }
  kernel_->info.parameter_bytes = static_cast<std::uint32_t>(end);
}

void KernelBuilder::place_shared(const ptx::Variable& variable) {
  if (shared_offsets_.contains(&variable)) return;
  if (variable.unsized || variable.is_extern) {
    kernel_->dynamic_alignment = std::max(kernel_->dynamic_alignment, variable.alignment);
    dynamic_shared_.push_back(&variable);
    shared_offsets_.emplace(&variable, 0);
    return;
  }
  const std::uint64_t begin = align_up(shared_end_, std::max(variable.alignment, 1u));
  if (begin + variable.bytes > kMaxShared)
    fail(ErrorKind::unsupported, "shared variables need more than 16 MB", variable.line, 0);
  shared_offsets_.emplace(&variable, static_cast<std::uint32_t>(begin));
  kernel_->shared_symbols.push_back({variable.name, static_cast<std::uint32_t>(begin),
                                     static_cast<std::uint32_t>(variable.bytes)});
  shared_end_ = static_cast<std::uint32_t>(begin + variable.bytes);
}

void KernelBuilder::use_shared(const ptx::Operand& operand) {
  for (const ptx::Operand& item : operand.items) use_shared(item);
  if (operand.variable != nullptr && operand.variable->space == ptx::StateSpace::shared)
    place_shared(*operand.variable);
}

void KernelBuilder::layout_shared() {
  shared_end_ = kernel_->shared_base;
  for (const ptx::Function* function : functions_) {
    for (const ptx::Statement& statement : function->body) {
      for (const ptx::Operand& operand : statement.operands) use_shared(operand);
    }
  }
  const std::uint32_t static_end = shared_end_;
  // A base that is itself less aligned than the dynamic buffer's declaration wins on purpose: see
  // DeviceOptions::shared_base. Hardware aligns relative to its 1024-byte reserved block.
  const std::uint32_t dynamic =
      static_cast<std::uint32_t>(kernel_->shared_base + align_up(static_end - kernel_->shared_base,
                                                                 kernel_->dynamic_alignment));
  for (const ptx::Variable* v : dynamic_shared_) {
    shared_offsets_[v] = dynamic;
    kernel_->shared_symbols.push_back({v->name, dynamic, 0});
  }
  kernel_->static_shared_end = dynamic_shared_.empty() ? static_end : dynamic;
  kernel_->info.static_shared_bytes = static_end - kernel_->shared_base;
}

Operand KernelBuilder::register_operand(std::uint32_t index) const {
  return registers_[current_][index];
}

Operand KernelBuilder::constant(Width width, std::uint64_t bits) {
  const auto [slot, inserted] = constants_.try_emplace({width, bits});
  if (!inserted) return slot->second;
  Operand& operand = slot->second;
  operand.bank = Bank::constants;
  operand.width = width;
  AlignedBytes& pool = kernel_->constants;
  // Rows are aligned to their own size's vector; predicates are single words.
  const std::size_t begin = width == Width::predicate ? pool.size() : align_up(pool.size(), 64);
  operand.offset = static_cast<std::uint32_t>(begin);
  pool.resize(begin + row_bytes(width));
  std::byte* out = pool.data() + begin;
  if (width == Width::predicate) {
    const LaneMask mask = bits != 0 ? kFullMask : 0;
    std::memcpy(out, &mask, sizeof mask);
    operand.bits = 1;
    return operand;
  }
  const std::size_t size = row_bytes(width) / kWarpSize;
  operand.bits = static_cast<std::uint8_t>(size * 8);
  std::memset(out, 0, row_bytes(width));
  for (int lane = 0; lane < kWarpSize; ++lane)
    std::memcpy(out + static_cast<std::size_t>(lane) * size, &bits, std::min<std::size_t>(size, 8));
  return operand;
}

std::uint32_t KernelBuilder::function_index(std::string_view name, std::uint32_t line) {
  const auto found = function_indices_.find(name);
  if (found == function_indices_.end())
    fail(ErrorKind::parse,
         "'" + std::string(name) + "' is not a label, variable or defined function", line, 0);
  return found->second;
}

FrameSlot KernelBuilder::frame_slot(const ptx::Variable& variable, std::uint32_t line) const {
  const auto found = frame_slots_.find(&variable);
  if (found == frame_slots_.end())
    fail(ErrorKind::parse, "variable '" + variable.name + "' is not accessible here", line, 0);
  return found->second;
}

bool KernelBuilder::is_kernel_parameter(const ptx::Variable& variable) const {
  return parameter_offsets_.contains(&variable);
}
std::uint32_t KernelBuilder::parameter_offset(const ptx::Variable& variable) const {
  return parameter_offsets_.at(&variable);
}
std::uint32_t KernelBuilder::shared_offset(const ptx::Variable& variable) const {
  return shared_offsets_.at(&variable);
}
std::uint64_t KernelBuilder::global_address(const ptx::Variable& variable) const {
  return global_address_(variable);
}
std::uint32_t KernelBuilder::instruction_of(std::uint32_t statement) const {
  return statement_instruction_[std::min<std::size_t>(statement,
                                                      statement_instruction_.size() - 1)];
}
const ptx::Statement& KernelBuilder::statement(std::uint32_t index) const {
  return functions_[current_]->body[index];
}

std::shared_ptr<Kernel> KernelBuilder::build() {
  mark_recursion();
  layout_registers();
  layout_frames();
  layout_parameters();
  layout_shared();
  std::size_t total = 0;
  for (const ptx::Function* function : functions_) total += function->body.size() + 1;
  kernel_->code.reserve(total);  // instructions are referred to by address
  for (std::uint32_t f = 0; f < functions_.size(); ++f) decode_function(f);
  kernel_->address_storage = std::move(addresses_);
  return std::move(kernel_);
}

void KernelBuilder::decode_function(std::uint32_t index) {
  current_ = index;
  const auto& body = functions_[index]->body;
  auto next = static_cast<std::uint32_t>(kernel_->code.size());
  kernel_->functions[index].entry = next;
  statement_instruction_.clear();
  for (const ptx::Statement& statement : body) {
    statement_instruction_.push_back(next);
    if (statement.opcode != ".targets") ++next;
  }
  statement_instruction_.push_back(next);  // labels at the end of the body
  for (const ptx::Statement& statement : body) {
    if (statement.opcode == ".targets") continue;
    decode_statement(statement, kernel_->code.emplace_back());
  }
  // Running off the end of a body returns.
  static const ptx::Statement kReturn = [] {
    ptx::Statement statement;
    statement.opcode = "ret";
    statement.text = "(end of function)";
    return statement;
  }();
  decode_statement(kReturn, kernel_->code.emplace_back());
  if (!body.empty()) {
    kernel_->code.back().line = body.back().line;
    kernel_->code.back().location = body.back().location;
  }
}

void KernelBuilder::decode_statement(const ptx::Statement& statement, Instruction& out) {
  out.line = statement.line;
  out.location = statement.location;
  out.text = statement.text;
  Decode decode(*this, statement, out);
  std::vector<std::string_view> words;
  for (std::string_view rest = statement.opcode; !rest.empty();) {
    const std::size_t dot = std::min(rest.find('.'), rest.size());
    words.push_back(rest.substr(0, dot));
    rest.remove_prefix(std::min(dot + 1, rest.size()));
  }
  // The longest prefix that is an opcode.
  const OpcodeEntry* entry = nullptr;
  std::size_t used = words.size();
  for (; used > 0 && entry == nullptr; --used) {
    const auto length = static_cast<std::size_t>(words[used - 1].data() + words[used - 1].size() -
                                                 statement.opcode.data());
    entry = find_opcode(statement.opcode.substr(0, length));
    if (entry != nullptr) break;
  }
  if (entry == nullptr)
    decode.unsupported("opcode '" + std::string(statement.opcode) +
                       "' is not supported; supported: " +
                       supported_opcodes(words.empty() ? std::string_view{} : words[0]));
  out.opcode = entry->row->name;
  decode.modifiers.assign(words.begin() + static_cast<std::ptrdiff_t>(used), words.end());
  if (std::string problem = entry->spec.check(decode.modifiers); !problem.empty())
    decode.unsupported("'" + std::string(out.opcode) + "': " + problem);
  if (statement.guard) out.guard = decode.predicate(*statement.guard);
  entry->row->bind(decode);
  decode.finish();
  if (out.handler == nullptr)
    decode.unsupported("this combination of modifiers of '" + std::string(out.opcode) +
                       "' is not supported; supported: " + entry->spec.to_string());
}

std::shared_ptr<Kernel> decode_kernel(std::shared_ptr<const ptx::Module> module,
                                      const ptx::Function& entry,
                                      const GlobalAddress& global_address,
                                      std::uint32_t shared_base) {
  return KernelBuilder(std::move(module), entry, global_address, shared_base).build();
}

}  // namespace ptxemu::ir
