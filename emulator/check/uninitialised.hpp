// Undefined data, carried along and reported where it matters: at a branch, an address, a guard
// with an effect, a store to global memory.
//
// Registers have one bit per lane, memory one bit per byte. Arithmetic, shuffles, stores to shared
// memory and matrix products pass undefinedness on; nothing is reported for padding that is
// computed and never used.
#pragma once

#include <memory>
#include <unordered_map>
#include <vector>

#include "check/global_shadow.hpp"
#include "check/register_shadow.hpp"
#include "check/synchronisation.hpp"

namespace ptxemu::check {

class Uninitialised {
 public:
  Uninitialised(const exec::ClusterView& view, Synchronisation& synchronisation,
                GlobalShadow& global, exec::ReportSink& sink);

  void on_instruction(std::uint32_t cta, std::uint32_t warp, LaneMask lanes,
                      const exec::Instruction& instruction, RegisterShadow& registers);
  /// `registers`: of the executing warp; null for asynchronous operations.
  void on_access(const exec::Access& access, RegisterShadow* registers);
  /// shfl: lane l received the value of `source_lanes[l]`.
  void on_exchange(const exec::WarpSyncEvent& event, RegisterShadow& registers);
  void on_mbarrier(const exec::MbarrierEvent& event);
  /// A wgmma has read its operands: its accumulators are undefined where an operand was.
  void on_wgmma_done(const Operation& operation, RegisterShadow& registers);

 private:
  /// What an asynchronous operation read, as one sequence of bytes.
  struct Copy {
    std::uint64_t bytes = 0;
    std::vector<exec::Access::Range> undefined;  // address = position in the sequence
    exec::Access::Range first{};                 // the first undefined piece, for the report
  };
  void check_uses(std::uint32_t cta, std::uint32_t warp, LaneMask lanes,
                  const exec::Instruction& instruction, const RegisterShadow& registers);
  [[nodiscard]] LaneMask predicate_value(std::uint32_t cta, std::uint32_t warp,
                                         const ir::Operand& operand) const;
  void load(const exec::Access& access, RegisterShadow& registers);
  void load_matrix(const exec::Access& access, RegisterShadow& registers);
  void store(const exec::Access& access, const RegisterShadow& registers);
  void store_matrix(const exec::Access& access, const RegisterShadow& registers);
  void copy_source(const exec::Access& access);
  void copy_destination(const exec::Access& access);
  // The lock of global memory is held where they are called for it.
  [[nodiscard]] bool defined(const exec::Access& access, std::uint64_t address,
                             std::uint64_t bytes);
  void define(const exec::Access& access, std::uint64_t address, std::uint64_t bytes, bool value);
  void report(const exec::Access& access, LaneMask lanes, const std::string& what);

  const exec::ClusterView& view_;
  Synchronisation& synchronisation_;
  GlobalShadow& global_;
  exec::ReportSink& sink_;
  std::vector<Shadow> shared_;                      // by CTA
  std::unordered_map<std::uint64_t, Copy> copies_;  // by operation
};

}  // namespace ptxemu::check
