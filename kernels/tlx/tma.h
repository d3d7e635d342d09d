// The tensor memory accelerator: copies of boxes between global tensors and shared-memory tiles,
// sm_90. (PTX ISA: Data Movement, cp.async.bulk.tensor; tensor maps are encoded on the host by the
// driver table.)
#pragma once

#include "tlx/base.h"
#include "tlx/ptx.h"

namespace jfa::tlx {

// The opaque 128 bytes that the driver encodes. Passed by value as a __grid_constant__ kernel
// parameter.
struct alignas(64) TensorMap {
  u64 opaque[16];
};

// L2 eviction priorities for one copy, as createpolicy makes them.
enum class CacheHint : u64 {
  normal = 0x1000000000000000,
  evict_first = 0x12F0000000000000,
  evict_last = 0x14F0000000000000
};

// Coordinate of a row in a ragged tensor map (docs/tlx.md, "Ragged views"). The map has five
// dimensions
//   column, row (extent 2³⁰, stride s), head, shift (stride 2³⁴ − s elements), end (stride s),
// so that the address of (column, 2³⁰ − remaining, head, 2³⁰, end) wraps around 2⁶⁴ to row `end −
// remaining`, and the hardware's bounds test on the row dimension clips exactly `remaining` rows
// further on: one static map serves every sequence end, for loads (zero fill), stores and
// reductions (nothing written).
constexpr i32 kRaggedExtent = 1 << 30;

namespace ptx {

TLX_DEVICE u64 map_address(const TensorMap& map) {
  return reinterpret_cast<u64>(&map);
}

// prefetch.tensormap [map];
TLX_DEVICE void prefetch_tensor_map(const TensorMap& map) {
  asm volatile("prefetch.tensormap [%0];" ::"l"(map_address(map)) : "memory");
}

// cp.async.bulk.tensor.5d.shared::cta.global.tile.mbarrier::complete_tx::bytes.L2::cache_hint
// [dst], [map, {…}], [barrier], hint; Written with shared::cluster, whose window holds the own
// CTA's addresses, since shared::cta needs a newer PTX version.
TLX_DEVICE void tma_load_5d(u32 destination, const TensorMap& map, u32 barrier, i32 c0, i32 c1,
                            i32 c2, i32 c3, i32 c4, CacheHint hint) {
  asm volatile(
      "cp.async.bulk.tensor.5d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.L2::cache_"
      "hint"
      " [%0], [%1, {%3, %4, %5, %6, %7}], [%2], %8;" ::"r"(destination),
      "l"(map_address(map)), "r"(barrier), "r"(c0), "r"(c1), "r"(c2), "r"(c3), "r"(c4),
      "l"(static_cast<u64>(hint))
      : "memory");
}

// cp.async.bulk.tensor.5d.global.shared::cta.tile.bulk_group [map, {…}], [src];
TLX_DEVICE void tma_store_5d(const TensorMap& map, u32 source, i32 c0, i32 c1, i32 c2, i32 c3,
                             i32 c4) {
  asm volatile(
      "cp.async.bulk.tensor.5d.global.shared::cta.tile.bulk_group [%0, {%2, %3, %4, %5, %6}], "
      "[%1];" ::"l"(map_address(map)),
      "r"(source), "r"(c0), "r"(c1), "r"(c2), "r"(c3), "r"(c4)
      : "memory");
}

// cp.async.bulk.tensor.2d.shared::cta.global.tile.mbarrier::complete_tx::bytes [dst], [map, {…}],
// [barrier]; — a box of a plain two-dimensional map: column c0, row c1.
TLX_DEVICE void tma_load_2d(u32 destination, const TensorMap& map, u32 barrier, i32 c0, i32 c1) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
      " [%0], [%1, {%3, %4}], [%2];" ::"r"(destination),
      "l"(map_address(map)), "r"(barrier), "r"(c0), "r"(c1)
      : "memory");
}

// cp.async.bulk.tensor.2d….multicast::cluster [dst], [map, {…}], [barrier], ctas; — the box arrives
// at `destination` of every CTA whose bit is set in `ctas`, and its bytes at `barrier` there.
TLX_DEVICE void tma_load_2d_multicast(u32 destination, const TensorMap& map, u32 barrier, i32 c0,
                                      i32 c1, u16 ctas) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
      ".multicast::cluster [%0], [%1, {%3, %4}], [%2], %5;" ::"r"(destination),
      "l"(map_address(map)), "r"(barrier), "r"(c0), "r"(c1), "h"(ctas)
      : "memory");
}

// cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [map, {…}], [src];
TLX_DEVICE void tma_store_2d(const TensorMap& map, u32 source, i32 c0, i32 c1) {
  asm volatile(
      "cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%0, {%2, %3}], [%1];" ::"l"(
          map_address(map)),
      "r"(source), "r"(c0), "r"(c1)
      : "memory");
}

// cp.async.bulk.commit_group;
TLX_DEVICE void bulk_commit_group() {
  asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}

// cp.async.bulk.wait_group.read N; — the sources of all but the newest N groups may be overwritten.
template <u32 kPending>
TLX_DEVICE void bulk_wait_group_read() {
  asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(kPending) : "memory");
}

// cp.async.bulk.wait_group N; — all but the newest N groups are complete.
template <u32 kPending>
TLX_DEVICE void bulk_wait_group() {
  asm volatile("cp.async.bulk.wait_group %0;" ::"n"(kPending) : "memory");
}

}  // namespace ptx
}  // namespace jfa::tlx
