#include "check/wgmma_registers.hpp"

#include <algorithm>

#include "check/describe.hpp"

namespace ptxemu::check {
namespace {

/// Opcode with its shape, e.g. "wgmma.mma_async.sync.aligned.m64n128k16": accumulators may be
/// passed from one wgmma to the next without a fence while the shape stays the same.
std::string_view shape_of(const exec::Instruction& instruction) {
  const std::string_view text = instruction.text;
  const std::size_t shape = text.find(".m64n");
  if (shape == std::string_view::npos) return {};
  return text.substr(shape, text.find('.', shape + 1) - shape);
}

}  // namespace

WgmmaRegisters::WgmmaRegisters(const exec::ClusterView& view, Synchronisation& synchronisation,
                               exec::ReportSink& sink)
    : view_(view),
      synchronisation_(synchronisation),
      sink_(sink),
      warps_(view.cta_count() * view.warps_per_cta()) {}

void WgmmaRegisters::on_instruction(std::uint32_t cta, std::uint32_t warp_index, LaneMask lanes,
                                    const exec::Instruction& instruction,
                                    RegisterShadow& registers) {
  Warp& warp = warps_[synchronisation_.warp_id(cta, warp_index)];
  ++warp.position;
  if (instruction.category == ir::Category::wgmma) {
    check_wgmma(warp, describe_lanes(view_.cta_id(cta), warp_index, lanes), instruction, registers);
    own(warp, instruction, 0);  // the operation gets its number when the fourth warp has come
    return;
  }
  // Compilers sink plain copies below a wgmma.fence, and the assembler removes them: a copy counts
  // as written when its source was.
  const bool copy =
      instruction.opcode == "mov" && instruction.d.present() && instruction.reads.size() <= 1;
  std::uint64_t position = warp.position;
  if (copy) position = instruction.a.is_register() ? registers.written(instruction.a) : 0;
  for (const ir::Operand& operand : instruction.writes) registers.set_written(operand, position);
  if (!warp.owned.empty() && lanes != 0) {
    check_owned(warp, describe_lanes(view_.cta_id(cta), warp_index, lanes), instruction);
  }
}

void WgmmaRegisters::check_owned(Warp& warp, const std::string& who,
                                 const exec::Instruction& instruction) {
  const auto check = [&](const ir::Operand& operand, bool writes) {
    if (!operand.is_register()) return;
    const auto owner = warp.owned.find(operand.offset);
    if (owner == warp.owned.end()) return;
    if (owner->second.use == Use::fragment && !writes) return;
    const char* what = owner->second.use == Use::fragment ? "the A fragments" : "the accumulators";
    sink_.add(
        ReportKind::in_flight_reuse, &instruction,
        who + (writes ? " writes" : " reads") + " a register of " + what +
            " of a wgmma in flight: missing wgmma.commit_group and wgmma.wait_group before it",
        owner->second.instruction);
  };
  for (const ir::Operand& operand : instruction.reads) check(operand, false);
  for (const ir::Operand& operand : instruction.writes) check(operand, true);
}

void WgmmaRegisters::check_wgmma(Warp& warp, const std::string& who,
                                 const exec::Instruction& instruction,
                                 const RegisterShadow& registers) {
  bool fence_missing = warp.fence == 0;
  const auto check = [&](const ir::Operand& operand, Use use) {
    if (!operand.is_register()) return;
    if (registers.written(operand) > warp.fence) fence_missing = true;
    const auto owner = warp.owned.find(operand.offset);
    if (owner == warp.owned.end()) return;
    if (owner->second.use == use &&
        (use == Use::fragment || shape_of(*owner->second.instruction) == shape_of(instruction))) {
      return;
    }
    sink_.add(
        ReportKind::in_flight_reuse, &instruction,
        who +
            " gives a wgmma a register that another wgmma in flight uses differently: missing "
            "wgmma.wait_group between them",
        owner->second.instruction);
  };
  for (const ir::Operand& operand : instruction.list) check(operand, Use::accumulator);
  for (const ir::Operand& operand : instruction.list2) check(operand, Use::fragment);
  if (fence_missing) {
    sink_.add(ReportKind::missing_fence, &instruction,
              who + ": missing wgmma.fence between " +
                  (warp.fence == 0 ? "the start of the warpgroup's work"
                                   : "ordinary writes of its registers") +
                  " and this wgmma");
  }
}

void WgmmaRegisters::on_async_issue(const exec::AsyncIssue& issue) {
  if (issue.agent.kind != exec::AgentKind::tensor_core) return;
  for (std::uint32_t warp = issue.warp / 4u * 4u; warp < issue.warp / 4u * 4u + 4; ++warp) {
    own(warps_[synchronisation_.warp_id(issue.cta, warp)], *issue.instruction, issue.operation);
  }
}

void WgmmaRegisters::own(Warp& warp, const exec::Instruction& instruction,
                         std::uint64_t operation) {
  for (const ir::Operand& operand : instruction.list2) {
    if (operand.is_register())
      warp.owned[operand.offset] = {operation, Use::fragment, &instruction};
  }
  for (const ir::Operand& operand : instruction.list) {
    if (operand.is_register()) {
      warp.owned[operand.offset] = {operation, Use::accumulator, &instruction};
    }
  }
}

void WgmmaRegisters::on_fence(const exec::FenceEvent& event) {
  if (event.kind != exec::FenceKind::wgmma) return;
  Warp& warp = warps_[synchronisation_.warp_id(event.agent.cta, event.agent.index)];
  warp.fence = warp.position;
}

void WgmmaRegisters::on_group(const exec::GroupEvent& event) {
  if (event.kind != exec::GroupKind::wgmma || !event.wait) return;
  auto& owned = warps_[synchronisation_.warp_id(event.cta, event.warp)].owned;
  std::erase_if(owned, [&](const auto& entry) {
    return std::find(event.operations.begin(), event.operations.end(), entry.second.operation) !=
           event.operations.end();
  });
}

void WgmmaRegisters::on_lanes_exit(std::uint32_t cta, std::uint32_t warp, LaneMask lanes) {
  auto& owned = warps_[synchronisation_.warp_id(cta, warp)].owned;
  if (owned.empty()) return;
  sink_.add(ReportKind::left_pending, owned.begin()->second.instruction,
            describe_lanes(view_.cta_id(cta), warp, lanes) +
                " exits with a wgmma in flight: missing wgmma.commit_group and wgmma.wait_group 0");
  owned.clear();
}

}  // namespace ptxemu::check
