// Runs a cluster: picks warps and asynchronous operations by the schedule, merges splits, finds
// stalls.
#include <algorithm>

#include "exec/cluster.hpp"
#include "sync/deadlock.hpp"

namespace ptxemu::exec {
namespace {

constexpr std::uint32_t kQuantum = 512;
/// Rounds of full quanta after which the lazy schedules run one operation, so that spinning on
/// plain loads cannot starve the asynchronous agents.
constexpr std::uint32_t kPatience = 64;
/// Expired waits in a row without any progress that make a deadlock.
constexpr std::uint32_t kDeadlockStalls = 16;

}  // namespace

ClusterStatus Cluster::run(std::uint64_t slice) {
  const std::uint64_t until = executed_ + slice;
  while (executed_ < until) {
    if (live_warps_ == 0) {
      drain_async();
      if (observer_) observer_->on_cluster_end();
      check_budgets();
      return ClusterStatus::finished;
    }
    const bool ran = launch_.options.schedule == Schedule::random ? step_random() : step_warps();
    if (ran) {
      if (++rounds_ % kPatience == 0) step_async();
    } else if (!step_async() && !resolve_stall()) {
      check_budgets();
      return ClusterStatus::idle;
    }
    if ((rounds_ & 15) == 0) check_budgets();
  }
  check_budgets();
  return ClusterStatus::running;
}

void Cluster::give_up(std::string_view reason) {
  DeadlockReport(*this).raise(reason);
}

void Cluster::check_budgets() {
  const std::uint64_t total =
      launch_.warp_instructions.fetch_add(executed_ - accounted_) + (executed_ - accounted_);
  launch_.thread_instructions.fetch_add(executed_threads_ - accounted_threads_);
  launch_.tensor_flops.fetch_add(flops_);
  flops_ = 0;
  accounted_ = executed_;
  accounted_threads_ = executed_threads_;
  if (launch_.stop.load(std::memory_order_relaxed)) throw Fault{};
  const DeviceOptions& options = launch_.options;
  if (options.instruction_budget != 0 && total > options.instruction_budget)
    launch_.fault(ReportKind::budget_exceeded, nullptr,
                  "the launch executed more than its budget of " +
                      std::to_string(options.instruction_budget) + " warp-instructions" +
                      DeadlockReport(*this).waiters());
  if (options.time_budget_seconds > 0) {
    const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - launch_.start;
    if (elapsed.count() > options.time_budget_seconds)
      launch_.fault(ReportKind::budget_exceeded, nullptr,
                    "the launch ran longer than its budget of " +
                        std::to_string(options.time_budget_seconds) + " s" +
                        DeadlockReport(*this).waiters());
  }
}

Split* Cluster::pick(Warp& warp) {
  Split* best = nullptr;
  for (const auto& candidate : warp.splits) {
    if (candidate->state != SplitState::ready) continue;
    if (best == nullptr) {
      best = candidate.get();
    } else if (warp.fair) {
      if (candidate->last_run < best->last_run) best = candidate.get();
    } else if (candidate->calls.size() != best->calls.size()) {
      if (candidate->calls.size() > best->calls.size()) best = candidate.get();
    } else if (candidate->pc < best->pc) {
      best = candidate.get();
    }
  }
  return best;
}

bool Cluster::step_warps() {
  bool ran = false;
  for (Cta& cta : ctas_) {
    for (Warp& warp : cta.warps) {
      if (warp.live == 0) continue;
      Split* split = pick(warp);
      if (split == nullptr) continue;
      run_split(warp, *split, kQuantum);
      ran = true;
    }
  }
  return ran;
}

bool Cluster::step_random() {
  // One random warp for a random time, and asynchronous work in between.
  if (!operations_.empty() && random_() % 8 == 0) step_async();
  const std::size_t total = ctas_.size() * warps_per_cta_;
  const std::size_t first = random_() % total;
  for (std::size_t i = 0; i < total; ++i) {
    const std::size_t index = (first + i) % total;
    Warp& warp = ctas_[index / warps_per_cta_].warps[index % warps_per_cta_];
    if (warp.live == 0) continue;
    std::vector<Split*> ready;
    for (const auto& split : warp.splits) {
      if (split->state == SplitState::ready) ready.push_back(split.get());
    }
    if (ready.empty()) continue;
    // Mostly the split that is behind, so that lanes still meet; sometimes any.
    Split* split = random_() % 4 != 0 ? pick(warp) : ready[random_() % ready.size()];
    run_split(warp, *split, 1 + static_cast<std::uint32_t>(random_() % 64));
    return true;
  }
  return false;
}

bool Cluster::meet(Warp& warp, Split& split) {
  bool behind = false;
  for (std::size_t i = 0; i < warp.splits.size(); ++i) {
    Split& other = *warp.splits[i];
    if (&other == &split ||
        (other.state != SplitState::ready && other.state != SplitState::converging))
      continue;
    if (other.pc == split.pc && other.frame == split.frame && other.calls == split.calls) {
      split.lanes |= other.lanes;
      warp.splits.erase(warp.splits.begin() + static_cast<std::ptrdiff_t>(i));
      --i;
    } else if (other.state == SplitState::ready && other.calls.size() >= split.calls.size() &&
               (other.calls.size() > split.calls.size() || other.pc < split.pc)) {
      behind = true;
    }
  }
  return behind && !warp.fair;
}

void Cluster::run_split(Warp& warp, Split& split, std::uint32_t quantum) {
  context_.enter(*this, warp, split);
  const Instruction* code = launch_.kernel->code.data();
  const std::size_t code_size = launch_.kernel->code.size();
  split.last_run = executed_;
  std::uint64_t executed = 0;
  if (warp.splits.size() > 1) meet(warp, split);
  while (quantum-- > 0) {
    if (split.pc >= code_size)
      launch_.fault(ReportKind::illegal_instruction, nullptr, "execution left the code");
    const Instruction& in = code[split.pc];
    LaneMask lanes = split.lanes;
    if (in.guard.present()) lanes &= context_.predicate(in.guard);
    ++executed;
    executed_threads_ += static_cast<unsigned>(std::popcount(lanes));
    ++split.pc;
    Action action = Action::next;
    if (lanes != 0) {
      if (observer_ && !split.retry)
        observer_->on_instruction(warp.cta->rank, warp.index, lanes, in);
      split.retry = false;
      action = in.handler(context_, in, lanes);
    }
    if (action == Action::next || action == Action::branch) [[likely]] {
      if (warp.splits.size() > 1 && meet(warp, split)) break;
      continue;
    }
    executed_ += executed;
    if (action == Action::yield) {
      if (split.state == SplitState::ready) split.state = SplitState::yielded;
    } else if (action == Action::exit && split.lanes != 0) {
      executed = 0;
      continue;  // a guarded exit: the other lanes go on
    } else if (action == Action::exit) {
      std::erase_if(warp.splits, [&](const auto& s) { return s.get() == &split; });
    }
    warp.fair = false;
    return;
  }
  executed_ += executed;
  // A split that used up its time lets its siblings go first once.
  warp.fair = warp.splits.size() > 1 && quantum == ~0u;
}

void Cluster::lanes_exited(Warp& warp, LaneMask lanes) {
  warp.live &= ~lanes;
  const auto count = static_cast<std::uint32_t>(std::popcount(lanes));
  warp.cta->live_threads -= count;
  cluster_live_ -= count;
  // Threads that arrived at the cluster barrier and leave count neither as live nor as arrived.
  for (LaneMask rest = lanes; rest != 0; rest &= rest - 1) {
    if (warp.cluster_phase[static_cast<std::size_t>(std::countr_zero(rest))] == cluster_phase_ + 1)
      --cluster_arrived_;
  }
  note_progress();
  if (observer_) observer_->on_lanes_exit(warp.cta->rank, warp.index, lanes);
  if (warp.live == 0) --live_warps_;
  wake_converging(warp);
  for (std::uint32_t id = 0; id < warp.cta->barriers.size(); ++id)
    open_named_if_complete(*warp.cta, id);
  open_cluster_if_complete();
}

void Cluster::wake_converging(Warp& warp) {
  for (const auto& split : warp.splits) {
    if (split->state == SplitState::converging) split->state = SplitState::ready;
  }
}

void Cluster::wake_mbarrier(const Cta& owner, std::uint32_t offset) {
  for (Cta& cta : ctas_) {
    for (Warp& warp : cta.warps) {
      for (const auto& split : warp.splits) {
        if (split->state == SplitState::mbarrier && split->barrier_cta == &owner &&
            split->barrier == offset)
          split->state = SplitState::ready;
      }
    }
  }
}

void Cluster::wake_groups(Warp& warp) {
  for (const auto& split : warp.splits) {
    if (split->state == SplitState::group) split->state = SplitState::ready;
  }
}

void Cluster::issue(std::unique_ptr<AsyncOperation> operation) {
  note_progress();
  launch_.async_operations.fetch_add(1, std::memory_order_relaxed);
  if (observer_) {
    AsyncIssue event;
    event.operation = operation->id;
    event.agent = operation->agent;
    event.cta = static_cast<std::uint8_t>(operation->cta->rank);
    event.warp = static_cast<std::uint16_t>(operation->warp->index);
    event.lanes = operation->lanes;
    event.completion = operation->completion;
    event.instruction = operation->instruction;
    observer_->on_async_issue(event);
  }
  operations_.push_back(std::move(operation));
  if (launch_.options.schedule == Schedule::eager) {
    while (!operations_.empty()) execute_async(0);
  }
}

bool Cluster::step_async() {
  if (operations_.empty()) return false;
  std::size_t index = 0;
  if (launch_.options.schedule == Schedule::reverse) index = operations_.size() - 1;
  if (launch_.options.schedule == Schedule::random) index = random_() % operations_.size();
  // What must wait for others gives way to the oldest that need not; there is always one.
  for (std::size_t i = 0; operations_[index]->blocked() && i < operations_.size(); ++i) {
    if (!operations_[i]->blocked()) index = i;
  }
  // Not before an older operation of the same order.
  if (const std::uint64_t order = operations_[index]->order; order != 0) {
    for (std::size_t i = 0; i < index; ++i) {
      if (operations_[i]->order == order) {
        index = i;
        break;
      }
    }
  }
  return execute_async(index);
}

bool Cluster::execute_async(std::size_t index) {
  note_progress();
  // Out of the queue while it runs: its effects may issue nothing, but may look at the queue.
  std::unique_ptr<AsyncOperation> operation = std::move(operations_[index]);
  operations_.erase(operations_.begin() + static_cast<std::ptrdiff_t>(index));
  if (!operation->started) {
    operation->started = true;
    if (observer_) observer_->on_async_stage(operation->id, AsyncStage::start);
  }
  if (!operation->step(*this))
    operations_.insert(operations_.begin() + static_cast<std::ptrdiff_t>(index),
                       std::move(operation));
  return true;
}

void Cluster::finish_reads(AsyncOperation& operation) {
  if (observer_) observer_->on_async_stage(operation.id, AsyncStage::reads_done);
  if (operation.completion != Completion::bulk_group) return;
  operation.warp->bulk.reads_done(operation.id);
  wake_groups(*operation.warp);
}

void Cluster::finish(AsyncOperation& operation) {
  if (observer_) observer_->on_async_stage(operation.id, AsyncStage::writes_done);
  const bool keep = observer_ != nullptr;
  switch (operation.completion) {
    case Completion::bulk_group:
      operation.warp->bulk.done(operation.id, keep);
      break;
    case Completion::cp_async_group:
      operation.warp->cp_async.done(operation.id, keep);
      break;
    case Completion::wgmma_group: {
      // Of all four warps of the warpgroup.
      const std::size_t first = operation.agent.index * 4U;
      for (std::size_t w = first; w < first + 4; ++w) {
        operation.cta->warps[w].wgmma.done(operation.id, keep);
        wake_groups(operation.cta->warps[w]);
      }
      return;
    }
    default:
      return;
  }
  wake_groups(*operation.warp);
}

void Cluster::drain_async() {
  while (step_async()) {
  }
}

bool Cluster::resolve_stall() {
  // First those whose poll failed, then waits that expire.
  bool polled = false, slept = false;
  const auto for_splits = [&](auto&& action) {
    for (Cta& cta : ctas_) {
      for (Warp& warp : cta.warps) {
        for (const auto& split : warp.splits) action(*split);
      }
    }
  };
  for_splits([&](Split& split) {
    if (split.state == SplitState::sleeping) slept = true;
    if (split.state == SplitState::yielded) polled = true;
    if (split.state == SplitState::sleeping || split.state == SplitState::yielded)
      split.state = SplitState::ready;
  });
  if (progress_ != stall_progress_) {
    stall_progress_ = progress_;
    stalls_ = 0;
  }
  if (slept) return false;  // it may wait for another cluster
  ++stalls_;
  constexpr std::string_view kStuck =
      "no thread of the cluster can go on and nothing asynchronous is pending";
  if (stalls_ > kDeadlockStalls + (polled ? 1000u : 0u)) DeadlockReport(*this).raise(kStuck);
  if (polled) return true;
  bool woken = false;
  for_splits([&](Split& split) {
    if (split.state != SplitState::mbarrier) return;
    split.state = SplitState::ready;
    split.timed_out = true;
    woken = true;
  });
  if (!woken) DeadlockReport(*this).raise(kStuck);
  return true;
}

}  // namespace ptxemu::exec
