// mbarrier.*
#include "exec/cluster.hpp"
#include "exec/opcodes.hpp"

namespace ptxemu::exec {
namespace {

using ir::Decode;
using ir::Type;
using U32 = std::uint32_t;
using U64 = std::uint64_t;

template <typename F>
void for_lanes(LaneMask lanes, F f) {
  for (LaneMask rest = lanes; rest != 0; rest &= rest - 1)
    f(static_cast<std::size_t>(std::countr_zero(rest)), rest & (0 - rest));
}

Context::SharedPlace barrier_place(Context& c, const Instruction& in, U64 address, LaneMask lane) {
  return c.shared_place(in, in.space, address, 8, 8, lane);
}

/// init and inval write the state without looking at it.
template <bool kInit>
Action set_barrier(Context& c, const Instruction& in, LaneMask lanes) {
  Context::Addresses addresses;
  c.addresses(in.addresses[0], lanes, addresses);
  for_lanes(lanes, [&](std::size_t l, LaneMask lane) {
    const Context::SharedPlace place = barrier_place(c, in, addresses[l], lane);
    sync::Mbarrier barrier;
    U64 bits = 0;
    if (kInit) {
      const U32 count = c.row<const U32>(in.a)[l];
      if (count == 0 || count > sync::Mbarrier::kMaxCount)
        c.fault(
            ReportKind::barrier_protocol, in, lane,
            "mbarrier.init with a count of " + std::to_string(count) + "; it must be 1 … 2^20-1");
      barrier.expected = barrier.pending = count;
      bits = barrier.encode();
      place.cta->history.erase(place.offset);
    }
    std::memcpy(place.pointer(), &bits, sizeof bits);
    if (c.observer != nullptr) {
      MbarrierEvent event;
      event.event = kInit ? BarrierEvent::init : BarrierEvent::inval;
      event.agent = c.agent();
      event.cta = static_cast<std::uint8_t>(place.cta->rank);
      event.offset = place.offset;
      event.count = event.pending = event.expected = barrier.expected;
      event.lanes = lane;
      event.instruction = &in;
      c.observer->on_mbarrier(event);
    }
  });
  c.cluster->note_progress();
  return Action::next;
}
void bind_init(Decode& d) {
  d.require_operands(2, 2);
  d.out.category = ir::Category::mbarrier;
  d.out.space = d.space();
  d.address(0);
  d.out.a = d.source(1, Type::u32);
  d.out.handler = set_barrier<true>;
}
void bind_inval(Decode& d) {
  d.require_operands(1, 1);
  d.out.category = ir::Category::mbarrier;
  d.out.space = d.space();
  d.address(0);
  d.out.handler = set_barrier<false>;
}

// What an arriving instruction does: Instruction::flags.
constexpr U32 kArrive = 1, kExpect = 2, kComplete = 4, kDrop = 8;

/// a: transaction bytes of .expect_tx and of expect_tx/complete_tx; b: arrival count (default 1).
Action arrive(Context& c, const Instruction& in, LaneMask lanes) {
  Context::Addresses addresses;
  c.addresses(in.addresses[0], lanes, addresses);
  for_lanes(lanes, [&](std::size_t l, LaneMask lane) {
    const Context::SharedPlace place = barrier_place(c, in, addresses[l], lane);
    Cluster::MbarrierUpdate update;
    update.agent = c.agent();
    update.lanes = lane;
    update.instruction = &in;
    update.semantics = in.semantics;
    update.scope = in.scope;
    U64 before = 0;
    if ((in.flags & (kExpect | kComplete)) != 0) {
      const U32 bytes = c.row<const U32>(in.a)[l];
      update.event =
          (in.flags & kExpect) != 0 ? BarrierEvent::expect_tx : BarrierEvent::complete_tx;
      update.transactions = (in.flags & kExpect) != 0 ? std::int64_t{bytes} : -std::int64_t{bytes};
      if (bytes > static_cast<U32>(sync::Mbarrier::kMaxTransactions))
        c.fault(ReportKind::barrier_protocol, in, lane,
                std::to_string(bytes) + " transaction bytes exceed the limit of 2^20-1");
    }
    if ((in.flags & kArrive) == 0) {
      c.cluster->update_mbarrier(*place.cta, place.offset, update);
      return;
    }
    if (update.transactions != 0) {
      // expect_tx first, then the arrival: a phase cannot complete in between.
      before = c.cluster->update_mbarrier(*place.cta, place.offset, update);
      update.transactions = 0;
    }
    const U32 count = in.b.present() ? c.row<const U32>(in.b)[l] : 1;
    if (count == 0 || count > sync::Mbarrier::kMaxCount)
      c.fault(ReportKind::barrier_protocol, in, lane,
              "arrival count " + std::to_string(count) + " is not in 1 … 2^20-1");
    update.event = (in.flags & kDrop) != 0 ? BarrierEvent::arrive_drop : BarrierEvent::arrive;
    ((in.flags & kDrop) != 0 ? update.drop : update.arrivals) = count;
    const U64 state = c.cluster->update_mbarrier(*place.cta, place.offset, update);
    (void)before;
    if (in.d.present()) c.row<U64>(in.d)[l] = state;
  });
  return Action::next;
}

void bind_arrive(Decode& d, U32 flags) {
  d.out.category = ir::Category::mbarrier;
  d.out.space = d.space();
  d.memory_order(ir::Semantics::release);
  if (d.out.scope == ir::Scope::none) d.out.scope = ir::Scope::cta;
  d.out.flags = flags;
  std::size_t next = 0;
  if ((flags & kArrive) != 0) {
    // `state, [a]`, `_, [a]`, or for remote barriers just `[a]`.
    if (!d.is_address(0)) d.out.d = d.destination(next++, Type::b64);
    if (d.out.space == ir::Space::shared_cluster && d.out.d.present())
      d.fail("an arrival at a shared::cluster barrier returns no state: write '_'");
  }
  d.address(next++);
  if ((flags & (kExpect | kComplete)) != 0) {
    d.out.a = d.source(next++, Type::u32);
  } else if (next < d.operand_count()) {
    d.out.b = d.source(next++, Type::u32);
  }
  d.require_operands(next, next);
  d.out.handler = arrive;
}
void bind_mbarrier_arrive(Decode& d) {
  bind_arrive(d, kArrive | (d.has("expect_tx") ? kExpect : 0));
}
void bind_mbarrier_drop(Decode& d) {
  bind_arrive(d, kArrive | kDrop | (d.has("expect_tx") ? kExpect : 0));
}
void bind_expect_tx(Decode& d) {
  bind_arrive(d, kExpect);
}
void bind_complete_tx(Decode& d) {
  bind_arrive(d, kComplete);
}

void tell_wait(Context& c, const Instruction& in, LaneMask lanes, const Context::SharedPlace& place,
               U32 parity, BarrierEvent kind) {
  if (c.observer == nullptr) return;
  sync::Mbarrier barrier = c.cluster->load_mbarrier(*place.cta, place.offset, &in);
  MbarrierEvent event;
  event.event = kind;
  event.agent = c.agent();
  event.cta = static_cast<std::uint8_t>(place.cta->rank);
  event.offset = place.offset;
  event.phase = parity;
  event.semantics = in.semantics;
  event.scope = in.scope;
  event.lanes = lanes;
  event.instruction = &in;
  event.pending = barrier.pending;
  event.expected = barrier.expected;
  event.transaction_bytes = barrier.transactions;
  c.observer->on_mbarrier(event);
}

/// flags: 1 = parity operand, else a state token. try_wait may suspend, test_wait never does.
template <bool kTry>
Action wait(Context& c, const Instruction& in, LaneMask lanes) {
  Context::Addresses addresses;
  c.addresses(in.addresses[0], lanes, addresses);
  LaneMask done = 0;
  Context::SharedPlace first;
  U32 first_parity = 0;
  bool uniform = true;
  const auto parity_of = [&](std::size_t l) {
    return in.flags != 0 ? c.row<const U32>(in.a)[l] & 1
                         : static_cast<U32>(c.row<const U64>(in.a)[l] & 1);
  };
  for_lanes(lanes, [&](std::size_t l, LaneMask lane) {
    const Context::SharedPlace place = barrier_place(c, in, addresses[l], lane);
    const U32 parity = parity_of(l);
    if (first.cta == nullptr) {
      first = place;
      first_parity = parity;
    }
    uniform &= place.cta == first.cta && place.offset == first.offset && parity == first_parity;
    if (c.cluster->load_mbarrier(*place.cta, place.offset, &in).phase != parity) done |= lane;
  });
  const DeviceOptions& options = c.launch->options;
  const bool expired = c.split->timed_out;
  c.split->timed_out = false;
  if (kTry && options.schedule == Schedule::random && done != 0 && !expired &&
      c.cluster->random()() % 16 == 0) {
    done = 0;  // the ISA lets try_wait return false at any time
    c.set_predicate(in.d, lanes, 0);
    return Action::yield;
  }
  if (kTry && done == 0 && uniform && !expired) {
    tell_wait(c, in, lanes, first, first_parity, BarrierEvent::wait_blocked);
    const Action action = c.wait_and_retry(SplitState::mbarrier, in, lanes);
    c.split->barrier_cta = first.cta;
    c.split->barrier = first.offset;
    c.split->parity = first_parity;
    return action;
  }
  c.set_predicate(in.d, lanes, done);
  if (uniform) {
    tell_wait(c, in, lanes, first, first_parity,
              done != 0 ? BarrierEvent::wait_success : BarrierEvent::wait_fail);
  } else {
    for_lanes(lanes, [&](std::size_t l, LaneMask lane) {
      tell_wait(c, in, lane, barrier_place(c, in, addresses[l], lane), parity_of(l),
                (done & lane) != 0 ? BarrierEvent::wait_success : BarrierEvent::wait_fail);
    });
  }
  if (done == lanes) {
    c.split->barrier_cta = nullptr;
    return Action::next;
  }
  c.split->waiting_at = &in;
  c.split->barrier_cta = first.cta;
  c.split->barrier = first.offset;
  c.split->parity = first_parity;
  return Action::yield;
}

template <bool kTry>
void bind_wait(Decode& d) {
  d.require_operands(3, kTry ? 4 : 3);
  d.out.category = ir::Category::mbarrier;
  d.out.space = d.space();
  if (d.out.space == ir::Space::shared_cluster)
    d.unsupported("waits are only possible on barriers of the own CTA");
  d.memory_order(ir::Semantics::acquire);
  if (d.out.scope == ir::Scope::none) d.out.scope = ir::Scope::cta;
  d.out.type = Type::pred;
  d.out.d = d.destination(0, Type::pred);
  d.address(1);
  d.out.flags = d.has("parity") ? 1 : 0;
  d.out.a = d.source(2, d.has("parity") ? Type::u32 : Type::b64);
  if (d.operand_count() == 4) d.source(3, Type::u32);  // time limit
  d.out.handler = wait<kTry>;
}

Action pending_count(Context& c, const Instruction& in, LaneMask lanes) {
  for_lanes(lanes, [&](std::size_t l, LaneMask lane) {
    const auto barrier = sync::Mbarrier::decode(c.row<const U64>(in.a)[l]);
    if (!barrier)
      c.fault(ReportKind::barrier_protocol, in, lane, "the operand is no mbarrier state");
    c.row<U32>(in.d)[l] = barrier->pending;
  });
  return Action::next;
}
void bind_pending_count(Decode& d) {
  d.require_operands(2, 2);
  d.out.category = ir::Category::mbarrier;
  d.out.d = d.destination(0, Type::u32);
  d.out.a = d.source(1, Type::b64);
  d.out.handler = pending_count;
}

constexpr ir::OpcodeRow kRows[] = {
    {"mbarrier.init", "[shared|shared::cta] b64", bind_init},
    {"mbarrier.inval", "[shared|shared::cta] b64", bind_inval},
    {"mbarrier.arrive", "[expect_tx] [noComplete] [release|relaxed] [@scope] [@shared] b64",
     bind_mbarrier_arrive},
    {"mbarrier.arrive_drop", "[expect_tx] [noComplete] [release|relaxed] [@scope] [@shared] b64",
     bind_mbarrier_drop},
    {"mbarrier.expect_tx", "[relaxed] [@scope] [@shared] b64", bind_expect_tx},
    {"mbarrier.complete_tx", "[relaxed] [@scope] [@shared] b64", bind_complete_tx},
    {"mbarrier.test_wait", "[parity] [acquire|relaxed] [@scope] [@shared] b64", bind_wait<false>},
    {"mbarrier.try_wait", "[parity] [acquire|relaxed] [@scope] [@shared] b64", bind_wait<true>,
     "suspends until the phase completes; the time limit is not modelled"},
    {"mbarrier.pending_count", "b64", bind_pending_count},
};

}  // namespace

std::span<const ir::OpcodeRow> mbarrier_opcodes() {
  return kRows;
}

}  // namespace ptxemu::exec
