#include "check/synchronisation.hpp"

#include <algorithm>
#include <bit>

namespace ptxemu::check {

using exec::AgentKind;
using exec::BarrierEvent;
using ir::Semantics;

Synchronisation::Synchronisation(const exec::ClusterView& view, SyncVariables& global_variables)
    : warps_per_cta_(view.warps_per_cta()),
      cluster_(view.cluster_index()),
      order_(view.cta_count() * view.warps_per_cta()),
      global_variables_(global_variables),
      cluster_target_(view.cta_count() * view.warps_per_cta(), 0),
      unawaited_(view.cta_count() * view.warps_per_cta()),
      release_fence_(view.cta_count() * view.warps_per_cta()),
      observed_(view.cta_count() * view.warps_per_cta()),
      maps_acquired_(view.cta_count(), 0) {}

Synchronisation::Mbarrier& Synchronisation::mbarrier(std::uint8_t cta, std::uint32_t offset) {
  Mbarrier& barrier = mbarriers_[{cta, offset}];
  if (barrier.channel == 0) barrier.channel = order_.new_channel();
  return barrier;
}

Synchronisation::GroupChannels& Synchronisation::channels(AgentKind kind, std::uint32_t cta,
                                                          std::uint32_t warp) {
  GroupChannels& found = channels_[{kind, warp_id(cta, warp)}];
  if (found.reads == 0) {
    found.reads = order_.new_channel();
    found.writes = order_.new_channel();
  }
  return found;
}

void Synchronisation::arrive(const exec::MbarrierEvent& event, Mbarrier& barrier) {
  if (event.agent.kind == AgentKind::warp) {
    if (event.semantics == Semantics::relaxed) return;
    const AgentId warp = warp_id(event.agent.cta, event.agent.index);
    order_.release(warp, event.lanes, barrier.collecting);
  } else if (event.agent.kind == AgentKind::cp_async) {
    // cp.async.mbarrier.arrive: the copies that the warp has issued are done, nothing else is
    // promised.
    const GroupChannels& copies = channels(AgentKind::cp_async, event.agent.cta, event.agent.index);
    barrier.collecting.seen.see(copies.reads, copies.issued);
    barrier.collecting.seen.see(copies.writes, copies.issued);
    std::erase_if(unawaited_[warp_id(event.agent.cta, event.agent.index)], [](const auto& copy) {
      return copy->issue.completion == exec::Completion::cp_async_group;
    });
  }
}

void Synchronisation::on_mbarrier(const exec::MbarrierEvent& event) {
  Mbarrier& barrier = mbarrier(event.cta, event.offset);
  switch (event.event) {
    case BarrierEvent::init:
    case BarrierEvent::inval:
      barrier.collecting = {};
      barrier.last = nullptr;
      break;
    case BarrierEvent::arrive:
    case BarrierEvent::arrive_drop:
      arrive(event, barrier);
      break;
    case BarrierEvent::complete_tx:
      // Only the operation's own accesses become known to those who wait for this phase, not what
      // its issuer did before.
      if (const auto operation = this->operation(event.operation)) {
        const std::lock_guard lock(operation->completions_mutex);
        operation->completions.push_back({event.cta, barrier.channel, barrier.phases + 1});
      }
      break;
    case BarrierEvent::phase_complete:
      ++barrier.phases;
      barrier.last = std::make_shared<Knowledge>(std::move(barrier.collecting));
      barrier.collecting = {};
      break;
    case BarrierEvent::wait_success: {
      if (event.agent.kind != AgentKind::warp || barrier.last == nullptr) break;
      const AgentId warp = warp_id(event.agent.cta, event.agent.index);
      order_.see(warp, event.lanes, barrier.channel, barrier.phases);
      if (event.semantics != Semantics::relaxed) order_.acquire(warp, event.lanes, *barrier.last);
      break;
    }
    case BarrierEvent::expect_tx:
    case BarrierEvent::wait_fail:
    case BarrierEvent::wait_blocked:
      break;
  }
}

void Synchronisation::on_cta_barrier(const exec::CtaBarrierEvent& event) {
  using Kind = exec::CtaBarrierEvent::Kind;
  ThreadBarrier& barrier = cta_barriers_[{event.cta, event.id}];
  if (event.kind == Kind::complete) {
    for (const auto& [warp, lanes] : barrier.waiting) {
      order_.acquire(warp, lanes, barrier.collecting);
    }
    barrier.waiting.clear();
    barrier.collecting = {};
    return;
  }
  const AgentId warp = warp_id(event.cta, event.warp);
  order_.release(warp, event.lanes, barrier.collecting);
  if (event.kind == Kind::wait) {
    order_.meet(warp, event.lanes);
    barrier.waiting.emplace_back(warp, event.lanes);
  }
}

void Synchronisation::on_cluster_barrier(const exec::ClusterBarrierEvent& event) {
  using Kind = exec::ClusterBarrierEvent::Kind;
  ThreadBarrier& barrier = cluster_barrier_;
  const AgentId warp = warp_id(event.cta, event.warp);
  switch (event.kind) {
    case Kind::arrive:
      if (event.semantics != Semantics::relaxed) {
        order_.release(warp, event.lanes, barrier.collecting);
      }
      cluster_target_[warp] = barrier.completed + 1;
      break;
    case Kind::wait:
      if (barrier.completed >= cluster_target_[warp]) {
        order_.acquire(warp, event.lanes, barrier.last);
      } else {
        barrier.waiting.emplace_back(warp, event.lanes);
      }
      break;
    case Kind::complete:
      ++barrier.completed;
      barrier.last = std::move(barrier.collecting);
      barrier.collecting = {};
      for (const auto& [waiter, lanes] : barrier.waiting) {
        order_.acquire(waiter, lanes, barrier.last);
      }
      barrier.waiting.clear();
      break;
  }
}

void Synchronisation::on_fence(const exec::FenceEvent& event) {
  if (event.agent.kind != AgentKind::warp) return;
  const AgentId warp = warp_id(event.agent.cta, event.agent.index);
  switch (event.kind) {
    case exec::FenceKind::memory: {
      std::vector<SyncVariables::Released>& observed = observed_[warp];
      for (const auto& [home, knowledge] : observed) {
        order_.acquire_from(warp, event.lanes, home, knowledge, cluster_);
      }
      observed.clear();
      release_fence_[warp] = order_.snapshot(warp, event.lanes);
      order_.close_interval(warp);
      break;
    }
    case exec::FenceKind::proxy_async:
      order_.fence_async(warp, event.lanes,
                         {event.space != ir::Space::global,
                          event.space == ir::Space::global || event.space == ir::Space::generic});
      break;
    case exec::FenceKind::proxy_tensormap_acquire:
      maps_acquired_[event.agent.cta] = next_sequence();
      break;
    case exec::FenceKind::proxy_alias:
    case exec::FenceKind::proxy_tensormap_release:
    case exec::FenceKind::mbarrier_init:
    case exec::FenceKind::wgmma:
      break;
  }
}

void Synchronisation::on_async_issue(const exec::AsyncIssue& issue) {
  auto operation = std::make_shared<Operation>();
  operation->issue = issue;
  operation->sequence = next_sequence();
  operation->issuer = warp_id(issue.cta, issue.warp);
  // A wgmma is issued by the four warps of a warpgroup, `warp` being the last to come.
  const bool warpgroup = issue.agent.kind == AgentKind::tensor_core;
  const std::uint32_t first = warpgroup ? issue.warp / 4u * 4u : issue.warp;
  GroupChannels& group = channels(issue.agent.kind, issue.cta, first);
  operation->read_channel = group.reads;
  operation->write_channel = group.writes;
  operation->time = ++group.issued;
  for (std::uint32_t warp = first; warp < first + (warpgroup ? 4u : 1u); ++warp) {
    const AgentId agent = warp_id(issue.cta, warp);
    operation->knowledge.push_back(order_.snapshot(agent, warpgroup ? ir::kFullMask : issue.lanes));
    order_.close_interval(agent);
  }
  if (issue.completion == exec::Completion::bulk_group ||
      issue.completion == exec::Completion::cp_async_group) {
    unawaited_[operation->issuer].push_back(operation);
  }
  operations_[issue.operation] = std::move(operation);
  if (operations_.size() > operations_to_keep_) forget_finished_operations();
}

void Synchronisation::forget_finished_operations() {
  std::erase_if(operations_, [](const auto& entry) {
    const Operation& operation = *entry.second;
    if (!operation.writes_done) return false;
    return operation.issue.completion == exec::Completion::mbarrier ? !operation.completions.empty()
                                                                    : operation.writes_awaited;
  });
  operations_to_keep_ = 2 * operations_.size() + 4096;
}

void Synchronisation::on_async_stage(std::uint64_t id, exec::AsyncStage stage) {
  const auto operation = this->operation(id);
  if (operation == nullptr) return;
  if (stage == exec::AsyncStage::reads_done) operation->reads_done = true;
  if (stage == exec::AsyncStage::writes_done) {
    operation->reads_done = operation->writes_done = true;
    operation->knowledge.clear();
  }
}

void Synchronisation::on_group(const exec::GroupEvent& event) {
  if (!event.wait) return;
  const AgentId warp = warp_id(event.cta, event.warp);
  for (const std::uint64_t id : event.operations) {
    const auto operation = this->operation(id);
    if (operation == nullptr) continue;
    operation->reads_awaited = true;
    order_.see(warp, event.lanes, operation->read_channel, operation->time);
    if (event.reads_only) continue;
    operation->writes_awaited = true;
    order_.see(warp, event.lanes, operation->write_channel, operation->time);
  }
  std::erase_if(unawaited_[warp], [](const auto& operation) {
    return operation->issue.completion == exec::Completion::bulk_group ? operation->reads_awaited
                                                                       : operation->writes_awaited;
  });
}

void Synchronisation::on_warp_sync(const exec::WarpSyncEvent& event) {
  if (event.orders_memory) order_.meet(warp_id(event.cta, event.warp), event.lanes);
}

void Synchronisation::on_strong_access(const exec::Access& access) {
  const AgentId warp = warp_id(access.agent.cta, access.agent.index);
  const bool shared = access.space == ir::Space::shared;
  SyncVariables& variables = shared ? shared_variables_ : global_variables_;
  const std::uint64_t own_cta = (cluster_ << 8 | access.agent.cta) + 1;
  const bool cta_scope = access.scope == ir::Scope::cta;
  const bool writes = access.kind != exec::AccessKind::read;
  const bool reads = access.kind != exec::AccessKind::write;
  const Semantics semantics = access.semantics;
  const bool sequential = semantics == Semantics::acq_rel || semantics == Semantics::seq_cst;

  std::shared_ptr<const Knowledge> released;
  if (writes && (sequential || semantics == Semantics::release)) {
    released = order_.snapshot(warp, access.lanes);
    order_.close_interval(warp);
  } else if (writes) {
    released = release_fence_[warp];
  }
  std::vector<SyncVariables::Released> found;
  for (LaneMask lanes = access.lanes; lanes != 0; lanes &= lanes - 1) {
    const auto lane = static_cast<unsigned>(std::countr_zero(lanes));
    std::uint64_t address = access.addresses[lane];
    if (shared) address |= std::uint64_t{access.cta} << 32;
    if (reads) {
      variables.collect({address, 0}, found);
      variables.collect({address, own_cta}, found);
    }
    if (released != nullptr) {
      variables.release({address, cta_scope ? own_cta : 0}, cluster_, released);
    }
  }
  if (sequential || semantics == Semantics::acquire) {
    for (const auto& [home, knowledge] : found) {
      order_.acquire_from(warp, access.lanes, home, knowledge, cluster_);
    }
  } else {
    observed_[warp].insert(observed_[warp].end(), found.begin(), found.end());
  }
}

std::shared_ptr<Operation> Synchronisation::operation(std::uint64_t id) const {
  const auto found = operations_.find(id);
  return found == operations_.end() ? nullptr : found->second;
}

bool Synchronisation::knows_completion(const VectorClock& clock, const Operation& operation,
                                       bool reads, std::uint8_t cta) {
  if (operation.issue.completion == exec::Completion::mbarrier) {
    const std::lock_guard lock(operation.completions_mutex);
    return std::any_of(operation.completions.begin(), operation.completions.end(),
                       [&](const Operation::Completion& completion) {
                         return (reads || completion.cta == cta) &&
                                clock.covers(completion.channel, completion.time);
                       });
  }
  return clock.covers(reads ? operation.read_channel : operation.write_channel, operation.time);
}

}  // namespace ptxemu::check
