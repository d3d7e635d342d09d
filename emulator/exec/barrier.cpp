// bar, barrier.cluster, fences.
#include "exec/cluster.hpp"
#include "exec/opcodes.hpp"

namespace ptxemu::exec {
namespace {

using ir::Decode;
using ir::Type;
using U32 = std::uint32_t;

// Instruction::detail of the CTA barriers.
constexpr U32 kAligned = 1, kWaits = 2;
// Instruction::flags of bar.red.
constexpr U32 kRedAnd = 1, kRedOr = 2, kRedPopc = 3;

void tell(Context& c, const Instruction& in, LaneMask lanes, CtaBarrierEvent::Kind kind, U32 id,
          U32 threads) {
  if (c.observer == nullptr) return;
  CtaBarrierEvent event;
  event.kind = kind;
  event.cta = static_cast<std::uint8_t>(c.cta->rank);
  event.warp = static_cast<std::uint16_t>(c.warp->index);
  event.id = static_cast<std::uint8_t>(id);
  event.expected_threads = threads;
  event.lanes = lanes;
  event.instruction = &in;
  c.observer->on_cta_barrier(event);
}

Action cta_barrier(Context& c, const Instruction& in, LaneMask lanes) {
  const bool aligned = (in.detail & kAligned) != 0;
  const bool waits = (in.detail & kWaits) != 0;
  if (aligned && !c.converge_warp(in, lanes, false)) return Action::block;
  // Lanes may name different barriers: one after the other.
  for (LaneMask rest = lanes; rest != 0;) {
    const U32 id = c.uniform(in.a, rest);
    const U32 threads = in.b.present() ? c.uniform(in.b, rest) : 0;
    LaneMask same = 0;
    for (LaneMask r = rest; r != 0; r &= r - 1) {
      const LaneMask lane = r & (0 - r);
      if (c.uniform(in.a, lane) == id && (!in.b.present() || c.uniform(in.b, lane) == threads))
        same |= lane;
    }
    if (id >= c.cta->barriers.size())
      c.fault(ReportKind::barrier_protocol, in, same,
              "barrier number " + std::to_string(id) + " is not in 0 … 15");
    if (in.b.present() && (threads == 0 || threads % kWarpSize != 0))
      c.fault(ReportKind::barrier_protocol, in, same,
              "the thread count " + std::to_string(threads) + " is not a positive multiple of 32");
    if (same != rest && waits)
      c.fault(ReportKind::barrier_protocol, in, same,
              "lanes of one warp wait at different barriers in one instruction");
    rest &= ~same;
    NamedBarrier& barrier = c.cta->barriers[id];
    const U32 arriving = aligned ? kWarpSize : static_cast<U32>(std::popcount(same));
    c.cluster->arrive_named(*c.warp, id, threads, arriving, same, in);
    if (in.flags != 0) {
      const LaneMask votes = c.predicate(in.c) & same;
      if (votes != same) barrier.vote_all = 0;
      barrier.vote_any |= votes;
      barrier.vote_count += static_cast<U32>(std::popcount(votes));
    }
    tell(c, in, same, waits ? CtaBarrierEvent::Kind::wait : CtaBarrierEvent::Kind::arrive, id,
         threads);
    if (waits) {
      c.isolate(same);
      c.split->state = SplitState::cta_barrier;
      c.split->waiting_at = &in;
      c.split->barrier = id;
      barrier.waiting.emplace_back(c.warp, c.split);
    }
    c.cluster->open_named_if_complete(*c.cta, id);
  }
  return waits && c.split->state != SplitState::ready ? Action::block : Action::branch;
}

template <bool kBar, bool kWait>
void bind_barrier(Decode& d) {
  d.out.category = ir::Category::cta_barrier;
  d.out.detail = (kBar || d.has("aligned") ? kAligned : 0) | (kWait ? kWaits : 0);
  d.require_operands(kWait ? 1 : 2, 2);
  d.out.a = d.source(0, Type::u32);
  if (d.operand_count() == 2) d.out.b = d.source(1, Type::u32);
  d.out.handler = cta_barrier;
}
template <bool kBar>
void bind_barrier_red(Decode& d) {
  d.out.category = ir::Category::cta_barrier;
  d.out.detail = (kBar || d.has("aligned") ? kAligned : 0) | kWaits;
  d.require_operands(3, 4);
  const bool popc = d.has("popc");
  d.out.flags = popc ? kRedPopc : d.has("and") ? kRedAnd : kRedOr;
  d.out.type = popc ? Type::u32 : Type::pred;
  if (d.type() != d.out.type) d.fail(".popc has type .u32, .and and .or have .pred");
  d.out.d = d.destination(0, d.out.type);
  d.out.a = d.source(1, Type::u32);
  if (d.operand_count() == 4) d.out.b = d.source(2, Type::u32);
  d.out.c = d.predicate(d.operand(d.operand_count() - 1));
  d.out.handler = cta_barrier;
}

void tell_cluster(Context& c, const Instruction& in, LaneMask lanes,
                  ClusterBarrierEvent::Kind kind) {
  if (c.observer == nullptr) return;
  ClusterBarrierEvent event;
  event.kind = kind;
  event.cta = static_cast<std::uint8_t>(c.cta->rank);
  event.warp = static_cast<std::uint16_t>(c.warp->index);
  event.semantics = in.semantics;
  event.lanes = lanes;
  event.instruction = &in;
  c.observer->on_cluster_barrier(event);
}

Action cluster_arrive(Context& c, const Instruction& in, LaneMask lanes) {
  if (in.flags != 0 && !c.converge_warp(in, lanes, false)) return Action::block;
  for (LaneMask rest = lanes; rest != 0; rest &= rest - 1) {
    if (c.warp->cluster_phase[static_cast<std::size_t>(std::countr_zero(rest))] != 0)
      c.fault(ReportKind::barrier_protocol, in, rest & (0 - rest),
              "barrier.cluster.arrive twice without a barrier.cluster.wait in between");
  }
  tell_cluster(c, in, lanes, ClusterBarrierEvent::Kind::arrive);
  c.cluster->arrive_cluster(*c.warp, lanes);
  return Action::next;
}
Action cluster_wait(Context& c, const Instruction& in, LaneMask lanes) {
  if (in.flags != 0 && !c.converge_warp(in, lanes, false)) return Action::block;
  bool complete = true;
  for (LaneMask rest = lanes; rest != 0; rest &= rest - 1) {
    const U32 arrived = c.warp->cluster_phase[static_cast<std::size_t>(std::countr_zero(rest))];
    if (arrived == 0)
      c.fault(ReportKind::barrier_protocol, in, rest & (0 - rest),
              "barrier.cluster.wait without a barrier.cluster.arrive before it");
    complete &= c.cluster->cluster_phase() >= arrived;
  }
  if (!complete) return c.wait_and_retry(SplitState::cluster_barrier, in, lanes);
  for (LaneMask rest = lanes; rest != 0; rest &= rest - 1)
    c.warp->cluster_phase[static_cast<std::size_t>(std::countr_zero(rest))] = 0;
  tell_cluster(c, in, lanes, ClusterBarrierEvent::Kind::wait);
  return Action::next;
}
void bind_cluster_arrive(Decode& d) {
  d.out.category = ir::Category::cluster_barrier;
  d.require_operands(0, 0);
  d.memory_order(ir::Semantics::release);
  d.out.scope = ir::Scope::cluster;
  d.out.flags = d.has("aligned") ? 1 : 0;
  d.out.handler = cluster_arrive;
}
void bind_cluster_wait(Decode& d) {
  d.out.category = ir::Category::cluster_barrier;
  d.require_operands(0, 0);
  d.memory_order(ir::Semantics::acquire);
  d.out.scope = ir::Scope::cluster;
  d.out.flags = d.has("aligned") ? 1 : 0;
  d.out.handler = cluster_wait;
}

/// All fences: memory is coherent in the emulator, so a fence only tells the observer.
Action fence(Context& c, const Instruction& in, LaneMask lanes) {
  std::atomic_thread_fence(std::memory_order_seq_cst);
  if (c.observer != nullptr) {
    FenceEvent event;
    event.kind = static_cast<FenceKind>(in.flags);
    event.agent = c.agent();
    event.lanes = lanes;
    event.space = in.space;
    event.semantics = in.semantics;
    event.scope = in.scope;
    event.instruction = &in;
    c.observer->on_fence(event);
  }
  return Action::next;
}
void bind_fence_as(Decode& d, FenceKind kind, ir::Semantics semantics) {
  d.out.category = ir::Category::fence;
  d.out.space = d.space();
  d.memory_order(semantics);
  d.out.flags = static_cast<U32>(kind);
  d.out.handler = fence;
}
void bind_fence(Decode& d) {
  d.require_operands(0, 0);
  if (d.has("mbarrier_init")) {
    if (!d.has("release") || !d.has("cluster"))
      d.fail("fence.mbarrier_init needs .release.cluster");
    return bind_fence_as(d, FenceKind::mbarrier_init, ir::Semantics::release);
  }
  if (d.out.scope == ir::Scope::none && d.one_of({"cta", "cluster", "gpu", "sys"}).empty())
    d.fail("fence needs a scope: .cta, .cluster, .gpu or .sys");
  bind_fence_as(d, FenceKind::memory, ir::Semantics::acq_rel);
}
void bind_membar(Decode& d) {
  d.require_operands(0, 0);
  bind_fence_as(d, FenceKind::memory, ir::Semantics::seq_cst);
  d.out.scope = d.has("gl") ? ir::Scope::gpu : d.has("sys") ? ir::Scope::sys : ir::Scope::cta;
}
void bind_proxy_fence(Decode& d) {
  // The generic pair: fence.proxy.async::generic.{acquire,release}.sync_restrict::….cluster
  const bool tensormap = d.has("tensormap::generic");
  if (tensormap) {
    const bool acquire = d.has("acquire");
    if (acquire == d.has("release"))
      d.fail("fence.proxy.tensormap::generic needs .acquire or .release");
    d.require_operands(acquire ? 2 : 0, acquire ? 2 : 0);
    if (acquire) {
      d.address(0);
      d.constant(1, 128, 128);
    }
    return bind_fence_as(
        d, acquire ? FenceKind::proxy_tensormap_acquire : FenceKind::proxy_tensormap_release,
        acquire ? ir::Semantics::acquire : ir::Semantics::release);
  }
  d.require_operands(0, 0);
  bind_fence_as(d, d.has("alias") ? FenceKind::proxy_alias : FenceKind::proxy_async,
                ir::Semantics::acq_rel);
  if (d.has("sync_restrict::shared::cta")) d.out.space = ir::Space::shared;
  if (d.has("sync_restrict::shared::cluster")) d.out.space = ir::Space::shared_cluster;
}

constexpr ir::OpcodeRow kRows[] = {
    {"bar.sync", "", bind_barrier<true, true>},
    {"bar.arrive", "", bind_barrier<true, false>},
    {"bar.red", "and|or|popc pred|u32", bind_barrier_red<true>},
    {"bar.cta.sync", "", bind_barrier<true, true>},
    {"bar.cta.arrive", "", bind_barrier<true, false>},
    {"bar.cta.red", "and|or|popc pred|u32", bind_barrier_red<true>},
    {"barrier.sync", "[aligned]", bind_barrier<false, true>},
    {"barrier.arrive", "[aligned]", bind_barrier<false, false>},
    {"barrier.red", "and|or|popc [aligned] pred|u32", bind_barrier_red<false>},
    {"barrier.cta.sync", "[aligned]", bind_barrier<false, true>},
    {"barrier.cta.arrive", "[aligned]", bind_barrier<false, false>},
    {"barrier.cta.red", "and|or|popc [aligned] pred|u32", bind_barrier_red<false>},
    {"barrier.cluster.arrive", "[release|relaxed] [aligned]", bind_cluster_arrive},
    {"barrier.cluster.wait", "[acquire] [aligned]", bind_cluster_wait},
    {"fence",
     "[sc|acq_rel|acquire|release] [mbarrier_init] "
     "[sync_restrict::shared::cta|sync_restrict::shared::cluster] [@scope]",
     bind_fence},
    {"membar", "cta|gl|sys", bind_membar},
    {"fence.proxy",
     "alias|async|async::generic|tensormap::generic [acquire|release] "
     "[sync_restrict::shared::cta|sync_restrict::shared::cluster] "
     "[global|shared::cta|shared::cluster] [@scope]",
     bind_proxy_fence},
    {"membar.proxy", "alias", bind_proxy_fence},
};

}  // namespace

std::span<const ir::OpcodeRow> barrier_opcodes() {
  return kRows;
}

}  // namespace ptxemu::exec
