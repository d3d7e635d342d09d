// cp.async, st.async, red.async and the groups of cp.async.
#include <algorithm>

#include "exec/cluster.hpp"
#include "exec/groups.hpp"
#include "exec/lanes.hpp"
#include "exec/opcodes.hpp"

namespace ptxemu::exec {
namespace {

using ir::Decode;
using ir::Type;
using U32 = std::uint32_t;
using U64 = std::uint64_t;

/// One warp-wide cp.async: 4, 8 or 16 bytes per lane, zero-filled beyond the source size.
struct CpAsync final : AsyncOperation {
  std::array<U32, kWarpSize> destination{};  // offsets in the own CTA
  std::array<U64, kWarpSize> source{};
  std::array<U32, kWarpSize> size{};
  U32 bytes = 0;

  bool step(Cluster& cluster) override {
    Context context;
    context.enter(cluster, *this);
    std::vector<Access::Range> reads, writes;
    for (LaneMask rest = lanes; rest != 0; rest &= rest - 1) {
      const auto l = static_cast<std::size_t>(std::countr_zero(rest));
      std::byte* to = cta->shared.data() + destination[l];
      if (size[l] != 0)
        std::memcpy(to,
                    context.global_pointer(*instruction, source[l], size[l], AccessKind::read,
                                           LaneMask{1} << l),
                    size[l]);
      std::memset(to + size[l], 0, bytes - size[l]);
      if (cluster.observed()) {
        if (size[l] != 0) reads.push_back({source[l], size[l]});
        writes.push_back({destination[l], bytes});
      }
    }
    if (ClusterObserver* observer = cluster.observer()) {
      Access access;
      access.agent = agent;
      access.instruction = instruction;
      access.operation = id;
      access.space = ir::Space::global;
      access.ranges = reads;
      if (!reads.empty()) observer->on_access(access);
      access.kind = AccessKind::write;
      access.space = ir::Space::shared;
      access.cta = static_cast<std::uint8_t>(cta->rank);
      access.ranges = writes;
      observer->on_access(access);
    }
    cluster.finish_reads(*this);
    cluster.finish(*this);
    return true;
  }
};

Action cp_async(Context& c, const Instruction& in, LaneMask lanes) {
  auto operation = c.cluster->make_operation<CpAsync>(c, in, lanes, AgentKind::cp_async,
                                                      Completion::cp_async_group);
  operation->bytes = static_cast<U32>(in.immediate);
  Context::Addresses destination, source;
  c.addresses(in.addresses[0], lanes, destination);
  c.addresses(in.addresses[1], lanes, source);
  const LaneMask ignored = in.c.present() ? c.predicate(in.c) : 0;
  for (LaneMask rest = lanes; rest != 0; rest &= rest - 1) {
    const auto l = static_cast<std::size_t>(std::countr_zero(rest));
    const LaneMask lane = LaneMask{1} << l;
    const auto place = c.shared_place(in, ir::Space::shared, destination[l], operation->bytes,
                                      operation->bytes, lane);
    operation->destination[l] = place.offset;
    operation->source[l] = source[l];
    U32 size = in.a.present() ? c.row<const U32>(in.a)[l] : operation->bytes;
    if ((ignored & lane) != 0) size = 0;
    if (size > operation->bytes)
      c.fault(ReportKind::illegal_instruction, in, lane,
              "cp.async source size " + std::to_string(size) + " exceeds its size of " +
                  std::to_string(operation->bytes));
    if (source[l] % operation->bytes != 0)
      c.fault(ReportKind::misaligned, in, lane,
              "cp.async source address is not a multiple of " + std::to_string(operation->bytes));
    operation->size[l] = size;
  }
  c.warp->cp_async.add(operation->id, lanes);
  c.cluster->issue(std::move(operation));
  return Action::next;
}
void bind_cp_async(Decode& d) {
  d.require_operands(3, 5);
  d.out.category = ir::Category::async_copy;
  d.address(0);
  d.address(1);
  const std::int64_t bytes = d.constant(2, 4, 16);
  if (bytes != 4 && bytes != 8 && bytes != 16) d.fail("cp.async copies 4, 8 or 16 bytes");
  if (d.has("cg") && bytes != 16) d.fail("cp.async.cg copies 16 bytes");
  d.out.immediate = bytes;
  // [, src-size | ignore-src] [, cache-policy]
  const bool policy = d.has("L2::cache_hint");
  const std::size_t rest = d.operand_count() - (policy ? 1 : 0);
  if (rest == 4) {
    const ptx::Operand& o = d.operand(3);
    const bool predicate = o.kind == ptx::Operand::Kind::reg && d.is_predicate(o);
    if (predicate) {
      d.out.c = d.predicate(o);
    } else {
      d.out.a = d.source(3, Type::u32);
    }
  }
  if (policy) d.source(d.operand_count() - 1, Type::b64);
  d.out.handler = cp_async;
}

Action cp_commit(Context& c, const Instruction& in, LaneMask lanes) {
  commit_group(c, in, lanes, GroupKind::cp_async);
  return Action::next;
}
Action cp_wait(Context& c, const Instruction& in, LaneMask lanes) {
  return wait_group(c, in, lanes, GroupKind::cp_async, static_cast<U32>(in.immediate), false);
}
/// wait_all also waits for what was not committed: it commits first, once.
Action cp_wait_all(Context& c, const Instruction& in, LaneMask lanes) {
  if (!c.warp->cp_async.idle(lanes)) return c.wait_and_retry(SplitState::group, in, lanes);
  commit_group(c, in, lanes, GroupKind::cp_async);
  return wait_group(c, in, lanes, GroupKind::cp_async, 0, false);
}
void bind_commit(Decode& d) {
  d.require_operands(0, 0);
  d.out.category = ir::Category::async_group;
  d.out.handler = cp_commit;
}
void bind_wait(Decode& d) {
  d.require_operands(1, 1);
  d.out.category = ir::Category::async_group;
  d.out.immediate = d.constant(0, 0, 1 << 20);
  d.out.handler = cp_wait;
}
void bind_wait_all(Decode& d) {
  d.require_operands(0, 0);
  d.out.category = ir::Category::async_group;
  d.out.handler = cp_wait_all;
}

/// Arrives at a barrier when the lanes' earlier cp.async operations are complete. It queues behind
/// them; the schedule may reach it early, then it waits for them.
struct CpAsyncArrive final : AsyncOperation {
  std::array<Cta*, kWarpSize> owner{};
  std::array<U32, kWarpSize> offset{};

  bool step(Cluster& cluster) override {
    for (LaneMask rest = lanes; rest != 0; rest &= rest - 1) {
      const auto l = static_cast<std::size_t>(std::countr_zero(rest));
      Cluster::MbarrierUpdate update;
      update.event = BarrierEvent::arrive;
      update.arrivals = 1;
      update.agent = agent;
      update.lanes = LaneMask{1} << l;
      update.instruction = instruction;
      update.operation = id;
      cluster.update_mbarrier(*owner[l], offset[l], update);
    }
    cluster.finish(*this);
    return true;
  }
  bool blocked() const override { return !warp->cp_async.idle_before(lanes, id); }
};
Action cp_arrive(Context& c, const Instruction& in, LaneMask lanes) {
  auto operation = c.cluster->make_operation<CpAsyncArrive>(c, in, lanes, AgentKind::cp_async,
                                                            Completion::mbarrier);
  Context::Addresses addresses;
  c.addresses(in.addresses[0], lanes, addresses);
  for (LaneMask rest = lanes; rest != 0; rest &= rest - 1) {
    const auto l = static_cast<std::size_t>(std::countr_zero(rest));
    const auto place = c.shared_place(in, in.space, addresses[l], 8, 8, LaneMask{1} << l);
    operation->owner[l] = place.cta;
    operation->offset[l] = place.offset;
    if (in.flags == 0) {  // without .noinc the pending count rises first
      sync::Mbarrier barrier = c.cluster->load_mbarrier(*place.cta, place.offset, &in);
      if (barrier.pending >= sync::Mbarrier::kMaxCount)
        c.fault(ReportKind::barrier_protocol, in, LaneMask{1} << l, "the pending count overflows");
      ++barrier.pending;
      const U64 bits = barrier.encode();
      std::memcpy(place.pointer(), &bits, sizeof bits);
    }
  }
  c.cluster->issue(std::move(operation));
  return Action::next;
}
void bind_cp_arrive(Decode& d) {
  d.require_operands(1, 1);
  d.out.category = ir::Category::async_group;
  d.out.space = d.space();
  d.address(0);
  d.out.flags = d.has("noinc") ? 1 : 0;
  d.out.handler = cp_arrive;
}

/// st.async and red.async of one lane: remote shared memory and a barrier beside it.
struct StAsync final : AsyncOperation {
  Cta* target = nullptr;
  U32 offset = 0;
  U32 barrier = 0;
  U32 bytes = 0;
  std::array<std::byte, 16> value{};
  int reduction = -1;  // -1: store
  Type type = Type::none;

  bool step(Cluster& cluster) override {
    std::byte* to = target->shared.data() + offset;
    if (reduction < 0) {
      std::memcpy(to, value.data(), bytes);
    } else {
      U64 old = 0, with = 0;
      std::memcpy(&old, to, bytes);
      std::memcpy(&with, value.data(), bytes);
      const U64 result = apply(old, with);
      std::memcpy(to, &result, bytes);
    }
    if (ClusterObserver* observer = cluster.observer()) {
      const Access::Range range{offset, bytes};
      Access access;
      access.agent = agent;
      access.instruction = instruction;
      access.operation = id;
      access.space = ir::Space::shared;
      access.cta = static_cast<std::uint8_t>(target->rank);
      access.kind = reduction < 0 ? AccessKind::write : AccessKind::atomic;
      access.ranges = {&range, 1};
      observer->on_access(access);
    }
    cluster.finish(*this);
    Cluster::MbarrierUpdate update;
    update.event = BarrierEvent::complete_tx;
    update.transactions = -std::int64_t{bytes};
    update.agent = agent;
    update.lanes = lanes;
    update.instruction = instruction;
    update.operation = id;
    cluster.update_mbarrier(*target, barrier, update);
    return true;
  }

  [[nodiscard]] U64 apply(U64 old, U64 with) const {
    const bool is_signed = ir::is_signed(type);
    const auto less = [&](U64 x, U64 y) {
      if (bytes == 8)
        return is_signed ? static_cast<std::int64_t>(x) < static_cast<std::int64_t>(y) : x < y;
      return is_signed ? static_cast<std::int32_t>(x) < static_cast<std::int32_t>(y)
                       : static_cast<U32>(x) < static_cast<U32>(y);
    };
    switch (reduction) {
      case 0:
        return old + with;
      case 1:
        return less(with, old) ? with : old;
      case 2:
        return less(old, with) ? with : old;
      case 3:
        return old >= with ? 0 : old + 1;
      case 4:
        return old == 0 || old > with ? with : old - 1;
      case 5:
        return old & with;
      case 6:
        return old | with;
      default:
        return old ^ with;
    }
  }
};

Action st_async(Context& c, const Instruction& in, LaneMask lanes) {
  Context::Addresses target, barrier;
  c.addresses(in.addresses[0], lanes, target);
  c.addresses(in.addresses[1], lanes, barrier);
  const U32 element = static_cast<U32>(ir::bit_size(in.type)) / 8;
  const U32 bytes = element * in.elements;
  for (LaneMask rest = lanes; rest != 0; rest &= rest - 1) {
    const auto l = static_cast<std::size_t>(std::countr_zero(rest));
    const LaneMask lane = LaneMask{1} << l;
    auto operation =
        c.cluster->make_operation<StAsync>(c, in, lane, AgentKind::st_async, Completion::mbarrier);
    const auto place = c.shared_place(in, ir::Space::shared_cluster, target[l], bytes, bytes, lane);
    const auto at = c.shared_place(in, ir::Space::shared_cluster, barrier[l], 8, 8, lane);
    if (place.cta != at.cta)
      c.fault(ReportKind::barrier_protocol, in, lane,
              "the barrier of st.async/red.async must lie in the CTA of the destination");
    operation->target = place.cta;
    operation->offset = place.offset;
    operation->barrier = at.offset;
    operation->bytes = bytes;
    operation->type = in.type;
    operation->reduction = static_cast<int>(in.immediate);
    for (std::size_t e = 0; e < in.list.size(); ++e) {
      const std::size_t slot = element == 8 ? 8 : 4;
      std::memcpy(operation->value.data() + e * element,
                  c.row<const std::byte>(in.list[e]) + l * slot, element);
    }
    c.cluster->issue(std::move(operation));
  }
  return Action::next;
}
template <bool kReduce>
void bind_st_async(Decode& d) {
  d.require_operands(3, 3);
  const Type type = d.type();
  const std::size_t count = d.has("v2") ? 2 : d.has("v4") ? 4 : 1;
  if (ir::bit_size(type) / 8 * static_cast<int>(count) > 16)
    d.fail("st.async moves at most 16 bytes");
  d.out.category = ir::Category::async_copy;
  d.out.type = type;
  d.out.elements = static_cast<std::uint8_t>(count);
  d.out.immediate = -1;
  if (kReduce) {
    static constexpr std::string_view kOps[] = {"add", "min", "max", "inc",
                                                "dec", "and", "or",  "xor"};
    for (std::size_t i = 0; i < std::size(kOps); ++i) {
      if (d.has(kOps[i])) d.out.immediate = static_cast<std::int64_t>(i);
    }
  }
  d.address(0);
  d.out.list = d.sources(d.operand(1), type, count);
  d.address(2);
  d.out.handler = st_async;
}

constexpr ir::OpcodeRow kRows[] = {
    {"cp.async", "ca|cg @shared global [L2::cache_hint] [@prefetch]", bind_cp_async},
    {"cp.async.commit_group", "", bind_commit},
    {"cp.async.wait_group", "", bind_wait},
    {"cp.async.wait_all", "", bind_wait_all},
    {"cp.async.mbarrier.arrive", "[noinc] [shared|shared::cta] b64", bind_cp_arrive},
    {"st.async",
     "[weak] [shared::cluster] mbarrier::complete_tx::bytes [v2|v4] "
     "b32|b64|u32|u64|s32|s64|f32|f64",
     bind_st_async<false>},
    {"red.async",
     "[relaxed] [cluster] [shared::cluster] mbarrier::complete_tx::bytes "
     "add|min|max|inc|dec|and|or|xor u32|s32|u64|s64|b32|b64",
     bind_st_async<true>},
};

}  // namespace

std::span<const ir::OpcodeRow> async_opcodes() {
  return kRows;
}

}  // namespace ptxemu::exec
