// Registry of a kernel's named barriers: hardware ids 1 … 15 given out at compile time (0 is
// __syncthreads), with the number of threads that take part in each.
//
//   struct Turn : NamedBarrier<256> {};
//   struct OutputReady : NamedBarrier<128, 2> {};   // one for each of two warpgroups
//   using Barriers = NamedBarriers<Turn, OutputReady>;
//   Barriers::sync<OutputReady>(group);
#pragma once

#include "tlx/base.h"
#ifdef TLX_DEVICE
#include "tlx/ptx.h"
#endif

namespace jfa::tlx {

template <u32 kThreadsV, u32 kCountV = 1>
struct NamedBarrier {
  static_assert(kThreadsV % kWarpThreads == 0 && kThreadsV >= kWarpThreads && kThreadsV <= 1024,
                "whole warps take part in a named barrier: a multiple of 32 threads up to 1024");
  static constexpr u32 kThreads = kThreadsV;
  static constexpr u32 kCount = kCountV;
};

template <typename... Names>
struct NamedBarriers {
  static constexpr u32 kFirst = 1, kLast = 15;
  static constexpr u32 kUsed = (Names::kCount + ... + 0);
  static_assert(kUsed <= kLast,
                "a CTA has 15 named barriers besides __syncthreads: let roles that never wait at "
                "the same time share one, or use an mbarrier");

  // The id of a barrier, the first of them where there are several.
  template <typename Name>
  static constexpr u32 id = [] {
    static_assert((u32{is_same<Names, Name>} + ... + 0) == 1,
                  "a barrier must be in the kernel's registry exactly once: add it to "
                  "NamedBarriers<…>, or derive a type of its own for each use");
    u32 next = kFirst, found = 0;
    const auto visit = [&]<typename Candidate>() {
      if (is_same<Candidate, Name>) found = next;
      next += Candidate::kCount;
    };
    (visit.template operator()<Names>(), ...);
    return found;
  }();

#ifdef TLX_DEVICE
  // All threads of barrier `which` wait for each other.
  template <typename Name>
  static TLX_DEVICE void sync(u32 which = 0) {
    ptx::bar_sync(id<Name> + which, Name::kThreads);
  }
  // Takes part without waiting.
  template <typename Name>
  static TLX_DEVICE void arrive(u32 which = 0) {
    ptx::bar_arrive(id<Name> + which, Name::kThreads);
  }
  // sync(), and whether `value` was true in any thread.
  template <typename Name>
  static TLX_DEVICE bool any(bool value, u32 which = 0) {
    return ptx::bar_any(id<Name> + which, Name::kThreads, value);
  }
#endif
};

}  // namespace jfa::tlx
