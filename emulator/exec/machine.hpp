// The machine's state while a kernel runs: launch, cluster, CTA, warp, and the splits of a warp.
//
// Threads of a warp that stand at the same place run together as a *split*. A divergent branch
// makes two splits; splits that meet again at one instruction merge. A split that waits never holds
// up its siblings, which gives the forward progress that the ISA promises to single threads.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <random>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "exec/observer.hpp"
#include "ir/program.hpp"
#include "mem/address.hpp"
#include "mem/global_memory.hpp"
#include "ptxemu/device.hpp"
#include "sync/groups.hpp"
#include "sync/mbarrier.hpp"

namespace ptxemu::exec {

using ir::Action;
using ir::Kernel;
using ir::kFullMask;
using ir::kWarpSize;
using ir::Operand;

class Cluster;
struct Cta;
struct Warp;

/// Stops the launch; the report is already in the sink.
struct Fault {};

/// What all clusters of one launch share.
struct Launch {
  const Kernel* kernel = nullptr;
  LaunchConfig config;  ///< with the final cluster size
  DeviceOptions options;
  mem::GlobalMemory* memory = nullptr;
  std::byte* parameters = nullptr;  ///< device copy of the parameter block
  ReportSink* reports = nullptr;
  LaunchObserver* observer = nullptr;
  std::function<void(std::string_view)> print;
  std::chrono::steady_clock::time_point start;
  std::atomic<bool> stop{false};
  std::uint32_t workers = 1;                    ///< host threads that run clusters
  std::atomic<std::uint32_t> quiet_workers{0};  ///< of these, with nothing but sleeping clusters
  std::atomic<std::uint64_t> warp_instructions{0};
  std::atomic<std::uint64_t> thread_instructions{0};
  std::atomic<std::uint64_t> async_operations{0};
  std::atomic<std::uint64_t> tensor_flops{0};
  std::atomic<std::uint64_t> next_operation{1};
  /// Reports and throws Fault.
  [[noreturn]] void fault(ReportKind kind, const Instruction* where, std::string message);
};

enum class SplitState : std::uint8_t {
  ready,
  yielded,     ///< a poll failed: others first
  sleeping,    ///< nanosleep: other clusters may go first, too
  converging,  ///< waits for siblings at the same instruction
  cta_barrier,
  cluster_barrier,
  mbarrier,
  group,  ///< wait for asynchronous groups
};

struct CallFrame {
  std::uint32_t return_pc = 0;
  std::uint32_t call_site = 0;
  std::uint32_t function = 0;  ///< of the caller
  std::uint32_t frame = 0;     ///< of the caller
  friend bool operator==(const CallFrame& a, const CallFrame& b) {
    return a.return_pc == b.return_pc && a.frame == b.frame && a.call_site == b.call_site;
  }
};

struct Split {
  std::uint32_t pc = 0;
  LaneMask lanes = 0;
  SplitState state = SplitState::ready;
  bool retry = false;      ///< the next execution repeats an instruction
  bool timed_out = false;  ///< the suspended try_wait shall return false
  std::uint32_t function = 0;
  std::uint32_t frame = 0;  ///< offset of the current stack frame in local memory
  std::uint64_t last_run = 0;
  std::vector<CallFrame> calls;
  // While it waits:
  const Instruction* waiting_at = nullptr;
  Cta* barrier_cta = nullptr;
  std::uint32_t barrier = 0;  ///< offset of an mbarrier, or number of a named barrier
  std::uint32_t parity = 0;
};

struct Warp {
  Cta* cta = nullptr;
  std::uint32_t index = 0;
  LaneMask live = 0;
  LaneMask all = 0;   ///< lanes that exist
  bool fair = false;  ///< run the least recently run split next
  std::byte* registers = nullptr;
  std::byte* specials = nullptr;
  std::vector<std::unique_ptr<Split>> splits;
  std::array<std::vector<std::byte>, kWarpSize> local;
  sync::GroupTracker cp_async, bulk, wgmma;
  std::uint64_t wgmma_issued = 0;  ///< matches the four warps of a warpgroup
  std::uint64_t wgmma_unfinished = 0;
  std::uint32_t register_limit = 0;
  LaneMask carry = 0;  ///< the condition code of add.cc and friends, per lane
  std::array<std::uint32_t, kWarpSize>
      cluster_phase{};  ///< phase of each lane's last cluster arrive
};

/// bar / barrier.cta number 0-15.
struct NamedBarrier {
  std::uint32_t expected = 0;  ///< threads; 0 = nobody has arrived
  bool whole_cta = false;      ///< no thread count was given
  std::uint32_t arrived = 0;
  LaneMask vote_all = kFullMask, vote_any = 0;
  std::uint32_t vote_count = 0;
  std::vector<std::pair<Warp*, Split*>> waiting;
  const Instruction* last_arrival = nullptr;
};

/// Arrivals that a barrier has seen: for the deadlock report.
struct BarrierHistory {
  struct Arrival {
    Agent agent;
    const Instruction* instruction;
    std::uint32_t phase;  ///< counter, not parity
  };
  std::uint32_t phases = 0;
  std::vector<Arrival> arrivals;  ///< one per agent and instruction, the newest
};

struct Cta {
  Cluster* cluster = nullptr;
  std::uint32_t rank = 0;
  Dim3 id{0, 0, 0};
  ir::AlignedBytes shared;
  std::vector<Warp> warps;
  std::array<NamedBarrier, 16> barriers;
  std::uint32_t live_threads = 0;
  std::unordered_map<std::uint32_t, BarrierHistory> history;
  [[nodiscard]] std::uint32_t tag() const { return rank << mem::kRankShift; }
};

/// Work that executes later than it was issued. It reads its operands when it executes.
struct AsyncOperation {
  virtual ~AsyncOperation() = default;
  /// One stage; true when nothing is left to do.
  virtual bool step(Cluster& cluster) = 0;
  /// Whether something that must come before is not complete yet.
  [[nodiscard]] virtual bool blocked() const { return false; }
  std::uint64_t id = 0;
  Agent agent;
  Cta* cta = nullptr;  ///< issuing
  Warp* warp = nullptr;
  LaneMask lanes = 0;
  const Instruction* instruction = nullptr;
  Completion completion = Completion::none;
  std::uint64_t order = 0;  ///< operations of one non-zero order execute first in, first out
  bool started = false;
};

}  // namespace ptxemu::exec
