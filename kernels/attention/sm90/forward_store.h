// Store and zero roles of the Hopper forward: what leaves the CTA.
#pragma once

#include "attention/sm90/forward.h"

namespace jfa::kernels::sm90 {

// One thread writes finished output tiles by ragged TMA, clipped at the end of the tile's rows.
template <typename Config>
TLX_DEVICE void store_role(const Channels<Config>& channels, const TensorMap& out_map) {
  using OutTile = typename Config::OutTile;
  typename ForwardMemory<Config>::WorkChannel::Consumer work_in{channels.work};
  Cursor<1> filled[Config::kGroups];

  while (true) {
    const u32 address = work_in.wait();
    const Work& work = *channels.work.at(address);
    const i32 tile_rows = work.tile.rows, end = work.tile.out_first + tile_rows;
    const i32 head = work.head * static_cast<i32>(Config::kPacked);
    if (tile_rows == 0) break;
    work_in.release(address, true);
#pragma unroll
    for (u32 group = 0; group < Config::kGroups; ++group) {
      const i32 rows = tile_rows - static_cast<i32>(group * Config::kTokens);
      if (rows <= 0) break;
      ptx::mbarrier_wait(channels.out(group).full(0), filled[group].parity());
      filled[group].advance();
#pragma unroll
      for (u32 panel = 0; panel < OutTile::kPanels; ++panel) {
        ptx::tma_store_5d(out_map, channels.out_tile(group) + panel * OutTile::kPanelBytes,
                          panel * OutTile::kPanelColumns, kRaggedExtent - rows, head, kRaggedExtent,
                          end);
      }
      ptx::bulk_commit_group();
      ptx::bulk_wait_group_read<0>();
      ptx::mbarrier_arrive(channels.out(group).empty(0));
    }
  }
  ptx::bulk_wait_group<0>();
}

// One of the warps that write zeros, and −∞ as log-sum-exp, where no sequence has rows.
template <typename Config>
TLX_DEVICE void zero_role(const ForwardArguments& p, u32 worker, u32 workers, u32 lane) {
  struct alignas(16) Piece {
    u64 bits[2];
  };
  constexpr i32 kColumns = 8;  // of a piece
  auto* const out = static_cast<u16*>(p.out);
  const i32 pieces = p.value_dim / kColumns;
  for (i32 gap = worker; gap < p.plan->gaps; gap += workers) {
    const RowGap rows = p.gaps[gap];
    for (i32 row = rows.first; row < rows.first + rows.rows; ++row) {
      for (i32 i = lane; i < p.query_heads * pieces; i += kWarpThreads) {
        const i64 offset = row * p.out_row_stride + i / pieces * p.out_head_stride;
        *reinterpret_cast<Piece*>(out + offset + i % pieces * kColumns) = Piece{};
      }
      if (p.lse == nullptr) continue;
      for (i32 head = lane; head < p.query_heads; head += kWarpThreads)
        p.lse[head * p.lse_head_stride + row] = kNegativeInfinity;
    }
  }
}

}  // namespace jfa::kernels::sm90
