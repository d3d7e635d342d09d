// Feeds checkers with hand-made events, as the machine would send them.
#pragma once

#include <array>
#include <bit>
#include <deque>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "check/checker.hpp"

namespace ptxemu::check::testing {

using exec::Access;
using exec::AccessKind;
using exec::Agent;
using exec::AgentKind;
using exec::BarrierEvent;
using exec::Instruction;
using exec::Proxy;
using ir::LaneMask;

struct FakeView final : exec::ClusterView {
  std::uint32_t ctas = 1, warps = 2;
  std::uint64_t index = 0;
  std::vector<std::byte> shared = std::vector<std::byte>(4096);
  std::vector<std::byte> bank = std::vector<std::byte>(16384);

  std::uint32_t cta_count() const override { return ctas; }
  std::uint32_t warps_per_cta() const override { return warps; }
  std::uint64_t cluster_index() const override { return index; }
  Dim3 cta_id(std::uint32_t rank) const override {
    return {static_cast<std::uint32_t>(index) * ctas + rank, 0, 0};
  }
  std::span<const std::byte> shared_memory(std::uint32_t) const override { return shared; }
  std::uint32_t register_bytes() const override { return static_cast<std::uint32_t>(bank.size()); }
  const std::byte* registers(std::uint32_t, std::uint32_t) const override { return bank.data(); }
  const std::byte* constants() const override { return bank.data(); }
  std::string shared_name(std::uint32_t) const override { return "tile"; }
};

struct Sink final : exec::ReportSink {
  std::vector<std::pair<ReportKind, std::string>> reports;
  void add(ReportKind kind, const Instruction*, std::string message, const Instruction*) override {
    reports.emplace_back(kind, std::move(message));
  }
  /// The kinds reported since the last call.
  std::vector<ReportKind> take() {
    std::vector<ReportKind> kinds;
    for (const auto& report : reports) kinds.push_back(report.first);
    reports.clear();
    return kinds;
  }
};

/// One cluster under test. Every call is one event.
class Cluster {
 public:
  explicit Cluster(exec::LaunchObserver& launch, std::uint32_t ctas = 1, std::uint32_t warps = 2,
                   std::uint64_t index = 0) {
    view.ctas = ctas;
    view.warps = warps;
    view.index = index;
    observer = launch.begin_cluster(view);
    for (std::uint32_t cta = 0; cta < ctas; ++cta) {
      for (std::uint32_t warp = 0; warp < warps; ++warp) run(cta, warp, start);
    }
  }

  static Agent warp_agent(std::uint32_t cta, std::uint32_t warp) {
    return {AgentKind::warp, static_cast<std::uint8_t>(cta), static_cast<std::uint16_t>(warp)};
  }

  void run(std::uint32_t cta, std::uint32_t warp, const Instruction& instruction,
           LaneMask lanes = ir::kFullMask) {
    observer->on_instruction(cta, warp, lanes, instruction);
  }

  /// Lane l of the warp accesses 4 bytes at `offset` + 4 l of shared memory.
  void access(std::uint32_t cta, std::uint32_t warp, AccessKind kind, std::uint64_t offset,
              LaneMask lanes = ir::kFullMask, std::uint32_t owner = 0) {
    Access event;
    event.agent = warp_agent(cta, warp);
    event.space = ir::Space::shared;
    event.cta = static_cast<std::uint8_t>(owner);
    event.kind = kind;
    event.instruction = kind == AccessKind::read ? &load : &store;
    event.lanes = lanes;
    event.bytes = 4;
    for (std::size_t lane = 0; lane < 32; ++lane) addresses_[lane] = offset + 4 * lane;
    event.addresses = addresses_;
    event.to_registers = kind == AccessKind::read;
    observer->on_access(event);
  }
  void read(std::uint32_t warp, std::uint64_t offset, LaneMask lanes = ir::kFullMask) {
    access(0, warp, AccessKind::read, offset, lanes);
  }
  void write(std::uint32_t warp, std::uint64_t offset, LaneMask lanes = ir::kFullMask) {
    access(0, warp, AccessKind::write, offset, lanes);
  }

  /// Lane 0 accesses 4 bytes of global memory.
  void global(std::uint32_t warp, AccessKind kind, std::uint64_t address,
              ir::Semantics semantics = ir::Semantics::weak, ir::Scope scope = ir::Scope::gpu) {
    Access event;
    event.agent = warp_agent(0, warp);
    event.space = ir::Space::global;
    event.kind = kind;
    event.semantics = semantics;
    event.scope = scope;
    event.instruction = kind == AccessKind::read ? &load : &store;
    event.lanes = 1;
    event.bytes = 4;
    addresses_.fill(address);
    event.addresses = addresses_;
    observer->on_access(event);
  }

  void cta_barrier(std::vector<std::uint32_t> warps, std::uint32_t cta = 0) {
    exec::CtaBarrierEvent event;
    event.cta = static_cast<std::uint8_t>(cta);
    event.lanes = ir::kFullMask;
    event.kind = exec::CtaBarrierEvent::Kind::wait;
    for (const std::uint32_t warp : warps) {
      event.warp = static_cast<std::uint16_t>(warp);
      observer->on_cta_barrier(event);
    }
    event.kind = exec::CtaBarrierEvent::Kind::complete;
    observer->on_cta_barrier(event);
  }

  void warp_sync(std::uint32_t warp, LaneMask lanes = ir::kFullMask) {
    exec::WarpSyncEvent event;
    event.warp = static_cast<std::uint16_t>(warp);
    event.lanes = lanes;
    event.orders_memory = true;
    event.instruction = &start;
    observer->on_warp_sync(event);
  }

  void fence(std::uint32_t warp, exec::FenceKind kind, LaneMask lanes = ir::kFullMask,
             std::uint32_t cta = 0) {
    exec::FenceEvent event;
    event.kind = kind;
    event.agent = warp_agent(cta, warp);
    event.lanes = lanes;
    event.instruction = &start;
    observer->on_fence(event);
  }

  void mbarrier(BarrierEvent kind, std::uint32_t offset, std::uint32_t warp, LaneMask lanes = 1,
                std::uint64_t operation = 0, std::uint32_t cta = 0, std::uint32_t owner = 0,
                std::int32_t transaction_bytes = 0) {
    exec::MbarrierEvent event;
    event.event = kind;
    event.agent = warp_agent(cta, warp);
    if (operation != 0) event.agent.kind = AgentKind::bulk_copy;
    event.cta = static_cast<std::uint8_t>(owner);
    event.offset = offset;
    event.lanes = lanes;
    event.operation = operation;
    event.instruction = &start;
    event.transaction_bytes = transaction_bytes;
    observer->on_mbarrier(event);
  }

  /// Announces an asynchronous operation.
  void issue(std::uint64_t operation, AgentKind kind, exec::Completion completion,
             std::uint32_t warp, const Instruction& instruction, LaneMask lanes = 1) {
    exec::AsyncIssue event;
    event.operation = operation;
    event.agent = {kind, 0, static_cast<std::uint16_t>(warp)};
    event.warp = static_cast<std::uint16_t>(warp);
    event.lanes = lanes;
    event.completion = completion;
    event.instruction = &instruction;
    observer->on_async_issue(event);
    kinds_[operation] = kind;
  }
  void async_access(std::uint64_t operation, AccessKind kind, std::uint64_t address,
                    std::uint64_t bytes, ir::Space space = ir::Space::shared) {
    const Access::Range range{address, bytes};
    Access event;
    event.agent = {kinds_[operation], 0, 0};
    event.proxy = kinds_[operation] == AgentKind::cp_async ? Proxy::generic : Proxy::async;
    event.space = space;
    event.kind = kind;
    event.instruction = &copy;
    event.operation = operation;
    event.ranges = {&range, 1};
    observer->on_access(event);
  }
  void finish(std::uint64_t operation) {
    observer->on_async_stage(operation, exec::AsyncStage::reads_done);
    observer->on_async_stage(operation, exec::AsyncStage::writes_done);
  }
  void wait_group(exec::GroupKind kind, std::uint32_t warp, std::vector<std::uint64_t> operations,
                  bool reads_only = false, LaneMask lanes = 1) {
    exec::GroupEvent event;
    event.kind = kind;
    event.wait = true;
    event.reads_only = reads_only;
    event.warp = static_cast<std::uint16_t>(warp);
    event.lanes = lanes;
    event.operations = operations;
    event.instruction = &start;
    observer->on_group(event);
  }

  FakeView view;
  std::unique_ptr<exec::ClusterObserver> observer;
  Instruction start, load, store, copy;

 private:
  std::array<std::uint64_t, 32> addresses_{};
  std::map<std::uint64_t, AgentKind> kinds_;
};

}  // namespace ptxemu::check::testing
