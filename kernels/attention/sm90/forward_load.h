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

// The order of work items: tiles longest first, the heads of a tile side by side. The long tiles at
// the head of the list are gone through section by section of heads, so that the keys and values of
// few heads are read at a time and stay in L2.
struct WorkOrder {
  const TileWork* tiles;
  u64 items;
  u64 long_items;
  u32 heads;
  u32 section_heads;
  u32 long_tiles;

  template <typename Config>
  static TLX_DEVICE WorkOrder of(const ForwardArguments& p) {
    constexpr i64 kSectionBytes = 12 << 20;  // of a 50 MB L2, half of which serves each SM fast
    const PlanHeader plan = *p.plan;
    const i64 sequence_bytes = i64{plan.longest_keys} * (Config::kDim + Config::kValueDim) * 2;
    const i32 kv_heads = p.heads / p.heads_per_kv_head;
    i32 section = kv_heads;
    if (sequence_bytes * section > kSectionBytes) {
      section = static_cast<i32>(kSectionBytes / sequence_bytes);
      if (section < 1) section = 1;
      while (kv_heads % section != 0) --section;
    }
    const u64 heads = static_cast<u32>(p.heads);
    const u32 long_tiles = static_cast<u32>(plan.long_tiles);
    return {p.tiles,
            static_cast<u32>(plan.tiles) * heads,
            long_tiles * heads,
            static_cast<u32>(p.heads),
            static_cast<u32>(section * p.heads_per_kv_head),
            long_tiles};
  }

  // Starts to copy work item `item` to shared memory.
  TLX_DEVICE void copy(u64 item, Work* work) const {
    u64 tile = 0;
    u32 head = 0;
    if (item < long_items) {
      const u64 section_items = u64{long_tiles} * section_heads;
      const u64 section = quotient(item, section_items);
      const u64 in_section = item - section * section_items;
      tile = quotient(in_section, section_heads);
      head = static_cast<u32>(section * section_heads + in_section - tile * section_heads);
    } else {
      tile = quotient(item, heads);
      head = static_cast<u32>(item - tile * heads);
    }
    work->head = static_cast<i32>(head);
    const u32 destination = ptx::shared_address(&work->tile);
    const char* source = reinterpret_cast<const char*>(tiles + tile);
    for (u32 byte = 0; byte < sizeof(TileWork); byte += 16)
      ptx::cp_async_16(destination + byte, source + byte);
  }

 private:
  // A 64-bit division takes a hundred instructions; hardly any batch needs one.
  static TLX_DEVICE u64 quotient(u64 a, u64 b) {
    if (((a | b) >> 32) == 0) return static_cast<u32>(a) / static_cast<u32>(b);
    return a / b;
  }
};

// The last CTA to find the list empty leaves the counters as it found them, so that a launch needs
// no memset before it.
TLX_DEVICE void leave(const ForwardArguments& p) {
  // Orders the resetting stores behind the draws of every CTA.
  if (ptx::atomic_add_acq_rel(&p.counters->finished, 1) + 1 == gridDim.x) {
    p.counters->next = 0;
    p.counters->finished = 0;
  }
}

// The number of the next item that nobody has taken.
TLX_DEVICE u64 draw(const ForwardArguments& p) {
  return atomicAdd(&p.counters->next, 1ULL) + gridDim.x;
}

// The queries of one warpgroup, if the tile has rows for it.
template <typename Config>
TLX_DEVICE void load_queries(const Channels<Config>& channels,
                             Cursor<Config::kShape.query_stages>& cursor, u32 group,
                             const TensorMap& q_map, i32 first, i32 end, i32 head) {
  constexpr u32 kBytes = Config::kUsedRows * Config::kDim * sizeof(typename Config::Element);
  first += static_cast<i32>(group * Config::kTokens);
  if (first >= end) return;
  typename Config::Queries::Producer producer{channels.queries(group), cursor};
  const auto slot = producer.acquire(kBytes);
  cursor = producer.cursor;
  load_rows<typename Config::QueryTile>(q_map, slot.tile, slot.full, first, end, head,
                                        CacheHint::evict_first);
}

template <typename Config>
TLX_DEVICE void load_role(const ForwardArguments& p, const Channels<Config>& channels,
                          const TensorMap& q_map, const TensorMap& k_map, const TensorMap& v_map) {
  typename ForwardMemory<Config>::WorkChannel::Producer work_out{channels.work};
  typename ForwardMemory<Config>::WorkChannel::Consumer work_in{channels.work};
  Cursor<Config::kShape.query_stages> queries[Config::kGroups];
#pragma unroll
  for (auto& cursor : queries) cursor = cursor.of_producer();
  typename Config::Keys::Producer keys{channels.keys};
  typename Config::Values::Producer values{channels.values};
  const WorkOrder order = WorkOrder::of<Config>(p);

  // The value block of the previous step is loaded after the key block of this one: the order in
  // which they are used.
  i32 value_first = 0, value_end = 0, value_head = -1;
  auto load_pending_values = [&] {
    if (value_head < 0) return;
    const auto slot = values.acquire();
    load_rows<typename Config::ValueTile>(v_map, slot.tile, slot.full, value_first, value_end,
                                          value_head, CacheHint::evict_last);
  };

  // Sends item `item`, or the end.
  auto send = [&](u64 item) {
    Work* const slot = work_out.acquire();
    if (item < order.items) {
      order.copy(item, slot);
    } else {
      slot->tile = {};  // no rows: the end
    }
    work_out.send();
  };

  // Numbers are drawn two items ahead and items copied one ahead, so that nothing waits for them.
  u64 item = blockIdx.x, next = item < order.items ? draw(p) : item;
  send(item);
  while (item < order.items) {
    item = next;
    send(item);
    if (item < order.items) next = draw(p);

    const u32 address = work_in.wait();
    const Work& work = *channels.work.at(address);
    const i32 kv_head = work.head / p.heads_per_kv_head;
    const i32 blocks = key_blocks<Config>(work.tile);
    const i32 key_end = work.tile.k_first + work.tile.k_end;
    const i32 gap_first = work.tile.k_first + work.tile.gap_begin;
    const i32 gap = work.tile.gap_end - work.tile.gap_begin;
    i32 key_first = work.tile.k_first + work.tile.k_begin;
    const i32 q_first = work.tile.q_first, q_end = q_first + work.tile.rows;
    const i32 q_head = work.head * static_cast<i32>(Config::kPacked);
    work_in.release(address, true);
    for (i32 block = 0; block < blocks; ++block) {
      if (key_first == gap_first) key_first += gap;
      if (block == 0) load_queries<Config>(channels, queries[0], 0, q_map, q_first, q_end, q_head);
      const auto slot = keys.acquire();
      load_rows<typename Config::KeyTile>(k_map, slot.tile, slot.full, key_first, key_end, kv_head,
                                          CacheHint::evict_last);
      load_pending_values();
      if (block == 0) {
        // The other groups' queries last: their slots become free later than all else.
#pragma unroll
        for (u32 group = 1; group < Config::kGroups; ++group)
          load_queries<Config>(channels, queries[group], group, q_map, q_first, q_end, q_head);
      }
      value_first = key_first;
      value_end = key_end;
      value_head = kv_head;
      key_first += static_cast<i32>(Config::kKeys);
    }
  }
  load_pending_values();
  leave(p);
}

}  // namespace jfa::kernels::sm90
