// wgmma and its registers: accumulators and A fragments belong to the tensor core from
// wgmma.mma_async until wgmma.wait_group, and ordinary writes before it need a wgmma.fence.
#pragma once

#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

#include "check/register_shadow.hpp"
#include "check/synchronisation.hpp"

namespace ptxemu::check {

class WgmmaRegisters {
 public:
  WgmmaRegisters(const exec::ClusterView& view, Synchronisation& synchronisation,
                 exec::ReportSink& sink);

  void on_instruction(std::uint32_t cta, std::uint32_t warp, LaneMask lanes,
                      const exec::Instruction& instruction, RegisterShadow& registers);
  void on_async_issue(const exec::AsyncIssue& issue);
  void on_fence(const exec::FenceEvent& event);
  void on_group(const exec::GroupEvent& event);
  /// Lanes are gone: what they still have in flight is left pending.
  void on_lanes_exit(std::uint32_t cta, std::uint32_t warp, LaneMask lanes);

 private:
  enum class Use : std::uint8_t { accumulator, fragment };
  struct Owner {
    std::uint64_t operation = 0;
    Use use = Use::accumulator;
    const exec::Instruction* instruction = nullptr;
  };
  struct Warp {
    std::uint64_t position = 0;  // instructions so far
    std::uint64_t fence = 0;     // position of the last wgmma.fence, 0 = none yet
    std::unordered_map<std::uint32_t, Owner> owned;  // by offset in the register bank
  };
  static void own(Warp& warp, const exec::Instruction& instruction, std::uint64_t operation);
  void check_owned(Warp& warp, const std::string& who, const exec::Instruction& instruction);
  void check_wgmma(Warp& warp, const std::string& who, const exec::Instruction& instruction,
                   const RegisterShadow& registers);

  const exec::ClusterView& view_;
  Synchronisation& synchronisation_;
  exec::ReportSink& sink_;
  std::vector<Warp> warps_;
};

}  // namespace ptxemu::check
