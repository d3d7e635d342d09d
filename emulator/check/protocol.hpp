// Rules that are not about data: mbarrier protocol, initialisation fences, register budgets,
// leftovers.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "check/synchronisation.hpp"

namespace ptxemu::check {

class Protocol {
 public:
  Protocol(const exec::ClusterView& view, Synchronisation& synchronisation, exec::ReportSink& sink);

  void on_access(const exec::Access& access);
  void on_mbarrier(const exec::MbarrierEvent& event);
  void on_fence(const exec::FenceEvent& event);
  void on_cluster_barrier(const exec::ClusterBarrierEvent& event);
  void on_register_limit(std::uint32_t cta, std::uint32_t warp, std::uint32_t registers,
                         const exec::Instruction& instruction);
  void on_lanes_exit(std::uint32_t cta, std::uint32_t warp, LaneMask lanes);
  void on_cluster_end();

 private:
  struct Barrier {
    const exec::Instruction* init = nullptr;
    AgentId initialiser = 0;
    unsigned lane = 0;
    std::uint8_t cta = 0;
    Time time = 0;        ///< of the initialisation
    bool fenced = false;  ///< fence.mbarrier_init (or a stronger fence) by the initialiser
    std::uint32_t cluster_barriers = 0;  ///< completed when it was fenced
    std::uint32_t pending = 0, expected = 0;
    std::int32_t transaction_bytes = 0;
    std::uint32_t phases = 0;  ///< completed since the initialisation
    struct Waiter {
      LaneMask lanes = 0;
      std::uint32_t phase = 0;  ///< number of the phase whose completion they wait for
    };
    std::map<AgentId, Waiter> waiters;  ///< warps suspended in a try_wait
    const exec::Instruction* last_expect = nullptr;
    const exec::Instruction* last = nullptr;  ///< last operation on it
  };
  using Key = std::pair<std::uint8_t, std::uint32_t>;  // CTA, offset

  void initialise(const exec::MbarrierEvent& event);
  void check_use(const exec::MbarrierEvent& event, Barrier& barrier);
  void track_waiters(const exec::MbarrierEvent& event, Barrier& barrier);
  void check_bytes(const exec::Access& access, std::uint64_t address, std::uint64_t bytes);
  /// The counts in force at the end: on the way a warp may claim what another has yet to release.
  void check_register_budget(std::uint32_t cta);
  [[nodiscard]] std::string barrier_name(const Key& key) const;

  const exec::ClusterView& view_;
  Synchronisation& synchronisation_;
  exec::ReportSink& sink_;
  std::map<Key, Barrier> barriers_;  // live ones
  std::uint32_t completed_cluster_barriers_ = 0;
  struct RegisterLimit {
    std::uint32_t registers = 0;
    const exec::Instruction* instruction = nullptr;
  };
  std::vector<RegisterLimit> register_limits_;  // by warp
};

}  // namespace ptxemu::check
