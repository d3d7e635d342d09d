// Turns the events of one cluster into happens-before: barriers, groups, fences, atomics,
// asynchronous operations. The rules are those of the PTX memory model, sections "Memory
// Consistency Model" and "Async proxy"; docs/emulator.md states them in plain words.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <unordered_map>
#include <utility>
#include <vector>

#include "check/order.hpp"
#include "check/records.hpp"
#include "check/sync_variables.hpp"
#include "exec/observer.hpp"

namespace ptxemu::check {

class Synchronisation {
 public:
  Synchronisation(const exec::ClusterView& view, SyncVariables& global_variables);

  [[nodiscard]] AgentId warp_id(std::uint32_t cta, std::uint32_t warp) const {
    return cta * warps_per_cta_ + warp;
  }
  [[nodiscard]] std::uint64_t cluster() const { return cluster_; }
  Order& order() { return order_; }
  /// Position in the cluster's sequence of events.
  [[nodiscard]] std::uint64_t sequence() const { return sequence_; }
  std::uint64_t next_sequence() { return ++sequence_; }

  void on_mbarrier(const exec::MbarrierEvent& event);
  void on_cta_barrier(const exec::CtaBarrierEvent& event);
  void on_cluster_barrier(const exec::ClusterBarrierEvent& event);
  void on_fence(const exec::FenceEvent& event);
  void on_async_issue(const exec::AsyncIssue& issue);
  void on_async_stage(std::uint64_t operation, exec::AsyncStage stage);
  void on_group(const exec::GroupEvent& event);
  void on_warp_sync(const exec::WarpSyncEvent& event);
  /// A synchronous access that is atomic, volatile, relaxed, acquire or release.
  void on_strong_access(const exec::Access& access);

  /// Null for an operation that was never issued.
  [[nodiscard]] std::shared_ptr<Operation> operation(std::uint64_t id) const;
  /// Bulk and cp.async operations of a warp that no wait has covered yet.
  [[nodiscard]] const std::vector<std::shared_ptr<Operation>>& unawaited(AgentId warp) const {
    return unawaited_[warp];
  }
  /// When a thread of the CTA last executed fence.proxy.tensormap::generic.acquire; 0: never.
  [[nodiscard]] std::uint64_t maps_acquired(std::uint8_t cta) const { return maps_acquired_[cta]; }
  /// Whether `knowledge` includes the completion of an operation's reads or writes in CTA `cta`.
  [[nodiscard]] static bool knows_completion(const VectorClock& clock, const Operation& operation,
                                             bool reads, std::uint8_t cta);

 private:
  struct Mbarrier {
    Knowledge collecting;                   // released by the arrivals of the open phase
    std::shared_ptr<const Knowledge> last;  // … of the last completed phase
    AgentId channel = 0;
    Time phases = 0;  // completed since the launch began, re-initialisations included
  };
  struct ThreadBarrier {
    Knowledge collecting;
    Knowledge last;
    std::uint32_t completed = 0;
    std::vector<std::pair<AgentId, LaneMask>> waiting;
  };
  /// Channels of the groups of one warp (wgmma: warpgroup).
  struct GroupChannels {
    AgentId reads = 0, writes = 0;
    Time issued = 0;
  };
  using Key = std::pair<std::uint32_t, std::uint32_t>;

  Mbarrier& mbarrier(std::uint8_t cta, std::uint32_t offset);
  GroupChannels& channels(exec::AgentKind kind, std::uint32_t cta, std::uint32_t warp);
  void arrive(const exec::MbarrierEvent& event, Mbarrier& barrier);
  void forget_finished_operations();

  std::uint32_t warps_per_cta_;
  std::uint64_t cluster_;
  Order order_;
  SyncVariables& global_variables_;
  SyncVariables shared_variables_;
  std::uint64_t sequence_ = 0;
  std::map<Key, Mbarrier> mbarriers_;          // (cta, offset)
  std::map<Key, ThreadBarrier> cta_barriers_;  // (cta, id)
  ThreadBarrier cluster_barrier_;
  std::vector<std::uint32_t> cluster_target_;  // completion that a warp's cluster wait needs
  std::map<std::pair<exec::AgentKind, AgentId>, GroupChannels> channels_;
  std::unordered_map<std::uint64_t, std::shared_ptr<Operation>> operations_;
  std::size_t operations_to_keep_ = 4096;  // forget finished ones beyond this many
  std::vector<std::vector<std::shared_ptr<Operation>>> unawaited_;  // by warp
  std::vector<std::shared_ptr<const Knowledge>>
      release_fence_;  // by warp: what its last fence covers
  std::vector<std::vector<SyncVariables::Released>> observed_;  // by warp: read, but not yet fenced
  std::vector<std::uint64_t> maps_acquired_;                    // by CTA, see maps_acquired()
};

}  // namespace ptxemu::check
