#include "check/order.hpp"

namespace ptxemu::check {

const Knowledge& Order::of(AgentId warp, unsigned lane) const {
  const std::vector<Group>& groups = warps_[warp].groups;
  for (const Group& group : groups) {
    if ((group.lanes >> lane & 1u) != 0) return group.knowledge;
  }
  return groups.front().knowledge;  // groups cover all lanes
}

void Order::add_own(VectorClock& clock, AgentId warp, LaneMask lanes) const {
  const Warp& state = warps_[warp];
  if ((state.live & ~lanes) == 0) {
    clock.see(warp, state.now);
  } else {
    clock.see_lanes(warp, state.now, lanes);
  }
}

std::shared_ptr<const Knowledge> Order::snapshot(AgentId warp, LaneMask lanes) {
  Warp& state = warps_[warp];
  for (Group& group : state.groups) {
    if ((lanes & ~group.lanes & state.live) != 0) continue;
    if (group.snapshot == nullptr || group.snapshot_lanes != lanes ||
        group.snapshot_time != state.now) {
      auto taken = std::make_shared<Knowledge>(group.knowledge);
      add_own(taken->seen, warp, lanes);
      group.snapshot = std::move(taken);
      group.snapshot_lanes = lanes;
      group.snapshot_time = state.now;
    }
    return group.snapshot;
  }
  auto taken = std::make_shared<Knowledge>();
  for (const Group& group : state.groups) {
    if ((group.lanes & lanes) != 0) taken->join(group.knowledge);
  }
  add_own(taken->seen, warp, lanes);
  return taken;
}

void Order::release(AgentId warp, LaneMask lanes, Knowledge& into) {
  into.join(*snapshot(warp, lanes));
  close_interval(warp);
}

template <class Change>
void Order::change(AgentId warp, LaneMask lanes, Change&& change) {
  std::vector<Group>& groups = warps_[warp].groups;
  const LaneMask ghosts = ~warps_[warp].live;
  const std::size_t count = groups.size();
  for (std::size_t index = 0; index < count; ++index) {
    const LaneMask inside = groups[index].lanes & lanes;
    if (inside == 0) continue;
    if ((groups[index].lanes & ~lanes & ~ghosts) != 0) {
      Group part = groups[index];
      part.lanes = inside;
      groups[index].lanes &= ~inside;
      part.snapshot = nullptr;
      change(part.knowledge);
      groups.push_back(std::move(part));
    } else {
      groups[index].snapshot = nullptr;
      change(groups[index].knowledge);
    }
  }
}

void Order::acquire(AgentId warp, LaneMask lanes, const Knowledge& knowledge) {
  change(warp, lanes, [&](Knowledge& own) { own.join(knowledge); });
}

void Order::acquire_from(AgentId warp, LaneMask lanes, std::uint64_t home,
                         const std::shared_ptr<const Knowledge>& knowledge, std::uint64_t here) {
  change(warp, lanes, [&](Knowledge& own) { own.join_from(home, knowledge, here); });
}

void Order::see(AgentId warp, LaneMask lanes, AgentId channel, Time time) {
  change(warp, lanes, [&](Knowledge& own) { own.seen.see(channel, time); });
}

void Order::meet(AgentId warp, LaneMask lanes) {
  Warp& state = warps_[warp];
  lanes &= state.live;
  if ((lanes & (lanes - 1)) == 0) return;  // a lane alone meets nobody
  Knowledge merged = *snapshot(warp, lanes);
  std::vector<Group> groups;
  for (Group& group : state.groups) {
    group.lanes &= ~lanes & state.live;
    if (group.lanes != 0) groups.push_back(std::move(group));
  }
  if (groups.empty()) lanes = ir::kFullMask;  // lanes that do not exist go with the rest
  groups.push_back(Group{lanes, std::move(merged), nullptr, 0, 0});
  state.groups = std::move(groups);
  close_interval(warp);
}

void Order::fence_async(AgentId warp, LaneMask lanes, FencedSpaces spaces) {
  change(warp, lanes, [&](Knowledge& own) {
    VectorClock ordered = own.seen;
    add_own(ordered, warp, lanes);
    if (spaces.shared) own.fenced_in(FencedSpace::shared).join(ordered);
    if (spaces.global) own.fenced_in(FencedSpace::global).join(ordered);
  });
  close_interval(warp);
}

}  // namespace ptxemu::check
