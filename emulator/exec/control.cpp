// Control flow: branches, calls, returns, exits, traps.
#include <algorithm>

#include "exec/builtins.hpp"
#include "exec/cluster.hpp"
#include "exec/opcodes.hpp"
#include "ir/kernel_builder.hpp"

namespace ptxemu::exec {
namespace {

constexpr std::size_t kMaxCallDepth = 4096;
constexpr std::size_t kMaxLocalBytes = std::size_t{1} << 19;

Action branch(Context& c, const Instruction& in, LaneMask lanes) {
  c.isolate(lanes);
  c.split->pc = static_cast<std::uint32_t>(in.immediate);
  return Action::branch;
}

Action branch_indexed(Context& c, const Instruction& in, LaneMask lanes) {
  const auto& table = c.launch->kernel->branch_tables[in.detail];
  const auto* index = c.row<const std::uint32_t>(in.a);
  // The lanes of one target go on as this split, the others as splits of their own.
  c.isolate(lanes);
  while (true) {
    const std::uint32_t first = c.uniform(in.a, lanes);
    if (first >= table.size())
      c.fault(ReportKind::illegal_instruction, in, lanes,
              "brx.idx index " + std::to_string(first) + " is beyond its table of " +
                  std::to_string(table.size()));
    LaneMask same = 0;
    for (LaneMask rest = lanes; rest != 0; rest &= rest - 1) {
      const int l = std::countr_zero(rest);
      if (index[l] == first) same |= LaneMask{1} << l;
    }
    if (same == lanes) {
      c.split->pc = table[first];
      return Action::branch;
    }
    auto other = std::make_unique<Split>(*c.split);
    other->lanes = same;
    other->pc = table[first];
    c.warp->splits.push_back(std::move(other));
    lanes &= ~same;
    c.split->lanes = lanes;
  }
}

void copy_slots(Context& c, const Instruction& in, LaneMask lanes, std::uint32_t from_frame,
                const std::vector<ir::FrameSlot>& from, std::uint32_t to_frame,
                const std::vector<ir::FrameSlot>& to) {
  if (from.size() > to.size())
    c.fault(ReportKind::illegal_instruction, in, lanes,
            "call passes more values than the function declares");
  for (LaneMask rest = lanes; rest != 0; rest &= rest - 1) {
    auto& memory = c.warp->local[static_cast<std::size_t>(std::countr_zero(rest))];
    for (std::size_t i = 0; i < from.size(); ++i) {
      std::memcpy(memory.data() + to_frame + to[i].offset,
                  memory.data() + from_frame + from[i].offset,
                  std::min(from[i].bytes, to[i].bytes));
    }
  }
}

/// Moves a recursive function's registers between the bank and the lanes' stacks.
void save_registers(Context& c, const ir::FunctionLayout& function, LaneMask lanes,
                    std::uint32_t place, bool restore) {
  for (LaneMask rest = lanes; rest != 0; rest &= rest - 1) {
    const auto l = static_cast<std::size_t>(std::countr_zero(rest));
    std::byte* stack = c.warp->local[l].data() + place;
    for (const Operand& reg : function.saved) {
      if (reg.width == ir::Width::predicate) {
        LaneMask& mask = *c.row<LaneMask>(reg);
        const LaneMask lane = LaneMask{1} << l;
        if (restore) {
          mask = *stack != std::byte{0} ? mask | lane : mask & ~lane;
        } else {
          *stack = std::byte((mask & lane) != 0);
        }
        stack += 1;
        continue;
      }
      const std::size_t bytes = reg.width == ir::Width::bits32   ? 4
                                : reg.width == ir::Width::bits64 ? 8
                                                                 : 16;
      std::byte* value = c.row<std::byte>(reg) + l * bytes;
      std::memcpy(restore ? value : stack, restore ? stack : value, bytes);
      stack += bytes;
    }
  }
}

Action call_function(Context& c, const Instruction& in, LaneMask lanes, std::uint32_t target) {
  const ir::Kernel& kernel = *c.launch->kernel;
  const ir::CallSite& site = kernel.calls[in.detail];
  const ir::FunctionLayout& caller = kernel.functions[c.split->function];
  const ir::FunctionLayout& callee = kernel.functions[target];
  Split& split = *c.split;
  const std::uint32_t save = split.frame + caller.frame_bytes;
  const std::uint32_t frame = save + callee.saved_bytes;
  const std::size_t end = frame + callee.frame_bytes;
  if (split.calls.size() >= kMaxCallDepth || end > kMaxLocalBytes)
    c.fault(ReportKind::out_of_bounds, in, lanes,
            "stack overflow: " + std::to_string(split.calls.size()) + " nested calls need " +
                std::to_string(end) + " bytes of local memory per thread");
  for (LaneMask rest = lanes; rest != 0; rest &= rest - 1) {
    auto& memory = c.warp->local[static_cast<std::size_t>(std::countr_zero(rest))];
    if (memory.size() < end) memory.resize(std::max(end, memory.size() * 2));
  }
  if (callee.recursive) save_registers(c, callee, lanes, save, false);
  copy_slots(c, in, lanes, split.frame, site.arguments, frame, callee.parameters);
  split.calls.push_back({split.pc, in.detail, split.function, split.frame});
  split.function = target;
  split.frame = frame;
  split.pc = callee.entry;
  return Action::branch;
}

Action call(Context& c, const Instruction& in, LaneMask lanes) {
  const ir::CallSite& site = c.launch->kernel->calls[in.detail];
  if (site.builtin != ir::Builtin::none) return call_builtin(c, in, lanes, site);
  c.isolate(lanes);
  if (!site.indirect) return call_function(c, in, lanes, site.target);
  const auto* pointers = c.row<const std::uint64_t>(in.a);
  const std::uint64_t first = c.uniform64(in.a, lanes);
  LaneMask same = 0;
  for (LaneMask rest = lanes; rest != 0; rest &= rest - 1) {
    const int l = std::countr_zero(rest);
    if (pointers[l] == first) same |= LaneMask{1} << l;
  }
  if (same != lanes) {  // the others call later: they repeat the instruction
    --c.split->pc;
    c.isolate(same);
    ++c.split->pc;
  }
  const std::uint64_t target = (first & ~mem::kWindowMask) / 16;
  if ((first & mem::kWindowMask) != mem::kFunctionWindow || first % 16 != 0 ||
      target >= c.launch->kernel->functions.size() || target == 0)
    c.fault(ReportKind::illegal_instruction, in, lanes,
            "indirect call to a value that is no function");
  return call_function(c, in, same, static_cast<std::uint32_t>(target));
}

Action exit_lanes(Context& c, const Instruction&, LaneMask lanes) {
  c.split->lanes &= ~lanes;
  c.cluster->lanes_exited(*c.warp, lanes);
  return Action::exit;
}

Action ret(Context& c, const Instruction& in, LaneMask lanes) {
  Split& split = *c.split;
  if (split.calls.empty()) return exit_lanes(c, in, lanes);
  c.isolate(lanes);
  const ir::Kernel& kernel = *c.launch->kernel;
  const CallFrame frame = split.calls.back();
  const ir::FunctionLayout& callee = kernel.functions[split.function];
  const ir::CallSite& site = kernel.calls[frame.call_site];
  // Results land in the caller's frame; the callee's result slots may be more than the caller
  // takes.
  std::vector<ir::FrameSlot> returned(
      callee.returns.begin(),
      callee.returns.begin() +
          static_cast<std::ptrdiff_t>(std::min(callee.returns.size(), site.results.size())));
  copy_slots(c, in, lanes, split.frame, returned, frame.frame, site.results);
  if (callee.recursive) save_registers(c, callee, lanes, split.frame - callee.saved_bytes, true);
  split.calls.pop_back();
  split.pc = frame.return_pc;
  split.function = frame.function;
  split.frame = frame.frame;
  return Action::branch;
}

Action trap(Context& c, const Instruction& in, LaneMask lanes) {
  c.fault(ReportKind::trap, in, lanes, "trap executed");
}

Action no_operation(Context&, const Instruction&, LaneMask) {
  return Action::next;
}

void bind_bra(ir::Decode& d) {
  d.require_operands(1, 1);
  d.out.category = ir::Category::control;
  d.out.immediate = d.branch_target(d.operand(0));
  d.out.handler = branch;
}

void bind_brx(ir::Decode& d) {
  d.require_operands(2, 2);
  d.out.category = ir::Category::control;
  d.out.a = d.source(0, ir::Type::u32);
  const ptx::Operand& label = d.operand(1);
  if (label.kind != ptx::Operand::Kind::label ||
      label.index >= d.builder().function().body.size() ||
      d.builder().statement(label.index).opcode != ".targets")
    d.fail("brx.idx needs the label of a .branchtargets list");
  std::vector<std::uint32_t> table;
  for (const ptx::Operand& target : d.builder().statement(label.index).operands)
    table.push_back(d.branch_target(target));
  auto& tables = d.builder().kernel().branch_tables;
  d.out.detail = static_cast<std::uint32_t>(tables.size());
  tables.push_back(std::move(table));
  d.out.handler = branch_indexed;
}

std::vector<ir::FrameSlot> call_slots(ir::Decode& d, const ptx::Operand& list) {
  if (list.kind != ptx::Operand::Kind::list) d.fail("expected a parameter list (a, b, …)");
  std::vector<ir::FrameSlot> slots;
  for (const ptx::Operand& item : list.items) {
    if (item.kind != ptx::Operand::Kind::variable || item.variable->space != ptx::StateSpace::param)
      d.unsupported("call parameters must be .param variables (the CUDA calling convention)");
    slots.push_back(d.builder().frame_slot(*item.variable, d.statement().line));
  }
  return slots;
}

void bind_call(ir::Decode& d) {
  d.out.category = ir::Category::control;
  ir::CallSite site;
  std::size_t next = 0;
  if (d.operand_count() > 0 && d.operand(0).kind == ptx::Operand::Kind::list)
    site.results = call_slots(d, d.operand(next++));
  const ptx::Operand& target = d.operand(next++);
  if (next < d.operand_count() && d.operand(next).kind == ptx::Operand::Kind::list)
    site.arguments = call_slots(d, d.operand(next));
  if (target.kind == ptx::Operand::Kind::reg) {
    site.indirect = true;
    d.out.a = d.source(target, ir::Type::b64);
  } else if (target.kind == ptx::Operand::Kind::function) {
    const ptx::Function* function = d.builder().find_function(target.name);
    if (function == nullptr) d.fail("call of unknown function '" + std::string(target.name) + "'");
    if (!function->defined) {
      site.builtin = find_builtin(function->name);
      if (site.builtin == ir::Builtin::none)
        d.unsupported("function '" + function->name +
                      "' has no body; built in are vprintf and __assertfail");
      check_builtin(d, site);
    } else {
      site.target = d.builder().function_index(target.name, d.statement().line);
      if (site.target == 0 || function->entry) d.fail("a kernel cannot be called");
      if (site.arguments.size() > function->parameters.size() ||
          site.results.size() > function->returns.size())
        d.fail("call does not match the parameters of '" + function->name + "'");
    }
  } else {
    d.fail("expected a function or a register");
  }
  auto& calls = d.builder().kernel().calls;
  d.out.detail = static_cast<std::uint32_t>(calls.size());
  calls.push_back(std::move(site));
  d.out.handler = call;
}

template <ir::Handler kHandler>
void bind_plain(ir::Decode& d) {
  d.out.category = ir::Category::control;
  d.require_operands(0, 1);
  d.out.handler = kHandler;
}

constexpr ir::OpcodeRow kRows[] = {
    {"bra", "[uni]", bind_bra},
    {"brx.idx", "[uni]", bind_brx},
    {"call", "[uni]", bind_call,
     "direct and indirect, CUDA calling convention; vprintf and __assertfail are built in"},
    {"ret", "[uni]", bind_plain<ret>},
    {"exit", "", bind_plain<exit_lanes>},
    {"trap", "", bind_plain<trap>, "stops the launch with a report"},
    {"brkpt", "", bind_plain<no_operation>, "does nothing"},
    {"pmevent", "[mask]", bind_plain<no_operation>, "does nothing"},
};

}  // namespace

std::span<const ir::OpcodeRow> control_opcodes() {
  return kRows;
}

}  // namespace ptxemu::exec
