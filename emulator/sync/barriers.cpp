// Named barriers of a CTA and the barrier of a cluster.
#include "exec/cluster.hpp"

namespace ptxemu::exec {
namespace {

/// Writes the reduction of bar.red to a waiting split.
void write_reduction(const NamedBarrier& barrier, const Warp& warp, const Split& split) {
  const Instruction& in = *split.waiting_at;
  if (!in.d.is_register()) return;
  if (in.d.width == ir::Width::predicate) {
    auto& target = *reinterpret_cast<LaneMask*>(warp.registers + in.d.offset);
    const bool result = in.flags == 1 ? barrier.vote_all != 0 : barrier.vote_any != 0;
    target = (target & ~split.lanes) | (result ? split.lanes : 0);
    return;
  }
  auto* out = reinterpret_cast<std::uint32_t*>(warp.registers + in.d.offset);
  for (LaneMask rest = split.lanes; rest != 0; rest &= rest - 1)
    out[std::countr_zero(rest)] = barrier.vote_count;
}

}  // namespace

void Cluster::arrive_named(Warp& warp, std::uint32_t id, std::uint32_t threads,
                           std::uint32_t arriving, LaneMask lanes, const Instruction& in) {
  NamedBarrier& barrier = warp.cta->barriers[id];
  const bool whole = threads == 0;
  if (barrier.arrived == 0) {
    barrier.expected = threads;
    barrier.whole_cta = whole;
  } else if (barrier.expected != threads) {
    context_.fault(
        ReportKind::barrier_protocol, in, lanes,
        "barrier " + std::to_string(id) + " is used with " +
            (whole ? "all threads of the CTA" : std::to_string(threads) + " threads") +
            " while others wait with " +
            (barrier.whole_cta ? "all threads" : std::to_string(barrier.expected) + " threads"));
  }
  barrier.arrived += whole ? static_cast<std::uint32_t>(std::popcount(lanes)) : arriving;
  barrier.last_arrival = &in;
  if (!whole && barrier.arrived > barrier.expected)
    context_.fault(ReportKind::barrier_protocol, in, lanes,
                   "barrier " + std::to_string(id) + " expects " +
                       std::to_string(barrier.expected) + " threads, but " +
                       std::to_string(barrier.arrived) + " arrive");
  note_progress();
}

void Cluster::open_named_if_complete(Cta& cta, std::uint32_t id) {
  NamedBarrier& barrier = cta.barriers[id];
  if (barrier.arrived == 0) return;
  const std::uint32_t needed = barrier.whole_cta ? cta.live_threads : barrier.expected;
  if (barrier.arrived < needed) return;
  if (observer_) {
    CtaBarrierEvent event;
    event.kind = CtaBarrierEvent::Kind::complete;
    event.cta = static_cast<std::uint8_t>(cta.rank);
    event.id = static_cast<std::uint8_t>(id);
    event.expected_threads = needed;
    event.instruction = barrier.last_arrival;
    observer_->on_cta_barrier(event);
  }
  for (const auto& [warp, split] : barrier.waiting) {
    write_reduction(barrier, *warp, *split);
    split->state = SplitState::ready;
  }
  barrier = NamedBarrier{};
  note_progress();
}

void Cluster::arrive_cluster(Warp& warp, LaneMask lanes) {
  for (LaneMask rest = lanes; rest != 0; rest &= rest - 1)
    warp.cluster_phase[static_cast<std::size_t>(std::countr_zero(rest))] = cluster_phase_ + 1;
  cluster_arrived_ += static_cast<std::uint32_t>(std::popcount(lanes));
  note_progress();
  open_cluster_if_complete();
}

void Cluster::open_cluster_if_complete() {
  if (cluster_arrived_ == 0 || cluster_arrived_ < cluster_live_) return;
  ++cluster_phase_;
  cluster_arrived_ = 0;
  if (observer_) {
    ClusterBarrierEvent event;
    event.kind = ClusterBarrierEvent::Kind::complete;
    observer_->on_cluster_barrier(event);
  }
  for (Cta& cta : ctas_) {
    for (Warp& warp : cta.warps) {
      for (const auto& split : warp.splits) {
        if (split->state == SplitState::cluster_barrier) split->state = SplitState::ready;
      }
    }
  }
  note_progress();
}

}  // namespace ptxemu::exec
