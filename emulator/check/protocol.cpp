#include "check/protocol.hpp"

#include <bit>

#include "check/describe.hpp"

namespace ptxemu::check {

using exec::AgentKind;
using exec::BarrierEvent;

namespace {
constexpr std::uint32_t kBarrierBytes = 8;
/// 32-bit registers of a multiprocessor, all of which one CTA may own.
constexpr std::uint32_t kRegisters = 65536;
}  // namespace

Protocol::Protocol(const exec::ClusterView& view, Synchronisation& synchronisation,
                   exec::ReportSink& sink)
    : view_(view),
      synchronisation_(synchronisation),
      sink_(sink),
      register_limits_(view.cta_count() * view.warps_per_cta()) {}

std::string Protocol::barrier_name(const Key& key) const {
  return "mbarrier at " + describe_place(view_, true, key.first, key.second);
}

void Protocol::on_access(const exec::Access& access) {
  if (access.space != ir::Space::shared || barriers_.empty()) return;
  if (access.operation != 0) {
    for (const exec::Access::Range& range : access.ranges) {
      check_bytes(access, range.address, range.bytes);
    }
    return;
  }
  for (LaneMask lanes = access.lanes; lanes != 0; lanes &= lanes - 1) {
    check_bytes(access, access.addresses[static_cast<unsigned>(std::countr_zero(lanes))],
                access.bytes);
  }
}

void Protocol::check_bytes(const exec::Access& access, std::uint64_t address, std::uint64_t bytes) {
  if (access.kind == exec::AccessKind::read) return;  // harmless, and debuggers do it
  const auto offset = static_cast<std::uint32_t>(address);
  auto barrier =
      barriers_.lower_bound({access.cta, offset < kBarrierBytes ? 0 : offset - kBarrierBytes + 1});
  if (barrier == barriers_.end() || barrier->first.first != access.cta) return;
  if (barrier->first.second >= address + bytes) return;
  sink_.add(ReportKind::barrier_protocol, access.instruction,
            "data is written over the live " + barrier_name(barrier->first) +
                ": missing mbarrier.inval, or the buffers overlap",
            barrier->second.init);
  barriers_.erase(barrier);
}

void Protocol::initialise(const exec::MbarrierEvent& event) {
  const Key key{event.cta, event.offset};
  const auto live = barriers_.find(key);
  if (live != barriers_.end()) {
    sink_.add(ReportKind::barrier_protocol, event.instruction,
              "the live " + barrier_name(key) +
                  " is initialised again: missing mbarrier.inval, or two threads "
                  "initialise it",
              live->second.init);
  }
  Barrier barrier;
  barrier.init = barrier.last = event.instruction;
  barrier.initialiser = synchronisation_.warp_id(event.agent.cta, event.agent.index);
  barrier.cta = event.agent.cta;
  barrier.lane = static_cast<unsigned>(std::countr_zero(event.lanes)) % ir::kWarpSize;
  barrier.time = synchronisation_.order().time_of_access(barrier.initialiser);
  barrier.pending = barrier.expected = event.expected;
  barriers_[key] = barrier;
}

void Protocol::check_use(const exec::MbarrierEvent& event, Barrier& barrier) {
  if (event.agent.kind != AgentKind::warp) return;
  const AgentId warp = synchronisation_.warp_id(event.agent.cta, event.agent.index);
  const auto lane = static_cast<unsigned>(std::countr_zero(event.lanes)) % ir::kWarpSize;
  if (warp == barrier.initialiser && lane == barrier.lane) return;
  const Knowledge& knowledge = synchronisation_.order().of(warp, lane);
  if (knowledge.seen.covers(barrier.initialiser, barrier.time, barrier.lane)) return;
  const bool remote = event.agent.cta != barrier.cta;
  // A relaxed cluster barrier publishes an initialisation that fence.mbarrier_init has released.
  if (barrier.fenced && completed_cluster_barriers_ > barrier.cluster_barriers) return;
  sink_.add(remote && !barrier.fenced ? ReportKind::missing_fence : ReportKind::barrier_protocol,
            event.instruction,
            describe_lanes(view_.cta_id(event.agent.cta), event.agent.index, event.lanes) +
                " uses the " + barrier_name({event.cta, event.offset}) +
                " whose initialisation it cannot see: missing " +
                (remote ? "fence.mbarrier_init.release.cluster and a cluster barrier"
                        : "a barrier (bar.sync) after mbarrier.init"),
            barrier.init);
}

void Protocol::on_mbarrier(const exec::MbarrierEvent& event) {
  if (event.event == BarrierEvent::init) {
    initialise(event);
    return;
  }
  const Key key{event.cta, event.offset};
  const auto found = barriers_.find(key);
  if (found == barriers_.end()) return;  // the machine reports uses of what is no barrier
  Barrier& barrier = found->second;
  check_use(event, barrier);
  if (event.event == BarrierEvent::inval) {
    if (event.transaction_bytes != 0 || barrier.transaction_bytes != 0) {
      sink_.add(ReportKind::barrier_protocol, event.instruction,
                barrier_name(key) + " is invalidated with " +
                    std::to_string(barrier.transaction_bytes) + " transaction bytes outstanding",
                barrier.last_expect);
    }
    barriers_.erase(found);
    return;
  }
  track_waiters(event, barrier);
  barrier.pending = event.pending;
  barrier.expected = event.expected;
  barrier.transaction_bytes = event.transaction_bytes;
  if (event.event == BarrierEvent::expect_tx) barrier.last_expect = event.instruction;
  if (event.instruction != nullptr) barrier.last = event.instruction;
}

void Protocol::track_waiters(const exec::MbarrierEvent& event, Barrier& barrier) {
  if (event.event == BarrierEvent::phase_complete) {
    ++barrier.phases;
    for (auto& [warp, waiter] : barrier.waiters) {
      if (waiter.lanes == 0 || barrier.phases < waiter.phase + 2) continue;
      sink_.add(ReportKind::barrier_protocol, event.instruction,
                "the " + barrier_name({event.cta, event.offset}) + " completes phase " +
                    std::to_string(barrier.phases) + " while warp " +
                    std::to_string(warp % view_.warps_per_cta()) + " has yet to see that phase " +
                    std::to_string(waiter.phase + 1) +
                    " is complete: its parity has come round again and the warp will wait for a "
                    "later phase; the arrivals must depend on every waiter",
                barrier.init);
      waiter.lanes = 0;
    }
    return;
  }
  if (event.agent.kind != AgentKind::warp) return;
  const AgentId warp = synchronisation_.warp_id(event.agent.cta, event.agent.index);
  if (event.event == BarrierEvent::wait_blocked) {
    barrier.waiters[warp] = {event.lanes, barrier.phases};
  } else if (event.event == BarrierEvent::wait_success || event.event == BarrierEvent::wait_fail) {
    const auto found = barrier.waiters.find(warp);
    if (found != barrier.waiters.end()) found->second.lanes &= ~event.lanes;
  }
}

void Protocol::on_fence(const exec::FenceEvent& event) {
  if (event.agent.kind != AgentKind::warp) return;
  const bool publishes = event.kind == exec::FenceKind::mbarrier_init ||
                         event.kind == exec::FenceKind::proxy_async ||
                         event.kind == exec::FenceKind::memory;
  if (!publishes) return;
  const AgentId warp = synchronisation_.warp_id(event.agent.cta, event.agent.index);
  for (auto& [key, barrier] : barriers_) {
    if (barrier.initialiser != warp || barrier.fenced) continue;
    barrier.fenced = true;
    barrier.cluster_barriers = completed_cluster_barriers_;
  }
}

void Protocol::on_cluster_barrier(const exec::ClusterBarrierEvent& event) {
  if (event.kind == exec::ClusterBarrierEvent::Kind::complete) ++completed_cluster_barriers_;
}

void Protocol::on_register_limit(std::uint32_t cta, std::uint32_t warp, std::uint32_t registers,
                                 const exec::Instruction& instruction) {
  register_limits_[synchronisation_.warp_id(cta, warp)] = {registers, &instruction};
}

void Protocol::check_register_budget(std::uint32_t cta) {
  std::uint64_t sum = 0;
  const exec::Instruction* largest = nullptr;
  std::uint32_t most = 0;
  for (std::uint32_t warp = 0; warp < view_.warps_per_cta(); ++warp) {
    const RegisterLimit& limit = register_limits_[synchronisation_.warp_id(cta, warp)];
    if (limit.instruction == nullptr) return;  // an unknown share: not judged
    sum += std::uint64_t{limit.registers} * ir::kWarpSize;
    if (limit.registers > most) {
      most = limit.registers;
      largest = limit.instruction;
    }
  }
  if (sum <= kRegisters) return;
  sink_.add(ReportKind::register_budget, largest,
            "the setmaxnreg counts of the CTA's warps ask for " + std::to_string(sum) +
                " registers, the "
                "multiprocessor has " +
                std::to_string(kRegisters) + ": the last setmaxnreg.inc would wait forever");
}

void Protocol::on_lanes_exit(std::uint32_t cta, std::uint32_t warp, LaneMask lanes) {
  for (const auto& operation : synchronisation_.unawaited(synchronisation_.warp_id(cta, warp))) {
    const exec::AsyncIssue& issue = operation->issue;
    if ((issue.lanes & lanes) == 0) continue;
    const bool bulk = issue.completion == exec::Completion::bulk_group;
    sink_.add(
        ReportKind::left_pending, issue.instruction,
        describe_lanes(view_.cta_id(cta), warp, issue.lanes) + " exits while its " +
            (bulk
                 ? "bulk copy may still read shared memory: missing cp.async.bulk.commit_group and "
                   "cp.async.bulk.wait_group.read 0"
                 : "cp.async may still write shared memory: missing cp.async.wait_all"));
  }
}

void Protocol::on_cluster_end() {
  for (std::uint32_t cta = 0; cta < view_.cta_count(); ++cta) check_register_budget(cta);
  for (const auto& [key, barrier] : barriers_) {
    if (barrier.transaction_bytes == 0) continue;
    sink_.add(ReportKind::left_pending,
              barrier.last_expect != nullptr ? barrier.last_expect : barrier.last,
              barrier_name(key) + " ends with a transaction count of " +
                  std::to_string(barrier.transaction_bytes) +
                  " bytes: the bytes expected and the bytes that copies delivered differ",
              barrier.init);
  }
}

}  // namespace ptxemu::check
