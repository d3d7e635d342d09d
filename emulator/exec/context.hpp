// What a handler sees: the executing split with its register rows, and access to memory.
#pragma once

#include <bit>
#include <cstring>

#include "exec/machine.hpp"

namespace ptxemu::exec {

class Context {
 public:
  Launch* launch = nullptr;
  Cluster* cluster = nullptr;
  Cta* cta = nullptr;
  Warp* warp = nullptr;
  Split* split = nullptr;
  ClusterObserver* observer = nullptr;

  /// Rows of the operand's bank; the sink `_` has a scratch row.
  template <typename T>
  [[nodiscard]] T* row(const Operand& operand) const {
    return reinterpret_cast<T*>(banks_[static_cast<std::size_t>(operand.bank)] + operand.offset);
  }
  /// Lanes for which a predicate operand holds.
  [[nodiscard]] LaneMask predicate(const Operand& operand) const {
    const LaneMask mask = *row<const LaneMask>(operand);
    return operand.negated ? ~mask : mask;
  }
  void set_predicate(const Operand& operand, LaneMask lanes, LaneMask value) const {
    LaneMask& target = *row<LaneMask>(operand);
    target = (target & ~lanes) | (value & lanes);
  }
  /// Value of a 32-bit operand in the lowest of `lanes`.
  [[nodiscard]] std::uint32_t uniform(const Operand& operand, LaneMask lanes) const {
    return row<const std::uint32_t>(operand)[std::countr_zero(lanes)];
  }
  [[nodiscard]] std::uint64_t uniform64(const Operand& operand, LaneMask lanes) const {
    return row<const std::uint64_t>(operand)[std::countr_zero(lanes)];
  }
  void enter(Cluster& cluster_in, Warp& warp_in, Split& split_in);
  /// For an asynchronous operation: memory of its issuer, no split.
  void enter(Cluster& cluster_in, const AsyncOperation& operation);

  // Memory (exec/memory_access.cpp).
  using Addresses = std::array<std::uint64_t, kWarpSize>;
  using Pointers = std::array<std::byte*, kWarpSize>;
  /// Per-lane values of an address operand.
  void addresses(const ir::Address& address, LaneMask lanes, Addresses& out) const;
  [[nodiscard]] std::uint64_t address(const ir::Address& address, LaneMask lane) const;
  struct Request {
    ir::Space space = ir::Space::generic;
    AccessKind kind = AccessKind::read;
    std::uint32_t bytes = 0;      ///< per lane
    std::uint32_t alignment = 0;  ///< 0: `bytes`
    Proxy proxy = Proxy::generic;
    bool to_registers = false;
  };
  /// Checks a warp-wide access, tells the observer, and yields host pointers. Faults on bad
  /// addresses.
  void resolve(const Instruction& in, const Request& request, LaneMask lanes,
               const Addresses& addresses, Pointers& pointers);
  /// A shared::cta / shared::cluster / generic address of shared memory.
  struct SharedPlace {
    Cta* cta = nullptr;
    std::uint32_t offset = 0;
    [[nodiscard]] std::byte* pointer() const { return cta->shared.data() + offset; }
  };
  SharedPlace shared_place(const Instruction& in, ir::Space space, std::uint64_t address,
                           std::uint32_t bytes, std::uint32_t alignment, LaneMask lane);
  /// Host pointer of checked global memory.
  std::byte* global_pointer(const Instruction& in, std::uint64_t address, std::uint64_t bytes,
                            AccessKind kind, LaneMask lanes);

  // Control (exec/control.cpp).
  /// The other lanes of the split go on alone; `lanes` remain.
  void isolate(LaneMask lanes);
  /// The instruction runs again when the split is woken.
  Action wait_and_retry(SplitState state, const Instruction& in, LaneMask lanes);
  /// True when all of `wanted` (that are alive) are in `lanes`; else parks the split until they
  /// come.
  bool converge(const Instruction& in, LaneMask lanes, LaneMask wanted);
  /// For `.aligned` instructions that need all 32 lanes of the warp.
  bool converge_warp(const Instruction& in, LaneMask lanes, bool whole_warp);

  [[nodiscard]] Agent agent() const {
    return {AgentKind::warp, static_cast<std::uint8_t>(cta->rank),
            static_cast<std::uint16_t>(warp->index)};
  }
  /// "warp 3 lane 5 (thread 101,0,0) of CTA 0,0,0"
  [[nodiscard]] std::string who(LaneMask lanes) const;
  [[noreturn]] void fault(ReportKind kind, const Instruction& in, LaneMask lanes,
                          const std::string& message) const;

 private:
  std::array<std::byte*, 4> banks_{};
  mutable const mem::Allocation* last_allocation_ = nullptr;
  alignas(64) std::array<std::byte, 512> scratch_{};
};

}  // namespace ptxemu::exec
