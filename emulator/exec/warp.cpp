// Exchange between the lanes of a warp: shuffles, votes, matches, reductions, elections.
#include "exec/cluster.hpp"
#include "exec/lanes.hpp"
#include "exec/opcodes.hpp"

namespace ptxemu::exec {
namespace {

using ir::Decode;
using ir::Type;
using U32 = std::uint32_t;
using U64 = std::uint64_t;

void tell_sync(Context& c, const Instruction& in, LaneMask lanes,
               std::span<const std::uint8_t> source_lanes = {}) {
  if (c.observer == nullptr) return;
  WarpSyncEvent event;
  event.cta = static_cast<std::uint8_t>(c.cta->rank);
  event.warp = static_cast<std::uint16_t>(c.warp->index);
  event.lanes = lanes;
  event.source_lanes = source_lanes;
  event.instruction = &in;
  c.observer->on_warp_sync(event);
}

/// Waits for all lanes of the member mask. False: parked. The mask must be the same in all lanes.
bool gather(Context& c, const Instruction& in, LaneMask lanes, const Operand& mask_operand,
            LaneMask& members) {
  const auto* masks = c.row<const U32>(mask_operand);
  members = c.uniform(mask_operand, lanes);
  for (LaneMask rest = lanes; rest != 0; rest &= rest - 1) {
    const int l = std::countr_zero(rest);
    if (masks[l] != members)
      c.fault(ReportKind::divergence, in, LaneMask{1} << l,
              "the lanes of one warp instruction name different member masks");
  }
  if ((lanes & ~members) != 0)
    c.fault(ReportKind::divergence, in, lanes & ~members,
            "a lane executes a .sync instruction whose member mask does not contain it");
  members &= c.warp->all;
  if (!c.converge(in, lanes, members)) return false;
  members &= lanes;
  tell_sync(c, in, lanes);
  return true;
}

enum class Shuffle { up, down, bfly, idx };
template <Shuffle kMode>
Action shuffle(Context& c, const Instruction& in, LaneMask lanes) {
  LaneMask members = 0;
  if (!gather(c, in, lanes, in.list[0], members)) return Action::block;
  std::array<U32, kWarpSize> values;
  std::memcpy(values.data(), c.row<const U32>(in.a), sizeof values);
  const auto* b = c.row<const U32>(in.b);
  const auto* clamp = c.row<const U32>(in.c);
  std::array<U32, kWarpSize> result{};
  std::array<std::uint8_t, kWarpSize> sources{};
  LaneMask valid = 0;
  for (LaneMask rest = lanes; rest != 0; rest &= rest - 1) {
    const int lane = std::countr_zero(rest);
    const auto delta = static_cast<int>(b[lane] & 31);
    const auto bound = static_cast<int>(clamp[lane] & 31);
    const auto segment = static_cast<int>(clamp[lane] >> 8 & 31);
    const int most = (lane & segment) | (bound & ~segment);
    const int least = lane & segment;
    int source = 0;
    bool in_range = false;
    switch (kMode) {
      case Shuffle::up:
        source = lane - delta;
        in_range = source >= most;
        break;
      case Shuffle::down:
        source = lane + delta;
        in_range = source <= most;
        break;
      case Shuffle::bfly:
        source = lane ^ delta;
        in_range = source <= most;
        break;
      case Shuffle::idx:
        source = least | (delta & ~segment);
        in_range = source <= most;
        break;
    }
    if (!in_range) source = lane;
    valid |= static_cast<LaneMask>(in_range) << lane;
    // The value of a lane outside the set is not defined; the reader gets its own.
    if ((lanes >> source & 1) == 0) source = lane;
    result[static_cast<std::size_t>(lane)] = values[static_cast<std::size_t>(source)];
    sources[static_cast<std::size_t>(lane)] = static_cast<std::uint8_t>(source);
  }
  tell_sync(c, in, lanes, sources);
  auto* out = c.row<U32>(in.d);
  for (LaneMask rest = lanes; rest != 0; rest &= rest - 1) {
    const int l = std::countr_zero(rest);
    out[l] = result[static_cast<std::size_t>(l)];
  }
  if (in.d2.present()) c.set_predicate(in.d2, lanes, valid);
  return Action::next;
}
void bind_shfl(Decode& d) {
  d.require_operands(5, 5);
  d.out.category = ir::Category::warp_exchange;
  d.out.type = Type::b32;
  d.destination_and_predicate(0, Type::b32);
  d.out.a = d.source(1, Type::b32);
  d.out.b = d.source(2, Type::u32);
  d.out.c = d.source(3, Type::u32);
  d.out.list = d.keep({d.source(4, Type::u32)});
  d.out.handler = d.has("up")     ? shuffle<Shuffle::up>
                  : d.has("down") ? shuffle<Shuffle::down>
                  : d.has("bfly") ? shuffle<Shuffle::bfly>
                                  : shuffle<Shuffle::idx>;
}

void write_all(Context& c, const Operand& target, LaneMask lanes, U32 value) {
  auto* out = c.row<U32>(target);
  for (LaneMask rest = lanes; rest != 0; rest &= rest - 1) out[std::countr_zero(rest)] = value;
}

enum class Vote { all, any, uni, ballot };
template <Vote kMode>
Action vote(Context& c, const Instruction& in, LaneMask lanes) {
  LaneMask members = 0;
  if (!gather(c, in, lanes, in.b, members)) return Action::block;
  const LaneMask yes = c.predicate(in.a) & lanes;
  if (kMode == Vote::ballot) {
    write_all(c, in.d, lanes, yes);
    return Action::next;
  }
  const bool result = kMode == Vote::all   ? yes == lanes
                      : kMode == Vote::any ? yes != 0
                                           : yes == 0 || yes == lanes;
  c.set_predicate(in.d, lanes, result ? kFullMask : 0);
  return Action::next;
}
void bind_vote(Decode& d) {
  d.require_operands(3, 3);
  const bool ballot = d.has("ballot");
  if (ballot != (d.type() == Type::b32))
    d.fail(".ballot has type .b32, the other modes have .pred");
  d.out.category = ir::Category::warp_exchange;
  d.out.type = d.type();
  d.out.d = d.destination(0, d.type());
  d.out.a = d.predicate(d.operand(1));
  d.out.b = d.source(2, Type::u32);
  d.out.handler = ballot         ? vote<Vote::ballot>
                  : d.has("all") ? vote<Vote::all>
                  : d.has("any") ? vote<Vote::any>
                                 : vote<Vote::uni>;
}

template <typename T, bool kAll>
Action match(Context& c, const Instruction& in, LaneMask lanes) {
  LaneMask members = 0;
  if (!gather(c, in, lanes, in.b, members)) return Action::block;
  std::array<T, kWarpSize> values;
  std::memcpy(values.data(), c.row<const T>(in.a), sizeof values);
  const auto same_as = [&](int lane) {
    LaneMask same = 0;
    for (LaneMask rest = lanes; rest != 0; rest &= rest - 1) {
      const int l = std::countr_zero(rest);
      if (values[static_cast<std::size_t>(l)] == values[static_cast<std::size_t>(lane)])
        same |= LaneMask{1} << l;
    }
    return same;
  };
  if (kAll) {
    const bool all = same_as(std::countr_zero(lanes)) == lanes;
    write_all(c, in.d, lanes, all ? lanes : 0);
    if (in.d2.present()) c.set_predicate(in.d2, lanes, all ? kFullMask : 0);
  } else {
    for (LaneMask rest = lanes; rest != 0; rest &= rest - 1) {
      const int l = std::countr_zero(rest);
      c.row<U32>(in.d)[l] = same_as(l);
    }
  }
  return Action::next;
}
template <bool kAll>
void bind_match(Decode& d) {
  d.require_operands(3, 3);
  d.out.category = ir::Category::warp_exchange;
  d.out.type = Type::b32;
  d.out.source_type = d.type();
  d.destination_and_predicate(0, Type::b32);
  d.out.a = d.source(1, d.type());
  d.out.b = d.source(2, Type::u32);
  const bool wide = d.type() == Type::b64;
  if (kAll) {
    d.out.handler = wide ? match<U64, true> : match<U32, true>;
  } else {
    d.out.handler = wide ? match<U64, false> : match<U32, false>;
  }
}

enum class Reduce { add, min, max, bit_and, bit_or, bit_xor };
template <Reduce kMode, typename T>
Action reduce(Context& c, const Instruction& in, LaneMask lanes) {
  LaneMask members = 0;
  if (!gather(c, in, lanes, in.b, members)) return Action::block;
  const auto* a = c.row<const U32>(in.a);
  U32 result = a[std::countr_zero(lanes)];
  for (LaneMask rest = lanes & (lanes - 1); rest != 0; rest &= rest - 1) {
    const U32 value = a[std::countr_zero(rest)];
    switch (kMode) {
      case Reduce::add:
        result += value;
        break;
      case Reduce::min:
        result = static_cast<T>(value) < static_cast<T>(result) ? value : result;
        break;
      case Reduce::max:
        result = static_cast<T>(value) > static_cast<T>(result) ? value : result;
        break;
      case Reduce::bit_and:
        result &= value;
        break;
      case Reduce::bit_or:
        result |= value;
        break;
      case Reduce::bit_xor:
        result ^= value;
        break;
    }
  }
  write_all(c, in.d, lanes, result);
  return Action::next;
}
void bind_redux(Decode& d) {
  d.require_operands(3, 3);
  d.out.category = ir::Category::warp_exchange;
  d.out.type = d.type();
  d.out.d = d.destination(0, Type::b32);
  d.out.a = d.source(1, Type::b32);
  d.out.b = d.source(2, Type::u32);
  const bool is_signed = d.type() == Type::s32;
  const bool bits = d.type() == Type::b32;
  if (d.has("and") && bits) d.out.handler = reduce<Reduce::bit_and, U32>;
  if (d.has("or") && bits) d.out.handler = reduce<Reduce::bit_or, U32>;
  if (d.has("xor") && bits) d.out.handler = reduce<Reduce::bit_xor, U32>;
  if (bits) return;
  if (d.has("add")) d.out.handler = reduce<Reduce::add, U32>;
  if (d.has("min"))
    d.out.handler = is_signed ? reduce<Reduce::min, std::int32_t> : reduce<Reduce::min, U32>;
  if (d.has("max"))
    d.out.handler = is_signed ? reduce<Reduce::max, std::int32_t> : reduce<Reduce::max, U32>;
}

Action elect(Context& c, const Instruction& in, LaneMask lanes) {
  LaneMask members = 0;
  if (!gather(c, in, lanes, in.a, members)) return Action::block;
  const int leader = c.launch->options.elect_lane == ElectLane::lowest
                         ? std::countr_zero(lanes)
                         : 31 - std::countl_zero(lanes);
  if (in.d.present()) write_all(c, in.d, lanes, static_cast<U32>(leader));
  c.set_predicate(in.d2, lanes, LaneMask{1} << leader);
  return Action::next;
}
void bind_elect(Decode& d) {
  d.require_operands(2, 2);
  d.out.category = ir::Category::warp_exchange;
  d.destination_and_predicate(0, Type::b32);
  d.out.a = d.source(1, Type::u32);
  d.out.handler = elect;
}

Action active_mask(Context& c, const Instruction& in, LaneMask lanes) {
  write_all(c, in.d, lanes, lanes);
  return Action::next;
}
void bind_activemask(Decode& d) {
  d.require_operands(1, 1);
  d.out.category = ir::Category::warp_exchange;
  d.out.d = d.destination(0, Type::b32);
  d.out.handler = active_mask;
}

/// bar.warp.sync: lanes may come from different instructions, as long as the mask is the same.
Action warp_barrier(Context& c, const Instruction& in, LaneMask lanes) {
  const LaneMask members = c.uniform(in.a, lanes);
  if ((lanes & ~members) != 0)
    c.fault(ReportKind::divergence, in, lanes & ~members,
            "a lane executes bar.warp.sync whose member mask does not contain it");
  const LaneMask wanted = members & c.warp->live;
  LaneMask present = lanes;
  for (const auto& split : c.warp->splits) {
    if (split.get() != c.split && split->state == SplitState::converging &&
        split->waiting_at->handler == warp_barrier)
      present |= split->lanes;
  }
  if ((present & wanted) != wanted) return c.wait_and_retry(SplitState::converging, in, lanes);
  for (const auto& split : c.warp->splits) {
    if (split.get() == c.split || split->state != SplitState::converging ||
        split->waiting_at->handler != warp_barrier || (split->lanes & wanted) == 0)
      continue;
    split->state = SplitState::ready;
    split->retry = false;
    ++split->pc;
  }
  if (c.observer != nullptr) {
    WarpSyncEvent event;
    event.cta = static_cast<std::uint8_t>(c.cta->rank);
    event.warp = static_cast<std::uint16_t>(c.warp->index);
    event.lanes = present & wanted;
    event.orders_memory = true;
    event.instruction = &in;
    c.observer->on_warp_sync(event);
  }
  return Action::branch;
}
void bind_warp_barrier(Decode& d) {
  d.require_operands(1, 1);
  d.out.category = ir::Category::warp_exchange;
  d.out.a = d.source(0, Type::u32);
  d.out.handler = warp_barrier;
}

constexpr ir::OpcodeRow kRows[] = {
    {"shfl.sync", "up|down|bfly|idx b32", bind_shfl},
    {"vote.sync", "all|any|uni|ballot pred|b32", bind_vote},
    {"match.any.sync", "b32|b64", bind_match<false>},
    {"match.all.sync", "b32|b64", bind_match<true>},
    {"redux.sync", "add|min|max|and|or|xor u32|s32|b32", bind_redux},
    {"elect.sync", "", bind_elect, "which lane is elected is an option of the device"},
    {"activemask", "b32", bind_activemask},
    {"bar.warp.sync", "", bind_warp_barrier},
};

}  // namespace

std::span<const ir::OpcodeRow> warp_opcodes() {
  return kRows;
}

}  // namespace ptxemu::exec
