// The seam between the machine and its checkers: one call per event that matters for memory order.
//
// The machine calls an observer only if there is one; handlers test a pointer that is almost always
// null. Calls for one cluster come from one host thread at a time; calls for different clusters may
// be concurrent. Faults that stop the machine (out of bounds, deadlock, …) are raised by the
// machine itself.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "ir/instruction.hpp"
#include "ptxemu/device.hpp"

namespace ptxemu::exec {

using ir::Instruction;
using ir::LaneMask;

/// Who acts. Warps execute instructions; the other agents execute asynchronous operations late.
enum class AgentKind : std::uint8_t {
  warp,         ///< index = warp of the CTA
  tensor_core,  ///< wgmma; index = warpgroup of the CTA
  bulk_copy,    ///< TMA and bulk copies, each operation for itself
  cp_async,     ///< non-bulk cp.async; index = issuing warp
  st_async,     ///< st.async and red.async; index = issuing warp
};
struct Agent {
  AgentKind kind = AgentKind::warp;
  std::uint8_t cta = 0;  ///< rank in the cluster
  std::uint16_t index = 0;
};

/// Through which path memory is reached. cp.async and st.async write through the generic proxy.
enum class Proxy : std::uint8_t { generic, async, tensormap, constant };
enum class AccessKind : std::uint8_t { read, write, atomic };  ///< atomic = read-modify-write

/// One warp-wide access of an instruction, or one piece of an asynchronous operation.
struct Access {
  Agent agent;
  Proxy proxy = Proxy::generic;
  ir::Space space = ir::Space::global;  ///< resolved: global, shared (of CTA `cta`), local
  std::uint8_t cta = 0;                 ///< owner of shared memory
  AccessKind kind = AccessKind::read;
  ir::Semantics semantics = ir::Semantics::weak;
  ir::Scope scope = ir::Scope::none;
  const Instruction* instruction = nullptr;
  std::uint64_t operation = 0;  ///< asynchronous operation, 0 for synchronous accesses
  /// Synchronous: active lanes, one address each, `bytes` each, in the order of `lanes`' set bits
  /// at index = lane (so 32 entries). Asynchronous: `ranges`.
  LaneMask lanes = 0;
  std::uint32_t bytes = 0;
  std::span<const std::uint64_t>
      addresses;  ///< shared: offset in the CTA's window; global: address
  struct Range {
    std::uint64_t address;
    std::uint64_t bytes;
  };
  std::span<const Range> ranges;
  /// Where the value goes or comes from: register operands of the instruction (loads: written
  /// registers).
  bool to_registers = false;
};

/// One mbarrier operation that took effect.
enum class BarrierEvent : std::uint8_t {
  init,
  inval,
  arrive,
  arrive_drop,
  expect_tx,
  complete_tx,
  phase_complete,  ///< by the operation reported just before
  wait_success,    ///< a test_wait/try_wait returned true
  wait_fail,       ///< … returned false
  wait_blocked,    ///< a try_wait suspended
};
struct MbarrierEvent {
  BarrierEvent event = BarrierEvent::init;
  Agent agent;
  std::uint8_t cta = 0;      ///< owner of the barrier
  std::uint32_t offset = 0;  ///< of the barrier in the owner's shared memory
  std::uint32_t count = 0;   ///< arrivals, or transaction bytes
  std::uint32_t phase =
      0;  ///< parity of the phase the operation belongs to (waits: the awaited parity)
  ir::Semantics semantics = ir::Semantics::release;
  ir::Scope scope = ir::Scope::cta;
  LaneMask lanes = 0;
  const Instruction* instruction = nullptr;
  std::uint64_t operation = 0;  ///< the asynchronous operation that completes, 0 for warps
  // State after the event:
  std::uint32_t pending = 0, expected = 0;
  std::int32_t transaction_bytes = 0;
};

/// CTA (named) and cluster barriers. `participants` are reported once, when the barrier opens.
struct CtaBarrierEvent {
  enum class Kind : std::uint8_t { arrive, wait, complete } kind = Kind::arrive;
  std::uint8_t cta = 0;
  std::uint16_t warp = 0;
  std::uint8_t id = 0;
  std::uint32_t expected_threads = 0;
  LaneMask lanes = 0;
  const Instruction* instruction = nullptr;
};
struct ClusterBarrierEvent {
  enum class Kind : std::uint8_t { arrive, wait, complete } kind = Kind::arrive;
  std::uint8_t cta = 0;
  std::uint16_t warp = 0;
  ir::Semantics semantics = ir::Semantics::release;  ///< relaxed arrive gives no ordering
  LaneMask lanes = 0;
  const Instruction* instruction = nullptr;
};

enum class FenceKind : std::uint8_t {
  memory,       ///< fence/membar; see semantics and scope
  proxy_async,  ///< generic <-> async, for `space` (generic = all)
  proxy_alias,
  proxy_tensormap_acquire,
  proxy_tensormap_release,
  mbarrier_init,
  wgmma,  ///< wgmma.fence
};
struct FenceEvent {
  FenceKind kind = FenceKind::memory;
  Agent agent;
  LaneMask lanes = 0;
  ir::Space space = ir::Space::generic;
  ir::Semantics semantics = ir::Semantics::acq_rel;
  ir::Scope scope = ir::Scope::none;
  const Instruction* instruction = nullptr;
};

/// How completion of an asynchronous operation becomes visible.
enum class Completion : std::uint8_t { mbarrier, bulk_group, cp_async_group, wgmma_group, none };
struct AsyncIssue {
  std::uint64_t operation = 0;  ///< unique in the launch
  Agent agent;                  ///< that will execute it
  std::uint8_t cta = 0;         ///< issuing CTA
  std::uint16_t warp = 0;       ///< issuing warp (wgmma: the last of the four)
  LaneMask lanes = 0;
  Completion completion = Completion::none;
  const Instruction* instruction = nullptr;
};
enum class AsyncStage : std::uint8_t {
  start,        ///< begins to read its operands
  reads_done,   ///< sources may be reused (`.read` waits)
  writes_done,  ///< results are written
};

enum class GroupKind : std::uint8_t { cp_async, bulk, wgmma };
struct GroupEvent {
  GroupKind kind = GroupKind::bulk;
  bool wait = false;          ///< false: commit
  bool reads_only = false;    ///< `.read` waits
  std::uint32_t allowed = 0;  ///< N of wait_group N
  std::uint8_t cta = 0;
  std::uint16_t warp = 0;
  LaneMask lanes = 0;
  const Instruction* instruction = nullptr;
  /// Wait: every operation whose completion the wait guarantees and that was not reported before.
  /// Commit: the operations of the group.
  std::span<const std::uint64_t> operations;
};

/// A set of lanes that exchanged data or met (`shfl.sync`, `bar.warp.sync`, …): orders the lanes.
struct WarpSyncEvent {
  std::uint8_t cta = 0;
  std::uint16_t warp = 0;
  LaneMask lanes = 0;
  bool orders_memory = false;                  ///< bar.warp.sync only
  std::span<const std::uint8_t> source_lanes;  ///< shfl: 32 entries, whose value each lane received
  const Instruction* instruction = nullptr;
};

/// What a checker may look at while a cluster runs.
class ClusterView {
 public:
  virtual ~ClusterView() = default;
  [[nodiscard]] virtual std::uint32_t cta_count() const = 0;
  [[nodiscard]] virtual std::uint32_t warps_per_cta() const = 0;
  [[nodiscard]] virtual std::uint64_t cluster_index() const = 0;
  [[nodiscard]] virtual Dim3 cta_id(std::uint32_t rank) const = 0;
  [[nodiscard]] virtual std::span<const std::byte> shared_memory(std::uint32_t rank) const = 0;
  [[nodiscard]] virtual std::uint32_t register_bytes()
      const = 0;  ///< size of a warp's register bank
  [[nodiscard]] virtual const std::byte* registers(std::uint32_t rank,
                                                   std::uint32_t warp) const = 0;
  /// Immediates of the kernel (ir::Bank::constants), laid out like registers.
  [[nodiscard]] virtual const std::byte* constants() const = 0;
  /// "kernel+0x40" style name of a shared address: symbol and offset.
  [[nodiscard]] virtual std::string shared_name(std::uint32_t offset) const = 0;
};

/// Hears of everything one cluster does. All default to nothing.
class ClusterObserver {
 public:
  virtual ~ClusterObserver() = default;
  /// Before the instruction executes, with the lanes whose guard holds. Called for every
  /// instruction.
  virtual void on_instruction(std::uint32_t /*cta*/, std::uint32_t /*warp*/, LaneMask /*lanes*/,
                              const Instruction& /*instruction*/) {}
  virtual void on_access(const Access&) {}
  virtual void on_mbarrier(const MbarrierEvent&) {}
  virtual void on_cta_barrier(const CtaBarrierEvent&) {}
  virtual void on_cluster_barrier(const ClusterBarrierEvent&) {}
  virtual void on_fence(const FenceEvent&) {}
  virtual void on_async_issue(const AsyncIssue&) {}
  virtual void on_async_stage(std::uint64_t /*operation*/, AsyncStage) {}
  virtual void on_group(const GroupEvent&) {}
  virtual void on_warp_sync(const WarpSyncEvent&) {}
  /// setmaxnreg took effect for a warp.
  virtual void on_register_limit(std::uint32_t /*cta*/, std::uint32_t /*warp*/,
                                 std::uint32_t /*registers*/, const Instruction&) {}
  virtual void on_lanes_exit(std::uint32_t /*cta*/, std::uint32_t /*warp*/, LaneMask) {}
  /// All threads of the cluster are gone and nothing is pending.
  virtual void on_cluster_end() {}
};

/// Where checkers put their findings. Thread-safe; repeats at the same place are counted.
class ReportSink {
 public:
  virtual ~ReportSink() = default;
  virtual void add(ReportKind kind, const Instruction* where, std::string message,
                   const Instruction* other = nullptr) = 0;
};

/// Hears of one launch and makes an observer per cluster.
class LaunchObserver {
 public:
  virtual ~LaunchObserver() = default;
  virtual std::unique_ptr<ClusterObserver> begin_cluster(const ClusterView& view) = 0;
  /// After the last cluster.
  virtual void on_kernel_end() {}
  // Memory as the host sees it between launches:
  virtual void on_global_allocate(DevicePointer, std::uint64_t /*bytes*/, bool /*initialised*/) {}
  virtual void on_global_free(DevicePointer) {}
  virtual void on_host_write(DevicePointer, std::uint64_t /*bytes*/) {}
};

}  // namespace ptxemu::exec
