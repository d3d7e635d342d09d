// Operations on mbarriers in shared memory, on behalf of warps and of asynchronous operations.
#include <algorithm>

#include "exec/cluster.hpp"

namespace ptxemu::exec {

std::string Cluster::symbol(std::uint32_t offset) const {
  const ir::SharedSymbol* best = nullptr;
  for (const ir::SharedSymbol& symbol : launch_.kernel->shared_symbols) {
    if (symbol.offset <= offset && (best == nullptr || symbol.offset >= best->offset))
      best = &symbol;
  }
  char text[64];
  if (best == nullptr) {
    std::snprintf(text, sizeof text, "shared+0x%x", offset);
    return text;
  }
  std::snprintf(text, sizeof text, "+0x%x", offset - best->offset);
  return best->name + text;
}

sync::Mbarrier Cluster::load_mbarrier(Cta& owner, std::uint32_t offset, const Instruction* where) {
  std::uint64_t bits = 0;
  std::memcpy(&bits, owner.shared.data() + offset, sizeof bits);
  const auto barrier = sync::Mbarrier::decode(bits);
  if (!barrier)
    launch_.fault(ReportKind::barrier_protocol, where,
                  "there is no initialised mbarrier at " + symbol(offset) + " of CTA " +
                      std::to_string(owner.rank) +
                      " of the cluster: mbarrier.init is missing, not yet visible, or data was "
                      "written over it");
  return *barrier;
}

std::uint64_t Cluster::update_mbarrier(Cta& owner, std::uint32_t offset,
                                       const MbarrierUpdate& update) {
  sync::Mbarrier barrier = load_mbarrier(owner, offset, update.instruction);
  const std::uint64_t before = barrier.encode();
  const auto fail = [&](const std::string& message) {
    launch_.fault(
        ReportKind::barrier_protocol, update.instruction,
        "mbarrier " + symbol(offset) + " of CTA " + std::to_string(owner.rank) + ": " + message);
  };
  const std::int64_t transactions = barrier.transactions + update.transactions;
  if (transactions > sync::Mbarrier::kMaxTransactions ||
      transactions < -sync::Mbarrier::kMaxTransactions)
    fail("the transaction count " + std::to_string(transactions) +
         " leaves its range of ±(2^20-1) bytes");
  barrier.transactions = static_cast<std::int32_t>(transactions);
  if (update.add_pending > sync::Mbarrier::kMaxCount - barrier.pending)
    fail("the pending count overflows");
  barrier.pending += update.add_pending;
  const std::uint64_t arrivals = std::uint64_t{update.arrivals} + update.drop;
  if (arrivals > barrier.pending)
    fail(std::to_string(arrivals) + " arrivals where only " + std::to_string(barrier.pending) +
         " of the expected " + std::to_string(barrier.expected) + " are pending in this phase");
  barrier.pending -= static_cast<std::uint32_t>(arrivals);
  if (update.drop >= barrier.expected && update.drop != 0) {
    // The last participant leaves; the barrier keeps one expected arrival so that it stays valid.
    barrier.expected = 1;
  } else {
    barrier.expected -= update.drop;
  }
  const std::uint32_t phase = barrier.phase;
  const bool completed = barrier.complete_phase();
  const std::uint64_t bits = barrier.encode();
  std::memcpy(owner.shared.data() + offset, &bits, sizeof bits);
  note_progress();

  BarrierHistory& history = owner.history[offset];
  if (update.event != BarrierEvent::expect_tx) {
    const auto known =
        std::find_if(history.arrivals.begin(), history.arrivals.end(), [&](const auto& a) {
          return a.instruction == update.instruction && a.agent.kind == update.agent.kind &&
                 a.agent.cta == update.agent.cta && a.agent.index == update.agent.index;
        });
    if (known != history.arrivals.end()) {
      known->phase = history.phases;
    } else if (history.arrivals.size() < 64) {
      history.arrivals.push_back({update.agent, update.instruction, history.phases});
    }
  }
  if (observer_) {
    MbarrierEvent event;
    event.event = update.event;
    event.agent = update.agent;
    event.cta = static_cast<std::uint8_t>(owner.rank);
    event.offset = offset;
    event.count = update.arrivals + update.drop != 0
                      ? update.arrivals + update.drop
                      : static_cast<std::uint32_t>(std::abs(update.transactions));
    event.phase = phase;
    event.semantics = update.semantics;
    event.scope = update.scope;
    event.lanes = update.lanes;
    event.instruction = update.instruction;
    event.operation = update.operation;
    event.pending = barrier.pending;
    event.expected = barrier.expected;
    event.transaction_bytes = barrier.transactions;
    observer_->on_mbarrier(event);
    if (completed) {
      event.event = BarrierEvent::phase_complete;
      observer_->on_mbarrier(event);
    }
  }
  if (completed) {
    ++history.phases;
    wake_mbarrier(owner, offset);
  }
  return before;
}

}  // namespace ptxemu::exec
