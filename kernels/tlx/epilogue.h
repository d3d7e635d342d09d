// From accumulators to global memory: packed to 16 bits, through a shared tile, by TMA.
#pragma once

#include "tlx/dot.h"
#include "tlx/tma.h"

namespace jfa::tlx {

// Stores columns [first, first + the tile's width) of a warpgroup's accumulator as a [64, width]
// tile. `thread`: within the warpgroup; `first`, a constant: a multiple of 16.
template <typename Layout, typename Element, u32 kColumns>
TLX_DEVICE void store_columns(u32 tile, const Accumulator<kColumns>& acc, u32 first, u32 thread) {
  static_assert(Layout::kRowCount == 64, "a warpgroup's accumulator has 64 rows: use such a tile");
  static_assert(Layout::kColumnCount <= kColumns, "the tile is wider than the accumulator");
  const u32 lane = thread % kWarpThreads;
  const u32 row = thread / kWarpThreads * 16 + lane % 16;
#pragma unroll
  for (u32 step = 0; step < Layout::kColumnCount / 16; ++step) {
    const float* d = acc.d + first / 2 + step * 8;
    ptx::stmatrix_x4(tile + Layout::offset(row, step * 16 + lane / 16 * 8),
                     ptx::pack<Element>(d[0], d[1]), ptx::pack<Element>(d[2], d[3]),
                     ptx::pack<Element>(d[4], d[5]), ptx::pack<Element>(d[6], d[7]));
  }
}

// Writes a warpgroup's accumulator to rows `row` … + 63 and columns `column` … of a plain
// two-dimensional map, panel by panel through two shared tiles: one is filled while the other is
// read. Barrier `which` of type Ready holds the warpgroup together. What lies beyond the tensor is
// not written. Call finish_stores() before the CTA ends.
template <typename Layout, typename Element, typename Barriers, typename Ready, u32 kColumns>
TLX_DEVICE void store_accumulator(const TensorMap& map, const Accumulator<kColumns>& acc,
                                  u32 two_tiles, u32 which, u32 thread, i32 row, i32 column) {
  static_assert(Ready::kThreads == kWarpgroupThreads, "the barrier of one warpgroup: 128 threads");
  static_assert(kColumns % Layout::kColumnCount == 0, "whole panels fill the accumulator");
#pragma unroll
  for (u32 panel = 0; panel < kColumns / Layout::kColumnCount; ++panel) {
    const u32 first = panel * Layout::kColumnCount;
    const u32 tile = two_tiles + panel % 2 * Layout::kBytes;
    if (thread == 0) ptx::bulk_wait_group_read<1>();  // of the store before the last
    Barriers::template sync<Ready>(which);
    store_columns<Layout, Element>(tile, acc, first, thread);
    ptx::fence_proxy_async_shared();
    Barriers::template sync<Ready>(which);
    if (thread != 0) continue;
    ptx::tma_store_2d(map, tile, column + static_cast<i32>(first), row);
    ptx::bulk_commit_group();
  }
}

// Waits until the calling thread's stores have been done.
TLX_DEVICE void finish_stores() {
  ptx::bulk_wait_group<0>();
}

}  // namespace jfa::tlx
