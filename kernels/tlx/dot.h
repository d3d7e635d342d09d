// Register tiles and asynchronous matrix products of one warpgroup, in the vocabulary of the tile
// language: async_dot issues, commit closes a group, wait<N> lets all but the newest N groups
// finish.
#pragma once

#include "tlx/layout.h"
#include "tlx/ptx.h"
#include "tlx/wgmma.h"

namespace jfa::tlx {

// The [64, kColumns] float32 accumulator of one warpgroup; each thread holds two rows (see wgmma.h
// for the fragment).
template <u32 kColumns>
struct Accumulator {
  static constexpr u32 kRegisters = kColumns / 2;
  float d[kRegisters];

  // Orders what this thread does with the accumulator before and after, e.g. around a wait.
  TLX_DEVICE void pin() { ptx::Wgmma<kColumns>::pin(d); }

  // Row within the 64 of this thread's half 0 or 1, and column of register i.
  static TLX_DEVICE u32 row(u32 thread, u32 half) {
    return (thread / 32 % 4) * 16 + thread % 32 / 4 + half * 8;
  }
  static TLX_DEVICE u32 column(u32 thread, u32 i) { return i / 4 * 8 + thread % 4 * 2 + i % 2; }
  static TLX_HOST_DEVICE u32 half(u32 i) { return i / 2 % 2; }
};

// The A operand [64, kColumns] in registers, 16-bit: kColumns / 16 fragments of four registers.
template <u32 kColumns>
struct OperandA {
  static constexpr u32 kSteps = kColumns / 16;
  u32 a[kSteps][4];
};

// Packs an accumulator into an A operand, of which further columns become zero; no data moves
// between threads.
template <typename Element, u32 kOperandColumns, u32 kColumns>
TLX_DEVICE void pack_operand(OperandA<kOperandColumns>& operand,
                             const Accumulator<kColumns>& source) {
  static_assert(kColumns <= kOperandColumns, "the operand is narrower than the accumulator");
#pragma unroll
  for (u32 step = 0; step < kOperandColumns / 16; ++step) {
#pragma unroll
    for (u32 r = 0; r < 4; ++r) {
      const u32 i = step * 8 + r * 2;
      operand.a[step][r] =
          step < kColumns / 16 ? ptx::pack<Element>(source.d[i], source.d[i + 1]) : 0;
    }
  }
}

// Both products make their addresses warp-uniform on the spot: only then does the compiler keep
// descriptors in uniform registers, and the instructions issue back to back. Done further up, its
// analysis loses the property at the next loop, and each wgmma waits for four register moves (a
// fifth of the time of an attention step).

// acc[64, N] (+)= A[first_row … + 64, :] · B[N, :]ᵀ, both row-major tiles in shared memory with
// `kContracted` columns contracted.
template <typename Element, typename LayoutA, typename LayoutB, u32 kContracted, u32 kColumns>
TLX_DEVICE void async_dot_nt(Accumulator<kColumns>& acc, u32 tile_a, u32 first_row, u32 tile_b,
                             bool accumulate = false) {
  const u64 a = LayoutA::k_major(ptx::uniform(tile_a), first_row);
  const u64 b = LayoutB::k_major(ptx::uniform(tile_b), 0);
  constexpr u32 kSteps = kContracted / 16;
#pragma unroll
  for (u32 step = 0; step + 4 <= kSteps; step += 4) {
    const u64 steps_a[4] = {a + LayoutA::k_major_step(step), a + LayoutA::k_major_step(step + 1),
                            a + LayoutA::k_major_step(step + 2),
                            a + LayoutA::k_major_step(step + 3)};
    const u64 steps_b[4] = {b + LayoutB::k_major_step(step), b + LayoutB::k_major_step(step + 1),
                            b + LayoutB::k_major_step(step + 2),
                            b + LayoutB::k_major_step(step + 3)};
    ptx::Wgmma<kColumns>::template ss4<Element, Major::k, Major::k>(acc.d, steps_a, steps_b,
                                                                    step > 0 || accumulate);
  }
#pragma unroll
  for (u32 step = kSteps / 4 * 4; step < kSteps; ++step) {
    ptx::Wgmma<kColumns>::template ss<Element, Major::k, Major::k>(
        acc.d, a + LayoutA::k_major_step(step), b + LayoutB::k_major_step(step),
        step > 0 || accumulate);
  }
}

// acc[64, N] (+)= A[64, K] · B[K, N], A in registers, B a row-major tile in shared memory with the
// rows contracted.
template <typename Element, typename LayoutB, u32 kColumns, u32 kContracted>
TLX_DEVICE void async_dot_nn(Accumulator<kColumns>& acc, const OperandA<kContracted>& a, u32 tile_b,
                             bool accumulate) {
  const u64 b = LayoutB::mn_major(ptx::uniform(tile_b));
  constexpr u32 kSteps = kContracted / 16;
#pragma unroll
  for (u32 step = 0; step + 4 <= kSteps; step += 4) {
    const u64 steps_b[4] = {b + LayoutB::mn_major_step(step), b + LayoutB::mn_major_step(step + 1),
                            b + LayoutB::mn_major_step(step + 2),
                            b + LayoutB::mn_major_step(step + 3)};
    ptx::Wgmma<kColumns>::template rs4<Element, Major::mn>(acc.d, a.a + step, steps_b,
                                                           step > 0 || accumulate);
  }
#pragma unroll
  for (u32 step = kSteps / 4 * 4; step < kSteps; ++step) {
    ptx::Wgmma<kColumns>::template rs<Element, Major::mn>(
        acc.d, a.a[step], b + LayoutB::mn_major_step(step), step > 0 || accumulate);
  }
}

}  // namespace jfa::tlx
