#include "check/checker.hpp"

#include <optional>
#include <vector>

#include "check/protocol.hpp"
#include "check/races.hpp"
#include "check/uninitialised.hpp"
#include "check/wgmma_registers.hpp"

namespace ptxemu::check {
namespace {

using exec::AgentKind;
using exec::Instruction;

/// Passes one cluster's events to the parts that are switched on. Happens-before is always tracked;
/// memory order comes first so that the others see the state after the event.
class ClusterChecker final : public exec::ClusterObserver {
 public:
  ClusterChecker(const Checks& checks, const exec::ClusterView& view, SyncVariables& variables,
                 GlobalShadow& global, exec::ReportSink& sink)
      : view_(view), synchronisation_(view, variables) {
    const std::size_t warps = std::size_t{view.cta_count()} * view.warps_per_cta();
    registers_.reserve(warps);
    for (std::size_t warp = 0; warp < warps; ++warp) registers_.emplace_back(view.register_bytes());
    if (checks.races) races_.emplace(view, synchronisation_, global, sink);
    if (checks.uninitialised) uninitialised_.emplace(view, synchronisation_, global, sink);
    if (checks.protocol) {
      protocol_.emplace(view, synchronisation_, sink);
      wgmma_.emplace(view, synchronisation_, sink);
    }
  }

  void on_instruction(std::uint32_t cta, std::uint32_t warp, LaneMask lanes,
                      const Instruction& instruction) override {
    const AgentId agent = synchronisation_.warp_id(cta, warp);
    synchronisation_.order().appear(agent, lanes);
    if (wgmma_) wgmma_->on_instruction(cta, warp, lanes, instruction, registers_[agent]);
    if (uninitialised_) {
      uninitialised_->on_instruction(cta, warp, lanes, instruction, registers_[agent]);
    }
  }

  void on_access(const exec::Access& access) override {
    const bool synchronous = access.operation == 0 && access.agent.kind == AgentKind::warp;
    const bool strong =
        access.kind == exec::AccessKind::atomic || access.semantics != ir::Semantics::weak;
    if (races_) races_->on_access(access);
    if (synchronous && strong) synchronisation_.on_strong_access(access);
    if (protocol_) protocol_->on_access(access);
    if (uninitialised_) {
      uninitialised_->on_access(
          access, synchronous
                      ? &registers_[synchronisation_.warp_id(access.agent.cta, access.agent.index)]
                      : nullptr);
    }
  }

  void on_mbarrier(const exec::MbarrierEvent& event) override {
    synchronisation_.on_mbarrier(event);
    if (protocol_) protocol_->on_mbarrier(event);
    if (uninitialised_) uninitialised_->on_mbarrier(event);
  }

  void on_cta_barrier(const exec::CtaBarrierEvent& event) override {
    synchronisation_.on_cta_barrier(event);
  }

  void on_cluster_barrier(const exec::ClusterBarrierEvent& event) override {
    synchronisation_.on_cluster_barrier(event);
    if (protocol_) protocol_->on_cluster_barrier(event);
  }

  void on_fence(const exec::FenceEvent& event) override {
    synchronisation_.on_fence(event);
    if (protocol_) protocol_->on_fence(event);
    if (wgmma_) wgmma_->on_fence(event);
  }

  void on_async_issue(const exec::AsyncIssue& issue) override {
    synchronisation_.on_async_issue(issue);
    if (wgmma_) wgmma_->on_async_issue(issue);
  }

  void on_async_stage(std::uint64_t id, exec::AsyncStage stage) override {
    const auto operation = synchronisation_.operation(id);
    if (uninitialised_ && operation != nullptr && stage == exec::AsyncStage::writes_done &&
        operation->issue.agent.kind == AgentKind::tensor_core) {
      const std::uint32_t first = operation->issue.warp / 4u * 4u;
      for (std::uint32_t warp = first; warp < first + 4; ++warp) {
        uninitialised_->on_wgmma_done(
            *operation, registers_[synchronisation_.warp_id(operation->issue.cta, warp)]);
      }
    }
    synchronisation_.on_async_stage(id, stage);
  }

  void on_group(const exec::GroupEvent& event) override {
    synchronisation_.on_group(event);
    if (wgmma_) wgmma_->on_group(event);
  }

  void on_warp_sync(const exec::WarpSyncEvent& event) override {
    synchronisation_.on_warp_sync(event);
    if (uninitialised_) {
      uninitialised_->on_exchange(event,
                                  registers_[synchronisation_.warp_id(event.cta, event.warp)]);
    }
  }

  void on_register_limit(std::uint32_t cta, std::uint32_t warp, std::uint32_t registers,
                         const Instruction& instruction) override {
    if (protocol_) protocol_->on_register_limit(cta, warp, registers, instruction);
  }

  void on_lanes_exit(std::uint32_t cta, std::uint32_t warp, LaneMask lanes) override {
    if (protocol_) protocol_->on_lanes_exit(cta, warp, lanes);
    if (wgmma_) wgmma_->on_lanes_exit(cta, warp, lanes);
    synchronisation_.order().leave(synchronisation_.warp_id(cta, warp), lanes);
  }

  void on_cluster_end() override {
    if (protocol_) protocol_->on_cluster_end();
  }

 private:
  const exec::ClusterView& view_;
  Synchronisation synchronisation_;
  std::vector<RegisterShadow> registers_;  // by warp
  std::optional<Races> races_;
  std::optional<Uninitialised> uninitialised_;
  std::optional<Protocol> protocol_;
  std::optional<WgmmaRegisters> wgmma_;
};

class LaunchChecker final : public exec::LaunchObserver {
 public:
  LaunchChecker(const Checks& checks, exec::ReportSink& sink) : checks_(checks), sink_(sink) {}

  std::unique_ptr<exec::ClusterObserver> begin_cluster(const exec::ClusterView& view) override {
    return std::make_unique<ClusterChecker>(checks_, view, variables_, global_, sink_);
  }
  void on_kernel_end() override {
    global_.end_kernel();
    variables_.clear();
  }
  void on_global_allocate(DevicePointer address, std::uint64_t bytes, bool initialised) override {
    global_.allocate(address, bytes, initialised);
  }
  void on_global_free(DevicePointer address) override { global_.free(address); }
  void on_host_write(DevicePointer address, std::uint64_t bytes) override {
    global_.set_initialised(address, bytes);
  }

 private:
  Checks checks_;
  exec::ReportSink& sink_;
  SyncVariables variables_;
  GlobalShadow global_;
};

}  // namespace

std::unique_ptr<exec::LaunchObserver> make_checker(const Checks& checks, exec::ReportSink& sink) {
  return std::make_unique<LaunchChecker>(checks, sink);
}

}  // namespace ptxemu::check
