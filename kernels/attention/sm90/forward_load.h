// Load role of the Hopper forward: one thread takes work items and streams queries, keys and values
// by ragged TMA.
#pragma once

#include "attention/sm90/forward.h"

namespace jfa::kernels::sm90 {

// Rows [first, end) of `head` from row `first` on into `tile`, panel by panel; rows at or beyond
// `end` become zeros.
template <typename Layout>
TLX_DEVICE void load_rows(const TensorMap& map, u32 tile, u32 barrier, i32 first, i32 end, i32 head,
                          CacheHint hint) {
#pragma unroll
  for (u32 panel = 0; panel < Layout::kPanels; ++panel) {
    ptx::tma_load_5d(tile + panel * Layout::kPanelBytes, map, barrier,
                     panel * Layout::kPanelColumns, kRaggedExtent - (end - first), head,
                     kRaggedExtent, end, hint);
  }
}

// Work item `item` of the launch: tiles longest first, `heads_per_section` heads of a tile side by
// side.
TLX_DEVICE Work fetch_work(const ForwardParameters& p, u32 item, u32 tile_count) {
  const u32 section_items = tile_count * p.heads_per_section;
  const u32 section = item / section_items, in_section = item % section_items;
  Work work;
  work.tile = p.tiles[in_section / p.heads_per_section];
  work.head = section * p.heads_per_section + in_section % p.heads_per_section;
  return work;
}

// The last CTA to find the list empty leaves the counters as it found them, so that a launch needs
// no memset before it.
TLX_DEVICE void leave(const ForwardParameters& p) {
  if (atomicAdd(&p.counters->finished, 1U) + 1 == gridDim.x) {
    p.counters->next = 0;
    p.counters->finished = 0;
  }
}

template <typename Config>
TLX_DEVICE void load_role(const ForwardParameters& p, const Channels<Config>& channels,
                          const TensorMap& q_map, const TensorMap& k_map, const TensorMap& v_map) {
  typename SharedPlan<Config>::WorkChannel::Producer work_out{channels.work};
  typename Config::Queries::Producer queries{channels.queries};
  typename Config::Keys::Producer keys{channels.keys};
  typename Config::Values::Producer values{channels.values};

  const u32 tile_count = *p.tile_count;
  const u32 items = tile_count * p.heads;

  // The value block of the previous step is loaded after the key block of this one: the order in
  // which they are used.
  i32 value_first = 0, value_end = 0, value_head = -1;
  auto load_pending_values = [&] {
    if (value_head < 0) return;
    const auto slot = values.acquire();
    load_rows<typename Config::ValueTile>(v_map, slot.tile, slot.full, value_first, value_end,
                                          value_head, CacheHint::evict_last);
  };

  Work work{};
  u32 item = blockIdx.x;
  if (item < items) work = fetch_work(p, item, tile_count);
  while (item < items) {
    item = atomicAdd(&p.counters->next, 1U) + gridDim.x;
    work_out.send(work);

    const i32 q_first = work.tile.q_first, rows = work.tile.rows, head = work.head;
    const i32 kv_head = head / p.heads_per_kv_head;
    const i32 key_begin = work.tile.k_first + work.tile.k_begin;
    const i32 key_end = work.tile.k_first + work.tile.k_end;
    const i32 blocks = key_blocks<Config>(work.tile);
    // The next item's number and tile arrive from memory while this one's blocks are loaded.
    if (item < items) work = fetch_work(p, item, tile_count);

    for (i32 block = 0; block < blocks; ++block) {
      const i32 key_first = key_begin + block * static_cast<i32>(Config::kKeys);
      if (block == 0) {
        const auto slot = queries.acquire();
        load_rows<typename Config::QueryTile>(q_map, slot.tile, slot.full, q_first, q_first + rows,
                                              head, CacheHint::evict_first);
      }
      const auto slot = keys.acquire();
      load_rows<typename Config::KeyTile>(k_map, slot.tile, slot.full, key_first, key_end, kv_head,
                                          CacheHint::evict_last);
      load_pending_values();
      value_first = key_first;
      value_end = key_end;
      value_head = kv_head;
    }
  }
  load_pending_values();

  Work end{};
  end.tile.rows = 0;
  work_out.send(end);
  leave(p);
}

}  // namespace jfa::kernels::sm90
