#include "check/uninitialised.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <mutex>

#include "check/describe.hpp"

namespace ptxemu::check {

using exec::AccessKind;
using ir::Category;

namespace {
/// Undefined bytes of a copy are tracked in pieces of this size.
constexpr std::uint64_t kGrain = 4;
}  // namespace

Uninitialised::Uninitialised(const exec::ClusterView& view, Synchronisation& synchronisation,
                             GlobalShadow& global, exec::ReportSink& sink)
    : view_(view), synchronisation_(synchronisation), global_(global), sink_(sink) {
  for (std::uint32_t cta = 0; cta < view.cta_count(); ++cta) {
    shared_.emplace_back(view.shared_memory(cta).size(), false);
  }
}

void Uninitialised::on_instruction(std::uint32_t cta, std::uint32_t warp, LaneMask lanes,
                                   const exec::Instruction& instruction,
                                   RegisterShadow& registers) {
  if (lanes == 0) return;
  const LaneMask undefined = registers.undefined(instruction.reads) & lanes;
  if (undefined != 0) check_uses(cta, warp, lanes, instruction, registers);
  if (instruction.writes.empty()) return;
  LaneMask result = undefined;
  switch (instruction.category) {
    case Category::load:
    case Category::matrix_load:
    case Category::atomic:
      result = 0;  // memory decides, see on_access
      break;
    case Category::warp_exchange:
      // A shuffle's lanes follow the data, see on_exchange; other results depend on every lane.
      if (instruction.opcode.starts_with("shfl")) return;
      result = undefined != 0 ? lanes : 0;
      break;
    case Category::matrix_multiply: {
      // Rows belong to groups of four lanes; an undefined B column reaches every row.
      // The addend has the layout of the result.
      const LaneMask a = registers.undefined(instruction.list2) & lanes;
      result = registers.undefined(instruction.list) & lanes;
      if ((registers.undefined(instruction.list3) & lanes) != 0) result = lanes;
      for (unsigned row = 0; row < 8; ++row) {
        if ((a >> (4 * row) & 0xfu) != 0) result |= 0xfu << (4 * row);
      }
      break;
    }
    case Category::wgmma: {
      // The tensor core writes later, see on_wgmma_done. Without scale-d it does not read D.
      if (predicate_value(cta, warp, instruction.c) != 0) return;
      for (const ir::Operand& operand : instruction.list) registers.set(operand, lanes, 0);
      return;
    }
    default:
      break;
  }
  if (instruction.opcode == "selp" && undefined != 0) {
    const LaneMask chosen = predicate_value(cta, warp, instruction.c);  // only that operand matters
    result = registers.undefined(instruction.c) | (registers.undefined(instruction.a) & chosen) |
             (registers.undefined(instruction.b) & ~chosen);
  }
  for (const ir::Operand& operand : instruction.writes) registers.set(operand, lanes, result);
}

LaneMask Uninitialised::predicate_value(std::uint32_t cta, std::uint32_t warp,
                                        const ir::Operand& operand) const {
  if (operand.bank != ir::Bank::registers && operand.bank != ir::Bank::constants) {
    return ir::kFullMask;
  }
  const std::byte* bank = operand.is_register() ? view_.registers(cta, warp) : view_.constants();
  LaneMask value = 0;
  std::memcpy(&value, bank + operand.offset, sizeof value);
  return operand.negated ? ~value : value;
}

void Uninitialised::check_uses(std::uint32_t cta, std::uint32_t warp, LaneMask lanes,
                               const exec::Instruction& instruction,
                               const RegisterShadow& registers) {
  const auto complain = [&](LaneMask undefined, const char* use) {
    if ((undefined &= lanes) == 0) return;
    sink_.add(ReportKind::uninitialised, &instruction,
              describe_lanes(view_.cta_id(cta), warp, undefined) +
                  " uses an undefined register as " + use +
                  ": it was never written, or computed from memory that was never written");
  };
  const bool effect = instruction.category != Category::arithmetic &&
                      instruction.category != Category::warp_exchange;
  if (effect) complain(registers.undefined(instruction.guard), "a guard");
  for (const ir::Address& address : instruction.addresses) {
    complain(registers.undefined(address.base), "an address");
  }
  switch (instruction.category) {
    case Category::control:
      complain(registers.undefined(instruction.a), "a branch target or condition");
      break;
    case Category::mbarrier:
    case Category::cta_barrier:
    case Category::async_copy:
      complain(registers.undefined(instruction.reads), "an operand of a synchronisation or a copy");
      break;
    case Category::wgmma:
      complain(registers.undefined(instruction.a) | registers.undefined(instruction.b),
               "a matrix descriptor");
      break;
    default:
      break;
  }
}

bool Uninitialised::defined(const exec::Access& access, std::uint64_t address,
                            std::uint64_t bytes) {
  if (access.space == ir::Space::shared) return shared_[access.cta].initialised(address, bytes);
  if (access.space != ir::Space::global) return true;
  std::uint64_t offset = 0;
  const Shadow* shadow = global_.find(address, offset);
  return shadow == nullptr || shadow->initialised(offset, bytes);
}

void Uninitialised::define(const exec::Access& access, std::uint64_t address, std::uint64_t bytes,
                           bool value) {
  if (access.space == ir::Space::shared) {
    shared_[access.cta].set_initialised(address, bytes, value);
  } else if (access.space == ir::Space::global) {
    std::uint64_t offset = 0;
    if (Shadow* shadow = global_.find(address, offset)) {
      shadow->set_initialised(offset, bytes, value);
    }
  }
}

void Uninitialised::report(const exec::Access& access, LaneMask lanes, const std::string& what) {
  sink_.add(ReportKind::uninitialised, access.instruction,
            describe_lanes(view_.cta_id(access.agent.cta), access.agent.index, lanes) + " " + what);
}

void Uninitialised::on_access(const exec::Access& access, RegisterShadow* registers) {
  std::unique_lock<std::mutex> lock;
  if (access.space == ir::Space::global) lock = std::unique_lock(global_.mutex);
  if (access.operation != 0) {
    if (access.kind == AccessKind::read) {
      copy_source(access);
    } else {
      copy_destination(access);
    }
    return;
  }
  if (registers == nullptr || access.instruction == nullptr) return;
  const bool matrix = access.instruction->category == Category::matrix_load;
  if (access.kind == AccessKind::read) {
    matrix ? load_matrix(access, *registers) : load(access, *registers);
  } else {
    matrix ? store_matrix(access, *registers) : store(access, *registers);
  }
}

void Uninitialised::load(const exec::Access& access, RegisterShadow& registers) {
  if (!access.to_registers) return;
  const std::span<const ir::Operand> targets = access.instruction->list;
  const std::uint64_t part = targets.empty() ? 0 : access.bytes / targets.size();
  for (std::size_t i = 0; i < targets.size(); ++i) {
    LaneMask undefined = 0;
    for (LaneMask lanes = access.lanes; lanes != 0; lanes &= lanes - 1) {
      const auto lane = static_cast<unsigned>(std::countr_zero(lanes));
      if (!defined(access, access.addresses[lane] + i * part, part)) undefined |= 1u << lane;
    }
    registers.set(targets[i], access.lanes, undefined);
  }
}

void Uninitialised::load_matrix(const exec::Access& access, RegisterShadow& registers) {
  const std::span<const ir::Operand> targets = access.instruction->writes;
  const bool transposed = access.instruction->text.find(".trans") != std::string_view::npos;
  for (std::size_t matrix = 0; matrix < targets.size() && matrix < 4; ++matrix) {
    LaneMask undefined = 0;
    for (unsigned row = 0; row < 8; ++row) {
      const auto lane = static_cast<unsigned>(8 * matrix) + row;
      if ((access.lanes >> lane & 1u) == 0) continue;
      if (defined(access, access.addresses[lane], access.bytes)) continue;
      undefined |= transposed ? ir::kFullMask : 0xfu << (4 * row);
    }
    registers.set(targets[matrix], ir::kFullMask, undefined);
  }
}

void Uninitialised::store(const exec::Access& access, const RegisterShadow& registers) {
  const exec::Instruction& instruction = *access.instruction;
  // The stored values are the registers read that are neither the guard nor part of an address.
  std::vector<const ir::Operand*> values;
  for (const ir::Operand& operand : instruction.list) values.push_back(&operand);
  if (values.empty()) {
    for (const ir::Operand* operand : {&instruction.a, &instruction.b, &instruction.c}) {
      if (operand->present()) values.push_back(operand);
    }
  }
  const std::size_t count = std::max<std::size_t>(values.size(), 1);
  const bool atomic = access.kind == AccessKind::atomic;
  const std::uint64_t part = atomic ? access.bytes : access.bytes / count;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const LaneMask undefined = registers.undefined(*values[i]) & access.lanes;
    if (undefined != 0 && (access.space == ir::Space::global || atomic)) {
      report(access, undefined,
             "stores an undefined register to memory that others read: it was never "
             "written, or computed from memory that was never written");
    }
    if (atomic) continue;
    for (LaneMask lanes = access.lanes; lanes != 0; lanes &= lanes - 1) {
      const auto lane = static_cast<unsigned>(std::countr_zero(lanes));
      const bool value = access.space == ir::Space::global || (undefined >> lane & 1u) == 0;
      define(access, access.addresses[lane] + i * part, part, value);
    }
  }
  if (!atomic) return;
  LaneMask undefined = 0;
  for (LaneMask lanes = access.lanes; lanes != 0; lanes &= lanes - 1) {
    const auto lane = static_cast<unsigned>(std::countr_zero(lanes));
    if (!defined(access, access.addresses[lane], access.bytes)) undefined |= 1u << lane;
    define(access, access.addresses[lane], access.bytes, true);
  }
  if (undefined != 0) {
    report(access, undefined, "updates memory that was never written: fill it before the kernel");
  }
}

void Uninitialised::store_matrix(const exec::Access& access, const RegisterShadow& registers) {
  const std::span<const ir::Operand> values = access.instruction->list;
  for (std::size_t matrix = 0; matrix < values.size() && matrix < 4; ++matrix) {
    const LaneMask undefined = registers.undefined(values[matrix]);
    for (unsigned row = 0; row < 8; ++row) {
      const auto lane = static_cast<unsigned>(8 * matrix) + row;
      if ((access.lanes >> lane & 1u) == 0) continue;
      define(access, access.addresses[lane], access.bytes, (undefined >> (4 * row) & 0xfu) == 0);
    }
  }
}

void Uninitialised::copy_source(const exec::Access& access) {
  const auto operation = synchronisation_.operation(access.operation);
  if (operation == nullptr) return;
  Copy copy;
  for (const exec::Access::Range& range : access.ranges) {
    if (!defined(access, range.address, range.bytes)) {
      for (std::uint64_t at = 0; at < range.bytes; at += kGrain) {
        const std::uint64_t piece = std::min(kGrain, range.bytes - at);
        if (defined(access, range.address + at, piece)) continue;
        if (copy.undefined.empty()) copy.first = {range.address + at, piece};
        copy.undefined.push_back({copy.bytes + at, piece});
      }
    }
    copy.bytes += range.bytes;
  }
  if (copy.undefined.empty()) return;
  operation->tainted = true;
  if (access.agent.kind != exec::AgentKind::tensor_core) {
    copies_[access.operation] = std::move(copy);
  }
}

void Uninitialised::copy_destination(const exec::Access& access) {
  std::uint64_t bytes = 0;
  for (const exec::Access::Range& range : access.ranges) {
    define(access, range.address, range.bytes, true);
    bytes += range.bytes;
  }
  const auto found = copies_.find(access.operation);
  // A fill has no source. A multicast writes the same bytes to several CTAs.
  if (found == copies_.end() || found->second.bytes != bytes) return;
  const Copy& copy = found->second;
  if (access.space == ir::Space::global) {
    sink_.add(ReportKind::uninitialised, access.instruction,
              "an asynchronous copy stores " +
                  describe_place(view_, true, access.agent.cta, copy.first.address) +
                  " to global memory, but it was never written");
    return;
  }
  for (const exec::Access::Range& piece : copy.undefined) {
    // The piece's bytes, looked up in the sequence of destination ranges.
    std::uint64_t start = 0;
    for (const exec::Access::Range& range : access.ranges) {
      const std::uint64_t from = std::max(piece.address, start);
      const std::uint64_t to = std::min(piece.address + piece.bytes, start + range.bytes);
      if (from < to) define(access, range.address + (from - start), to - from, false);
      start += range.bytes;
    }
  }
}

void Uninitialised::on_exchange(const exec::WarpSyncEvent& event, RegisterShadow& registers) {
  if (event.source_lanes.size() != ir::kWarpSize || event.instruction == nullptr) return;
  const LaneMask source = registers.undefined(event.instruction->a);
  LaneMask result = 0;
  for (unsigned lane = 0; lane < ir::kWarpSize; ++lane) {
    if ((source >> event.source_lanes[lane] & 1u) != 0) result |= 1u << lane;
  }
  registers.set(event.instruction->d, event.lanes, result);
  registers.set(event.instruction->d2, event.lanes, 0);
}

void Uninitialised::on_mbarrier(const exec::MbarrierEvent& event) {
  // A live mbarrier is opaque, an invalidated one is free memory.
  if (event.event == exec::BarrierEvent::init || event.event == exec::BarrierEvent::inval) {
    shared_[event.cta].set_initialised(event.offset, 8, event.event == exec::BarrierEvent::init);
  }
}

void Uninitialised::on_wgmma_done(const Operation& operation, RegisterShadow& registers) {
  const exec::Instruction& instruction = *operation.issue.instruction;
  LaneMask undefined = operation.tainted ? ir::kFullMask : 0;
  const LaneMask fragments = registers.undefined(instruction.list2);
  for (unsigned row = 0; row < 8; ++row) {
    if ((fragments >> (4 * row) & 0xfu) != 0) undefined |= 0xfu << (4 * row);
  }
  for (const ir::Operand& operand : instruction.list) {
    registers.set(operand, ir::kFullMask, registers.undefined(operand) | undefined);
  }
}

}  // namespace ptxemu::check
