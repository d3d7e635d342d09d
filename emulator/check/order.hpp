// Happens-before of the warps of one cluster: who knows what, lane by lane where lanes differ.
#pragma once

#include <memory>
#include <vector>

#include "check/vector_clock.hpp"

namespace ptxemu::check {

/// Which proxies' view a `fence.proxy.async` names.
struct FencedSpaces {
  bool shared = true;
  bool global = true;
};

class Order {
 public:
  explicit Order(AgentId warps) : warps_(warps), next_channel_(warps) {}

  /// Time of an access that the warp makes now.
  Time time_of_access(AgentId warp) {
    Warp& state = warps_[warp];
    if (state.released) {
      ++state.now;
      state.released = false;
    }
    return state.now;
  }
  [[nodiscard]] const Knowledge& of(AgentId warp, unsigned lane) const;
  /// What these lanes pass on at this moment: what they know and their own actions so far. The
  /// caller ends the interval.
  std::shared_ptr<const Knowledge> snapshot(AgentId warp, LaneMask lanes);
  /// Adds a snapshot to `into`; later actions of the warp are not part of it.
  void release(AgentId warp, LaneMask lanes, Knowledge& into);
  void acquire(AgentId warp, LaneMask lanes, const Knowledge& knowledge);
  /// The same for what a thread of cluster `home` released; this is cluster `here`.
  void acquire_from(AgentId warp, LaneMask lanes, std::uint64_t home,
                    const std::shared_ptr<const Knowledge>& knowledge, std::uint64_t here);
  /// These lanes learn that events of a channel up to `time` have happened.
  void see(AgentId warp, LaneMask lanes, AgentId channel, Time time);
  /// The lanes wait for each other (bar.warp.sync).
  void meet(AgentId warp, LaneMask lanes);
  void fence_async(AgentId warp, LaneMask lanes, FencedSpaces spaces);
  /// Ends an interval of the warp: its next access is later than what it has passed on.
  void close_interval(AgentId warp) { warps_[warp].released = true; }

  /// Lanes that execute; lanes that never appear do not exist.
  void appear(AgentId warp, LaneMask lanes) { warps_[warp].live |= lanes; }
  void leave(AgentId warp, LaneMask lanes) { warps_[warp].live &= ~lanes; }
  [[nodiscard]] LaneMask live(AgentId warp) const { return warps_[warp].live; }

  AgentId new_channel() { return next_channel_++; }

 private:
  /// Lanes that know the same.
  struct Group {
    LaneMask lanes = 0;
    Knowledge knowledge;
    std::shared_ptr<const Knowledge>
        snapshot;  // of `snapshot_lanes` at `snapshot_time`, if still true
    LaneMask snapshot_lanes = 0;
    Time snapshot_time = 0;
  };
  struct Warp {
    Time now = 1;
    bool released = false;  // `now` was passed on: the next access starts a later interval
    LaneMask live = 0;
    std::vector<Group> groups{Group{ir::kFullMask, {}, nullptr, 0, 0}};
  };
  /// Calls `change(Knowledge&)` for the knowledge of exactly these lanes, splitting groups as
  /// needed.
  template <class Change>
  void change(AgentId warp, LaneMask lanes, Change&& change);
  void add_own(VectorClock& clock, AgentId warp, LaneMask lanes) const;

  std::vector<Warp> warps_;
  AgentId next_channel_;
};

}  // namespace ptxemu::check
