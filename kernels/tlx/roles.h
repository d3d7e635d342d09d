// Warp roles: which warps of the CTA do what, with how many registers. One warpgroup is the unit of
// a register budget.
#pragma once

#include "tlx/ptx.h"

namespace jfa::tlx {

// The CTA: one service warpgroup (load and store roles, few registers) and kComputeGroups compute
// warpgroups that share the rest.
template <u32 kComputeGroups>
struct RoleBudget {
  static_assert(kComputeGroups >= 1 && kComputeGroups <= 3,
                "one to three compute warpgroups fit an SM's register file");
  static constexpr u32 kThreads = (kComputeGroups + 1) * kWarpgroupThreads;
  // Registers a thread at launch: the file divided evenly, in steps of 8.
  static constexpr u32 kLaunchRegisters = 65536 / kThreads / 8 * 8;
  static constexpr u32 kServiceRegisters = 56;
  static constexpr u32 kComputeRegisters = kComputeGroups == 1   ? 256 - 8
                                           : kComputeGroups == 2 ? 224
                                                                 : 152;

  static_assert(
      kServiceRegisters + kComputeGroups * kComputeRegisters <=
          (kComputeGroups + 1) * kLaunchRegisters,
      "the roles' registers exceed what the CTA was launched with: setmaxnreg would wait for ever");
  static_assert(kServiceRegisters % 8 == 0 && kComputeRegisters % 8 == 0 &&
                    kServiceRegisters >= 24 && kComputeRegisters <= 256,
                "setmaxnreg takes multiples of 8 from 24 to 256");
};

}  // namespace jfa::tlx
