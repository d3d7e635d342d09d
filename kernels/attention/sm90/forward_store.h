// Store role of the Hopper forward: one thread writes finished output tiles by ragged TMA, clipped
// at the end of the tile's rows.
#pragma once

#include "attention/sm90/forward.h"

namespace jfa::kernels::sm90 {

template <typename Config>
TLX_DEVICE void store_role(const Channels<Config>& channels, const TensorMap& out_map) {
  using OutTile = typename Config::OutTile;
  typename SharedPlan<Config>::WorkChannel::Consumer work_in{channels.work};
  Cursor<1> filled[Config::kGroups];

  while (true) {
    const Work work = work_in.receive_alone();
    if (work.tile.rows == 0) break;
#pragma unroll
    for (u32 group = 0; group < Config::kGroups; ++group) {
      const i32 rows = work.tile.rows - static_cast<i32>(group * 64);
      if (rows <= 0) continue;
      ptx::mbarrier_wait(channels.out(group).full(0), filled[group].parity);
      filled[group].advance();
#pragma unroll
      for (u32 panel = 0; panel < OutTile::kPanels; ++panel) {
        ptx::tma_store_5d(out_map, channels.out_tile(group) + panel * OutTile::kPanelBytes,
                          panel * OutTile::kPanelColumns, kRaggedExtent - rows, work.head,
                          kRaggedExtent, work.tile.q_first + work.tile.rows);
      }
      ptx::bulk_commit_group();
      ptx::bulk_wait_group_read<0>();
      ptx::mbarrier_arrive(channels.out(group).empty(0));
    }
  }
  ptx::bulk_wait_group<0>();
}

}  // namespace jfa::kernels::sm90
