// Vector clocks: what one agent knows of the others' past.
//
// Agents are the warps of a cluster (ids 0 … warps-1) and *channels*: one per mbarrier and one per
// warp and kind of asynchronous group, whose time is the number of completed phases or operations.
// The lanes of a warp share an id. A lane that synchronises alone passes on its own actions only,
// so an entry of a warp says "all lanes up to time t, and these lanes up to a later time".
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "ir/instruction.hpp"

namespace ptxemu::check {

using ir::LaneMask;
using AgentId = std::uint32_t;
using Time = std::uint32_t;

class VectorClock {
 public:
  /// Whether the action of `lane` of warp `agent` at `time` (of a channel: its event `time`) is
  /// known.
  [[nodiscard]] bool covers(AgentId agent, Time time, unsigned lane = 0) const {
    if (agent < all_.size() && time <= all_[agent]) return true;
    if (agent >= some_.size()) return false;
    return time <= some_[agent].time && (some_[agent].lanes >> lane & 1u) != 0;
  }
  /// All actions of `agent` up to `time` become known.
  void see(AgentId agent, Time time);
  /// The actions of these lanes of warp `agent` up to `time` become known. Where the entry already
  /// names other lanes, the union is taken: this may hide a race, and never invents one.
  void see_lanes(AgentId agent, Time time, LaneMask lanes);
  void join(const VectorClock& other);

 private:
  struct Lanes {
    Time time = 0;
    LaneMask lanes = 0;
  };
  void see_lanes(AgentId agent, Lanes lanes);

  std::vector<Time> all_;
  std::vector<Lanes> some_;  ///< warps only
};

/// Spaces that a proxy fence can name.
enum class FencedSpace : std::uint8_t { shared, global };

/// All that a thread passes on when it releases, and takes over when it acquires.
struct Knowledge {
  VectorClock seen;
  /// The part of `seen` whose generic-proxy accesses a `fence.proxy.async` has ordered before later
  /// accesses through the asynchronous proxy.
  std::array<VectorClock, 2> fenced;
  /// The same about other clusters of the launch, by cluster number. Filled by atomics on global
  /// memory.
  std::map<std::uint64_t, std::shared_ptr<const Knowledge>> foreign;

  [[nodiscard]] const VectorClock& fenced_in(FencedSpace space) const {
    return fenced[static_cast<std::size_t>(space)];
  }
  [[nodiscard]] VectorClock& fenced_in(FencedSpace space) {
    return fenced[static_cast<std::size_t>(space)];
  }
  void join(const Knowledge& other);
  /// Takes over what a thread of cluster `home` knows, for a thread of cluster `here`.
  void join_from(std::uint64_t home, const std::shared_ptr<const Knowledge>& other,
                 std::uint64_t here);

 private:
  void join_clocks(const Knowledge& other);
};

}  // namespace ptxemu::check
