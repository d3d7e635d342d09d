// Commit and wait of asynchronous groups, shared by cp.async, bulk copies and wgmma.
#pragma once

#include "exec/cluster.hpp"

namespace ptxemu::exec {

inline sync::GroupTracker& tracker(Warp& warp, GroupKind kind) {
  switch (kind) {
    case GroupKind::cp_async:
      return warp.cp_async;
    case GroupKind::bulk:
      return warp.bulk;
    case GroupKind::wgmma:
      return warp.wgmma;
  }
  return warp.bulk;
}

inline void tell_group(Context& c, const Instruction& in, LaneMask lanes, GroupKind kind, bool wait,
                       std::uint32_t allowed, bool reads_only,
                       std::span<const std::uint64_t> operations) {
  GroupEvent event;
  event.kind = kind;
  event.wait = wait;
  event.reads_only = reads_only;
  event.allowed = allowed;
  event.cta = static_cast<std::uint8_t>(c.cta->rank);
  event.warp = static_cast<std::uint16_t>(c.warp->index);
  event.lanes = lanes;
  event.instruction = &in;
  event.operations = operations;
  c.observer->on_group(event);
}

inline void commit_group(Context& c, const Instruction& in, LaneMask lanes, GroupKind kind) {
  std::vector<std::uint64_t> operations;
  tracker(*c.warp, kind).commit(lanes, operations);
  if (c.observer != nullptr) tell_group(c, in, lanes, kind, false, 0, false, operations);
}

inline Action wait_group(Context& c, const Instruction& in, LaneMask lanes, GroupKind kind,
                         std::uint32_t allowed, bool reads_only) {
  sync::GroupTracker& groups = tracker(*c.warp, kind);
  if (!groups.satisfied(lanes, allowed, reads_only))
    return c.wait_and_retry(SplitState::group, in, lanes);
  if (c.observer != nullptr) {
    std::vector<std::uint64_t> operations;
    groups.take_waited(lanes, allowed, reads_only, operations);
    tell_group(c, in, lanes, kind, true, allowed, reads_only, operations);
  }
  return Action::next;
}

}  // namespace ptxemu::exec
