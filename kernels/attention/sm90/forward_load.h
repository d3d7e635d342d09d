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

// The order of work items: tiles longest first, the heads of a section side by side; sections of
// heads whose keys and values stay in L2 follow each other.
struct WorkOrder {
  const TileWork* tiles;
  u64 section_items;
  u32 section_heads;
  u64 items;

  template <typename Config>
  static TLX_DEVICE WorkOrder of(const ForwardArguments& p) {
    constexpr i64 kSectionBytes = 16 << 20;  // of a 50 MB L2, which two launches may share
    const PlanHeader plan = *p.plan;
    const i64 sequence_bytes = i64{plan.longest_keys} * (Config::kDim + Config::kValueDim) * 2;
    const i32 kv_heads = p.heads / p.heads_per_kv_head;
    i32 section = kv_heads;
    if (sequence_bytes * section > kSectionBytes) {
      section = static_cast<i32>(kSectionBytes / sequence_bytes);
      if (section < 1) section = 1;
      while (kv_heads % section != 0) --section;
    }
    const u32 heads = section * p.heads_per_kv_head;
    return {p.tiles, u64{static_cast<u32>(plan.tiles)} * heads, heads,
            u64{static_cast<u32>(plan.tiles)} * static_cast<u32>(p.heads)};
  }

  // Starts to copy work item `item` to shared memory.
  TLX_DEVICE void copy(u64 item, Work* work) const {
    const u32 section = static_cast<u32>(quotient(item, section_items));
    const u64 in_section = item - section * section_items;
    const u64 tile = quotient(in_section, section_heads);
    work->head = static_cast<i32>(section * section_heads) +
                 static_cast<i32>(in_section - tile * section_heads);
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
  if (atomicAdd(&p.counters->finished, 1U) + 1 == gridDim.x) {
    p.counters->next = 0;
    p.counters->finished = 0;
  }
}

// The number of the next item that nobody has taken.
TLX_DEVICE u64 draw(const ForwardArguments& p) {
  return atomicAdd(&p.counters->next, 1ULL) + gridDim.x;
}

// Queries of both warpgroups, of the second only if it has rows.
template <typename Config>
TLX_DEVICE void load_queries(const Channels<Config>& channels,
                             typename Config::Queries::Producer& queries, const TensorMap& q_map,
                             const Work& work) {
  using QueryTile = typename Config::QueryTile;
  constexpr u32 kGroupBytes = Config::kUsedRows * Config::kDim * sizeof(typename Config::Element);
  const u32 groups = work.tile.rows > static_cast<i32>(Config::kTokens) ? 2 : 1;
  const u32 slot = queries.cursor.slot;
  const u32 full = queries.acquire(groups * kGroupBytes).full;
  const i32 end = work.tile.q_first + work.tile.rows;
  for (u32 group = 0; group < groups; ++group) {
    const i32 first = work.tile.q_first + static_cast<i32>(group * Config::kTokens);
    load_rows<QueryTile>(q_map, channels.group_tile(slot, group), full, first, end,
                         work.head * static_cast<i32>(Config::kPacked), CacheHint::evict_first);
  }
}

template <typename Config>
TLX_DEVICE void load_role(const ForwardArguments& p, const Channels<Config>& channels,
                          const TensorMap& q_map, const TensorMap& k_map, const TensorMap& v_map) {
  typename SharedPlan<Config>::WorkChannel::Producer work_out{channels.work};
  typename SharedPlan<Config>::WorkChannel::Consumer work_in{channels.work};
  typename Config::Queries::Producer queries{channels.queries};
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
      slot->tile.rows = 0;
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

    const Work& work = *work_in.wait();
    load_queries<Config>(channels, queries, q_map, work);
    const i32 kv_head = work.head / p.heads_per_kv_head;
    const i32 blocks = key_blocks<Config>(work.tile);
    const i32 key_end = work.tile.k_first + work.tile.k_end;
    const i32 gap_first = work.tile.k_first + work.tile.gap_begin;
    const i32 gap = work.tile.gap_end - work.tile.gap_begin;
    i32 key_first = work.tile.k_first + work.tile.k_begin;
    work_in.release(&work, true);
    for (i32 block = 0; block < blocks; ++block) {
      if (key_first == gap_first) key_first += gap;
      const auto slot = keys.acquire();
      load_rows<typename Config::KeyTile>(k_map, slot.tile, slot.full, key_first, key_end, kv_head,
                                          CacheHint::evict_last);
      load_pending_values();
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
