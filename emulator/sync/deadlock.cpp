// Who waits for what when nothing moves, and the cycle of waits if there is one.
#include "sync/deadlock.hpp"

#include <algorithm>

namespace ptxemu::exec {
namespace {

constexpr std::size_t kMaxListed = 24;
constexpr std::size_t kLoopLength =
    64;  // instructions above a poll in which its load is looked for

std::string place(const Kernel& kernel, const Instruction& in) {
  SourcePosition position = ir::position_of(kernel, in);
  position.function.clear();
  return to_string(position);
}

std::string agent_name(const Agent& agent) {
  static constexpr std::string_view kKinds[] = {"warp ", "tensor core of warpgroup ", "bulk copy",
                                                "cp.async of warp ", "st.async of warp "};
  std::string text(kKinds[static_cast<std::size_t>(agent.kind)]);
  if (agent.kind != AgentKind::bulk_copy) text += std::to_string(agent.index);
  return text + " of CTA rank " + std::to_string(agent.cta);
}

}  // namespace

void DeadlockReport::collect() {
  for (Cta& cta : cluster_.ctas_) {
    for (Warp& warp : cta.warps) {
      for (const auto& split : warp.splits) waiters_.push_back({&cta, &warp, split.get()});
    }
  }
}

std::string DeadlockReport::name(const Waiter& w) const {
  char text[80];
  if (w.split->lanes == w.warp->all) {
    std::snprintf(text, sizeof text, "warp %u of CTA rank %u", w.warp->index, w.cta->rank);
  } else {
    std::snprintf(text, sizeof text, "warp %u (lanes 0x%08x) of CTA rank %u", w.warp->index,
                  w.split->lanes, w.cta->rank);
  }
  return text;
}

std::string DeadlockReport::describe_mbarrier(const Split& split) const {
  std::uint64_t bits = 0;
  std::memcpy(&bits, split.barrier_cta->shared.data() + split.barrier, sizeof bits);
  std::string text =
      "mbarrier " + cluster_.symbol(split.barrier) + ", parity " + std::to_string(split.parity);
  const auto barrier = sync::Mbarrier::decode(bits);
  if (!barrier) return text + " (no longer a valid barrier)";
  text += " (phase parity " + std::to_string(barrier->phase) + ", " +
          std::to_string(barrier->pending) + " of " + std::to_string(barrier->expected) +
          " arrivals and " + std::to_string(barrier->transactions) + " transaction bytes pending)";
  const auto history = split.barrier_cta->history.find(split.barrier);
  if (history == split.barrier_cta->history.end()) return text + "; nothing has arrived at it yet";
  text += "; " + std::to_string(history->second.phases) + " phases are complete; last arrivals:";
  std::size_t shown = 0;
  for (const auto& arrival : history->second.arrivals) {
    if (++shown > 3) break;
    text +=
        " [" + agent_name(arrival.agent) +
        (arrival.instruction != nullptr ? " at line " + std::to_string(arrival.instruction->line)
                                        : std::string()) +
        ", phase " + std::to_string(arrival.phase) + "]";
  }
  return text;
}

std::string DeadlockReport::polled(const Waiter& w) const {
  const std::vector<Instruction>& code = cluster_.launch_.kernel->code;
  const std::size_t pc = std::min<std::size_t>(w.split->pc, code.size() - 1);
  for (std::size_t back = 0; back <= std::min(pc, kLoopLength); ++back) {
    const Instruction& in = code[pc - back];
    const bool loads = in.category == ir::Category::load || in.category == ir::Category::atomic;
    if (!loads || in.addresses.empty() || in.space == ir::Space::param ||
        in.space == ir::Space::local || in.space == ir::Space::constant)
      continue;
    Context context;
    context.enter(cluster_, *w.warp, *w.split);
    char text[64];
    std::snprintf(
        text, sizeof text, "; it polls 0x%llx, ",
        static_cast<unsigned long long>(context.address(in.addresses[0], w.split->lanes)));
    return text + std::string(in.opcode) + " at " + place(*cluster_.launch_.kernel, in);
  }
  return {};
}

std::string DeadlockReport::describe(const Waiter& w) const {
  const Split& split = *w.split;
  const Kernel& kernel = *cluster_.launch_.kernel;
  const bool polls = split.state == SplitState::ready || split.state == SplitState::yielded ||
                     split.state == SplitState::sleeping;
  const Instruction* at =
      split.waiting_at != nullptr && !(polls && split.barrier_cta == nullptr)
          ? split.waiting_at
          : &kernel.code[std::min<std::size_t>(split.pc, kernel.code.size() - 1)];
  if (polls && split.barrier_cta == nullptr)
    return name(w) + " stands at " + place(kernel, *at) + polled(w);
  std::string text = name(w) + " waits for ";
  switch (split.state) {
    case SplitState::converging:
      text += "its other lanes at an instruction that all must execute together";
      break;
    case SplitState::cta_barrier: {
      const NamedBarrier& barrier = w.cta->barriers[split.barrier];
      const std::uint32_t needed = barrier.whole_cta ? w.cta->live_threads : barrier.expected;
      text += "barrier " + std::to_string(split.barrier) + " (" + std::to_string(barrier.arrived) +
              " of " + std::to_string(needed) + " threads have arrived)";
      break;
    }
    case SplitState::cluster_barrier:
      text += "the cluster barrier (" + std::to_string(cluster_.cluster_arrived_) + " of " +
              std::to_string(cluster_.cluster_live_) + " threads have arrived)";
      break;
    case SplitState::group:
      text += "asynchronous groups that were never issued by all four warps";
      break;
    default:
      text += describe_mbarrier(split);
  }
  return text + " at " + place(kernel, *at);
}

std::vector<std::size_t> DeadlockReport::depends_on(const Waiter& w) const {
  std::vector<std::size_t> result;
  const auto add = [&](auto&& matches) {
    for (std::size_t i = 0; i < waiters_.size(); ++i) {
      if (matches(waiters_[i])) result.push_back(i);
    }
  };
  const Split& split = *w.split;
  switch (split.state) {
    case SplitState::converging:
      add([&](const Waiter& o) { return o.warp == w.warp && o.split != w.split; });
      break;
    case SplitState::cta_barrier:
      add([&](const Waiter& o) {
        return o.cta == w.cta &&
               !(o.split->state == SplitState::cta_barrier && o.split->barrier == split.barrier);
      });
      break;
    case SplitState::cluster_barrier:
      add([&](const Waiter& o) { return o.split->state != SplitState::cluster_barrier; });
      break;
    default: {
      if (split.barrier_cta == nullptr) break;
      const auto history = split.barrier_cta->history.find(split.barrier);
      if (history == split.barrier_cta->history.end()) break;
      for (const auto& arrival : history->second.arrivals) {
        if (arrival.agent.kind != AgentKind::warp || arrival.phase == history->second.phases)
          continue;
        add([&](const Waiter& o) {
          return o.cta->rank == arrival.agent.cta && o.warp->index == arrival.agent.index;
        });
      }
    }
  }
  return result;
}

std::string DeadlockReport::cycle() const {
  // Depth-first search for a cycle of waits.
  std::vector<int> state(waiters_.size());
  std::vector<std::size_t> path;
  std::string text;
  const auto visit = [&](auto&& self, std::size_t i) -> bool {
    state[i] = 1;
    path.push_back(i);
    for (const std::size_t next : depends_on(waiters_[i])) {
      if (state[next] == 1) {
        const auto first = std::find(path.begin(), path.end(), next);
        for (auto it = first; it != path.end(); ++it) text += name(waiters_[*it]) + " -> ";
        text += name(waiters_[next]);
        return true;
      }
      if (state[next] == 0 && self(self, next)) return true;
    }
    state[i] = 2;
    path.pop_back();
    return false;
  };
  for (std::size_t i = 0; i < waiters_.size(); ++i) {
    if (state[i] == 0 && visit(visit, i)) break;
  }
  return text;
}

std::string DeadlockReport::waiters() {
  collect();
  std::string text;
  for (std::size_t i = 0; i < std::min(waiters_.size(), kMaxListed); ++i)
    text += "\n  " + describe(waiters_[i]);
  if (waiters_.size() > kMaxListed)
    text += "\n  … and " + std::to_string(waiters_.size() - kMaxListed) + " more";
  return text;
}

void DeadlockReport::raise(std::string_view reason) {
  std::string message = "deadlock: " + std::string(reason) + waiters();
  const Kernel& kernel = *cluster_.launch_.kernel;
  // A warp whose lanes wait for each other at different instructions has diverged for good.
  for (const Waiter& w : waiters_) {
    if (w.split->state != SplitState::converging) continue;
    bool others = false;
    for (const Waiter& o : waiters_)
      others |= o.warp == w.warp && o.split->state != SplitState::converging;
    if (others) continue;
    std::string divergence =
        name(w) + " executes an instruction that all its lanes must execute together";
    for (const Waiter& o : waiters_) {
      if (o.warp == w.warp && o.split != w.split)
        divergence += "; " + name(o) + " stands at " + place(kernel, *o.split->waiting_at);
    }
    cluster_.launch_.fault(ReportKind::divergence, w.split->waiting_at, divergence);
  }
  const Instruction* where = nullptr;
  for (const Waiter& w : waiters_) {
    if (where == nullptr) where = w.split->waiting_at;
  }
  if (const std::string found = cycle(); !found.empty()) message += "\n  cycle of waits: " + found;
  cluster_.launch_.fault(ReportKind::deadlock, where, message);
}

}  // namespace ptxemu::exec
