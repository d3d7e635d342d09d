// One cluster of CTAs: owns their state, schedules their warps and their asynchronous operations.
#pragma once

#include <functional>

#include "exec/context.hpp"
#include "exec/machine.hpp"

namespace ptxemu::exec {

enum class ClusterStatus : std::uint8_t {
  finished,
  running,  ///< the slice is used up
  idle,     ///< only sleeping splits: let other clusters run
};

class Cluster final : public ClusterView {
 public:
  Cluster(Launch& launch, std::uint64_t index);
  ~Cluster() override;
  /// Runs about `slice` warp-instructions. Throws Fault.
  ClusterStatus run(std::uint64_t slice);
  /// Changes whenever something happens that another thread may wait for.
  [[nodiscard]] std::uint64_t progress() const { return progress_; }
  /// Reports a deadlock because of `reason`, and throws Fault.
  [[noreturn]] void give_up(std::string_view reason);

  // For handlers and asynchronous operations:
  Launch& launch() { return launch_; }
  Cta& cta(std::uint32_t rank) { return ctas_[rank]; }
  ClusterObserver* observer() { return observer_.get(); }
  [[nodiscard]] bool observed() const { return observer_ != nullptr; }
  /// Announces the operation and queues it; the eager schedule executes it at once.
  void issue(std::unique_ptr<AsyncOperation> operation);
  /// Something happened that another thread may wait for.
  void note_progress() { ++progress_; }
  void wake_mbarrier(const Cta& owner, std::uint32_t offset);
  void wake_groups(Warp& warp);
  void wake_converging(Warp& warp);
  /// An operation's sources are free, or its results are written: observers and group waits.
  void finish_reads(AsyncOperation& operation);
  void finish(AsyncOperation& operation);
  void lanes_exited(Warp& warp, LaneMask lanes);

  // Named and cluster barriers (sync/barriers.cpp).
  void arrive_named(Warp& warp, std::uint32_t id, std::uint32_t threads, std::uint32_t arriving,
                    LaneMask lanes, const Instruction& in);
  void open_named_if_complete(Cta& cta, std::uint32_t id);
  void arrive_cluster(Warp& warp, LaneMask lanes);
  void open_cluster_if_complete();
  [[nodiscard]] std::uint32_t cluster_phase() const { return cluster_phase_; }

  // mbarriers (sync/mbarrier_ops.cpp).
  struct MbarrierUpdate {
    BarrierEvent event = BarrierEvent::arrive;
    std::uint32_t arrivals = 0;
    std::int64_t transactions = 0;  ///< > 0 expect, < 0 complete
    std::uint32_t drop = 0;         ///< arrivals that leave the barrier for good
    std::uint32_t add_pending = 0;  ///< cp.async.mbarrier.arrive without .noinc
    Agent agent;
    LaneMask lanes = 0;
    const Instruction* instruction = nullptr;
    std::uint64_t operation = 0;
    ir::Semantics semantics = ir::Semantics::release;
    ir::Scope scope = ir::Scope::cta;
  };
  /// Applies an update to a barrier; returns the state before it (the state token).
  std::uint64_t update_mbarrier(Cta& owner, std::uint32_t offset, const MbarrierUpdate& update);
  /// Reads the barrier at `offset`; faults when there is none.
  sync::Mbarrier load_mbarrier(Cta& owner, std::uint32_t offset, const Instruction* where);

  /// A fresh operation of the executing lanes.
  template <typename T>
  std::unique_ptr<T> make_operation(const Context& context, const Instruction& in, LaneMask lanes,
                                    AgentKind kind, Completion completion) {
    auto operation = std::make_unique<T>();
    operation->id = new_operation();
    operation->agent = {kind, static_cast<std::uint8_t>(context.cta->rank),
                        static_cast<std::uint16_t>(context.warp->index)};
    operation->cta = context.cta;
    operation->warp = context.warp;
    operation->lanes = lanes;
    operation->instruction = &in;
    operation->completion = completion;
    return operation;
  }
  std::uint64_t new_operation() {
    return launch_.next_operation.fetch_add(1, std::memory_order_relaxed);
  }
  /// Warps of a warpgroup meet here: operation k of the group is issued when all four have issued
  /// it.
  std::unordered_map<std::uint64_t, std::unique_ptr<AsyncOperation>>& gathering() {
    return gathering_;
  }
  std::mt19937_64& random() { return random_; }
  /// Monotonic; one tick per warp-instruction and per reading.
  std::uint64_t read_clock() { return executed_ + ++clock_readings_; }
  [[nodiscard]] std::string symbol(std::uint32_t offset) const;
  void add_flops(std::uint64_t flops) { flops_ += flops; }

  // ClusterView:
  [[nodiscard]] std::uint32_t cta_count() const override {
    return static_cast<std::uint32_t>(ctas_.size());
  }
  [[nodiscard]] std::uint32_t warps_per_cta() const override { return warps_per_cta_; }
  [[nodiscard]] std::uint64_t cluster_index() const override { return index_; }
  [[nodiscard]] Dim3 cta_id(std::uint32_t rank) const override { return ctas_[rank].id; }
  [[nodiscard]] std::span<const std::byte> shared_memory(std::uint32_t rank) const override {
    return ctas_[rank].shared;
  }
  [[nodiscard]] std::uint32_t register_bytes() const override {
    return launch_.kernel->register_bytes;
  }
  [[nodiscard]] const std::byte* registers(std::uint32_t rank, std::uint32_t warp) const override {
    return ctas_[rank].warps[warp].registers;
  }
  [[nodiscard]] const std::byte* constants() const override {
    return launch_.kernel->constants.data();
  }
  [[nodiscard]] std::string shared_name(std::uint32_t offset) const override {
    return symbol(offset);
  }

 private:
  friend class DeadlockReport;
  void make_cta(Cta& cta, std::uint32_t rank);
  void fill_specials(const Cta& cta, Warp& warp);
  bool step_warps();
  bool step_random();
  Split* pick(Warp& warp);
  void run_split(Warp& warp, Split& split, std::uint32_t quantum);
  /// Merges other splits into `split`; true when it should give way to one that is behind.
  bool meet(Warp& warp, Split& split);
  bool step_async();
  bool execute_async(std::size_t index);
  void drain_async();
  /// Nothing can run: expired waits, sleepers, or a deadlock. False when the cluster should idle.
  bool resolve_stall();
  void check_budgets();

  Launch& launch_;
  std::uint64_t index_;
  std::uint32_t warps_per_cta_ = 0;
  std::deque<Cta> ctas_;
  ir::AlignedBytes registers_;
  ir::AlignedBytes specials_;
  Context context_;
  std::unique_ptr<ClusterObserver> observer_;
  std::vector<std::unique_ptr<AsyncOperation>> operations_;
  std::unordered_map<std::uint64_t, std::unique_ptr<AsyncOperation>> gathering_;
  std::mt19937_64 random_;
  std::uint64_t executed_ = 0;
  std::uint64_t executed_threads_ = 0;
  std::uint64_t clock_readings_ = 0;
  std::uint64_t flops_ = 0;
  std::uint64_t accounted_ = 0;
  std::uint64_t accounted_threads_ = 0;
  std::uint64_t progress_ = 0;
  std::uint64_t stall_progress_ = ~std::uint64_t{0};
  std::uint32_t stalls_ = 0;
  std::uint32_t rounds_ = 0;
  std::uint64_t live_warps_ = 0;
  bool draining_ = false;
  std::uint32_t cluster_phase_ = 0;
  std::uint32_t cluster_arrived_ = 0;
  std::uint32_t cluster_live_ = 0;
};

}  // namespace ptxemu::exec
