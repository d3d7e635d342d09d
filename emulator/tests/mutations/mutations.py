"""The seeded bugs: one change of a good kernel's text each, and the kinds of report that name it.

Where several kinds name a bug, the schedule decides which comes first: without a wait, for example,
a tile is read before it has arrived, or before it was ever written.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Mutation:
    name: str
    kernel: str
    old: str  #: occurs exactly once in the kernel's text
    new: str
    kinds: tuple[str, ...]  #: name the bug: every run must report at least one of these
    also: tuple[str, ...] = ()  #: consequences that may be reported besides
    #: Besides the text: other boxes of the host's tensor maps.
    boxes: tuple[tuple[str, tuple[int, ...]], ...] = ()


RACE, FENCE, UNINITIALISED = "data race", "missing fence", "uninitialised data"
BOUNDS, MISALIGNED, BARRIER = "out of bounds", "misaligned", "barrier protocol"
DEADLOCK, REUSE, DESCRIPTOR = "deadlock", "in-flight reuse", "bad descriptor"
BUDGET, PENDING, DIVERGENCE = "register budget", "left pending", "divergence"

#: The loop of tma_ring that reads a tile.
_CHANGE = (
    "    for (int i = thread; i < kTile * kTile; i += kWorkers) "
    "changed[i] = 2.0f * loaded[stage][i] + 1.0f;\n"
)

MUTATIONS = [
    # --- TMA ring: barriers, transaction bytes, proxies, store groups
    Mutation(
        "full barrier not awaited",
        "tma_ring",
        "    mbarrier_wait(&full[stage], tile / kStages & 1);\n",
        "",
        (RACE, UNINITIALISED, BARRIER),
        also=(REUSE, DEADLOCK),
    ),
    Mutation(
        "empty barrier not awaited",
        "tma_ring",
        "        mbarrier_wait(&empty[stage], (tile / kStages & 1) ^ 1);\n",
        "",
        (
            REUSE,
            RACE,
            BARRIER,
        ),
        also=(DEADLOCK,),
    ),
    Mutation(
        "wrong parity of the full barrier",
        "tma_ring",
        "mbarrier_wait(&full[stage], tile / kStages & 1);",
        "mbarrier_wait(&full[stage], tile / kStages & 1 ^ 1);",
        (RACE, UNINITIALISED, DEADLOCK, BARRIER),
        also=(REUSE,),
    ),
    Mutation(
        "wrong parity of the empty barrier",
        "tma_ring",
        "(tile / kStages & 1) ^ 1);",
        "tile / kStages & 1);",
        (DEADLOCK,),
    ),
    Mutation(
        "too many transaction bytes",
        "tma_ring",
        "mbarrier_expect(&full[stage], kTileBytes);",
        "mbarrier_expect(&full[stage], kTileBytes + 16);",
        (DEADLOCK,),
    ),
    Mutation(
        "too few transaction bytes",
        "tma_ring",
        "mbarrier_expect(&full[stage], kTileBytes);",
        "mbarrier_expect(&full[stage], kTileBytes / 2);",
        (DEADLOCK,),
    ),
    Mutation(
        "arrival count one too high",
        "tma_ring",
        "mbarrier_init(&empty[stage], kWorkers);",
        "mbarrier_init(&empty[stage], kWorkers + 1);",
        (DEADLOCK,),
    ),
    Mutation(
        "arrival count too low",
        "tma_ring",
        "mbarrier_init(&empty[stage], kWorkers);",
        "mbarrier_init(&empty[stage], kWorkers / 2);",
        (RACE, REUSE, BARRIER, DEADLOCK),
    ),
    Mutation(
        "lost arrive",
        "tma_ring",
        "    mbarrier_arrive(&empty[stage]);\n",
        "    if (thread != 7) mbarrier_arrive(&empty[stage]);\n",
        (DEADLOCK,),
    ),
    Mutation(
        "double arrive",
        "tma_ring",
        "    mbarrier_arrive(&empty[stage]);\n",
        "    for (int i = 0; i < (thread == 7 ? 2 : 1); ++i) mbarrier_arrive(&empty[stage]);\n",
        (
            RACE,
            REUSE,
            BARRIER,
        ),
        also=(DEADLOCK,),
    ),
    Mutation(
        "buffer released before it is read",
        "tma_ring",
        _CHANGE + "    mbarrier_arrive(&empty[stage]);\n",
        "    mbarrier_arrive(&empty[stage]);\n" + _CHANGE,
        (RACE, REUSE),
    ),
    Mutation(
        "no proxy fence before the store",
        "tma_ring",
        "    fence_async();\n",
        "",
        (FENCE,),
    ),
    Mutation(
        "no barrier before the store",
        "tma_ring",
        "    fence_async();\n    named_sync(1, kWorkers);\n",
        "    fence_async();\n",
        (RACE, REUSE, FENCE),
        also=(UNINITIALISED,),
    ),
    Mutation(
        "store buffer reused early",
        "tma_ring",
        "    if (tile > 0 && thread == 0) bulk_wait_read<0>();\n",
        "",
        (REUSE,),
    ),
    Mutation(
        "store group off by one",
        "tma_ring",
        "    if (tile > 0 && thread == 0) bulk_wait_read<0>();\n",
        "    if (tile > 0 && thread == 0) bulk_wait_read<1>();\n",
        (REUSE,),
    ),
    Mutation(
        "store not committed",
        "tma_ring",
        "      bulk_commit();\n",
        "",
        (REUSE,),
        also=(PENDING,),
    ),
    Mutation(
        "exit with a pending store",
        "tma_ring",
        "  if (thread == 0) bulk_wait_read<0>();\n}",
        "}",
        (PENDING,),
    ),
    Mutation(
        "no barrier after mbarrier.init",
        "tma_ring",
        "  __syncthreads();\n  if (thread >= kWorkers)",
        "  if (thread >= kWorkers)",
        (BARRIER,),
    ),
    Mutation(
        "barrier initialised twice",
        "tma_ring",
        "  if (thread == 0) {\n    for (int stage",
        "  if (thread == 0 || thread == kWorkers) {\n    for (int stage",
        (BARRIER,),
    ),
    Mutation(
        "barriers overlap the tile",
        "tma_ring",
        "changed[i] = 2.0f",
        "(i == kTile * kTile - 1 ? reinterpret_cast<float*>(full)[0] : changed[i]) = 2.0f",
        (BARRIER,),
        also=(
            UNINITIALISED,
            DEADLOCK,
        ),
    ),
    Mutation(
        "tile row off by one",
        "tma_ring",
        "tma_store(&out, 0, tile * kTile, changed);",
        "tma_store(&out, 0, tile * kTile, changed + 4);",
        (MISALIGNED, BOUNDS),
    ),
    Mutation(
        "box one row too low",
        "tma_ring",
        "",
        "",
        (DEADLOCK,),
        boxes=(("in", (31, 32)),),
    ),
    Mutation(
        "box one row too high",
        "tma_ring",
        "",
        "",
        (DEADLOCK, RACE, REUSE, BARRIER),
        also=(BOUNDS, UNINITIALISED, PENDING),
        boxes=(("in", (33, 32)),),
    ),
    Mutation(
        "stored box one row too high",
        "tma_ring",
        "",
        "",
        (BOUNDS, RACE, UNINITIALISED, BARRIER),
        also=(REUSE,),
        boxes=(("out", (33, 32)),),
    ),
    # --- Bulk copies
    Mutation(
        "bulk copy runs past the array",
        "bulk_ring",
        "      if (row + 1 < rows_per_cta) {",
        "      if (row < rows_per_cta) {",
        (BOUNDS,),
    ),
    Mutation(
        "bulk size not a multiple of 16",
        "bulk_ring",
        "bulk_reduce_add(sums, total, kRowBytes);",
        "bulk_reduce_add(sums, total, kRowBytes - 4);",
        (MISALIGNED,),
    ),
    Mutation(
        "output row reused early",
        "bulk_ring",
        "bulk_wait_read<1>();",
        "bulk_wait_read<2>();",
        (REUSE,),
    ),
    Mutation(
        "no proxy fence before the reduction",
        "bulk_ring",
        "  total[thread] = sum;\n  fence_async();\n",
        "  total[thread] = sum;\n",
        (FENCE,),
    ),
    Mutation(
        "uninitialised row stored",
        "bulk_ring",
        "    row_out[slot][thread] = 2.0f * value;\n",
        "    if (thread < 64) row_out[slot][thread] = 2.0f * value;\n",
        (UNINITIALISED,),
    ),
    # --- Warp-specialised GEMM
    Mutation(
        "no wgmma.fence",
        "gemm_roles",
        "    wgmma_fence();\n",
        "",
        (FENCE,),
    ),
    Mutation(
        "no wgmma.commit_group",
        "gemm_roles",
        "    wgmma_commit();\n",
        "",
        (REUSE, BARRIER),
        also=(PENDING, DEADLOCK, RACE),
    ),
    Mutation(
        "wgmma wait off by one",
        "gemm_roles",
        "    wgmma_wait<0>();\n",
        "    wgmma_wait<1>();\n",
        (REUSE, BARRIER),
        also=(PENDING, DEADLOCK, RACE),
    ),
    Mutation(
        "B tile released while wgmma reads it",
        "gemm_roles",
        "    wgmma_wait<0>();\n    if (thread % 128 == 0) mbarrier_arrive(&shared.empty[stage]);\n",
        "    if (thread % 128 == 0) mbarrier_arrive(&shared.empty[stage]);\n    wgmma_wait<0>();\n",
        (REUSE, RACE, BARRIER),
        also=(DEADLOCK,),
    ),
    Mutation(
        "expects two tiles of three",
        "gemm_roles",
        "mbarrier_expect(&shared.full[stage], 3 * kTileBytes);",
        "mbarrier_expect(&shared.full[stage], 2 * kTileBytes);",
        (
            RACE,
            UNINITIALISED,
            DEADLOCK,
        ),
        also=(
            REUSE,
            PENDING,
            BARRIER,
        ),
    ),
    Mutation(
        "one warpgroup does not release",
        "gemm_roles",
        "if (thread % 128 == 0) mbarrier_arrive",
        "if (thread == 128) mbarrier_arrive",
        (DEADLOCK,),
    ),
    Mutation(
        "wrong group stride of the descriptor",
        "gemm_roles",
        "matrix_descriptor(shared.b[stage]) + 2 * step",
        "matrix_descriptor(shared.b[stage], 65536) + 2 * step",
        (BOUNDS, DESCRIPTOR),
    ),
    Mutation(
        "setmaxnreg over budget",
        "gemm_roles",
        "registers_claim<232>();",
        "registers_claim<240>();",
        (BUDGET,),
    ),
    Mutation(
        "tile buffers not aligned to the swizzle",
        "gemm_roles",
        "*reinterpret_cast<Shared*>(memory);",
        "*reinterpret_cast<Shared*>(memory + 64);",
        (MISALIGNED, DESCRIPTOR),
    ),
    Mutation(
        "wait for an mbarrier that was never initialised",
        "gemm_roles",
        "mbarrier_wait(&shared.full[stage], k / kStages & 1);",
        "mbarrier_wait(&shared.full[stage] + 5, k / kStages & 1);",
        (BARRIER,),
    ),
    # --- Two products: register fragments, generic writes read by wgmma
    Mutation(
        "no wgmma.fence after packing P",
        "two_products",
        "    }\n  }\n  wgmma_fence();\n",
        "    }\n  }\n",
        (FENCE,),
    ),
    Mutation(
        "accumulators read before the wait",
        "two_products",
        "  wgmma_commit();\n  wgmma_wait<0>();\n  u32 p[4][4];",
        "  wgmma_commit();\n  u32 p[4][4];",
        (REUSE,),
    ),
    Mutation(
        "no proxy fence after writing V",
        "two_products",
        "  fence_async();\n",
        "",
        (FENCE,),
    ),
    Mutation(
        "no barrier after writing V",
        "two_products",
        "  fence_async();\n  __syncthreads();\n",
        "  fence_async();\n",
        (
            RACE,
            BARRIER,
        ),
    ),
    Mutation(
        "part of V not written",
        "two_products",
        "i < 64 * 8; i += 128",
        "i < 63 * 8; i += 128",
        (UNINITIALISED,),
    ),
    # --- cp.async
    Mutation(
        "cp.async wait off by one",
        "cp_async_buffers",
        "    cp_async_wait<1>();\n",
        "    cp_async_wait<2>();\n",
        (RACE,),
        also=(
            REUSE,
            UNINITIALISED,
        ),
    ),
    Mutation(
        "cp.async not committed",
        "cp_async_buffers",
        "    cp_async_commit();\n    cp_async_wait<1>();",
        "    cp_async_wait<1>();",
        (RACE,),
        also=(
            REUSE,
            UNINITIALISED,
            PENDING,
        ),
    ),
    Mutation(
        "no barrier before the other threads' copies are read",
        "cp_async_buffers",
        "    cp_async_wait<1>();\n    __syncthreads();\n",
        "    cp_async_wait<1>();\n",
        (RACE,),
        also=(UNINITIALISED,),
    ),
    Mutation(
        "buffer overwritten while it is read",
        "cp_async_buffers",
        "    __syncthreads();\n  }\n",
        "  }\n",
        (RACE, REUSE),
    ),
    Mutation(
        "misaligned cp.async",
        "cp_async_buffers",
        "x + (row + 1) * kColumns + thread * 4);",
        "x + (row + 1) * kColumns + thread * 4 + 1);",
        (MISALIGNED,),
    ),
    # --- Clusters
    Mutation(
        "no cluster barrier after mbarrier.init",
        "cluster_sum",
        "  cluster_arrive_relaxed();\n  cluster_wait();\n",
        "",
        (
            FENCE,
            BARRIER,
        ),
        also=(
            RACE,
            UNINITIALISED,
        ),
    ),
    Mutation(
        "no fence.mbarrier_init",
        "cluster_sum",
        "    fence_mbarrier_init();\n",
        "",
        (FENCE, BARRIER),
    ),
    Mutation(
        "remote arrive on the own barrier",
        "cluster_sum",
        "mbarrier_arrive_remote(&ready, 0);",
        "mbarrier_arrive_remote(&ready, 1);",
        (DEADLOCK,),
    ),
    Mutation(
        "remote value read without the wait",
        "cluster_sum",
        "    mbarrier_wait_cluster(&ready, 0);\n",
        "",
        (RACE,),
        also=(UNINITIALISED,),
    ),
    Mutation(
        "multicast to one CTA only",
        "cluster_sum",
        "kRows, &loaded, 3);",
        "kRows, &loaded, 1);",
        (DEADLOCK,),
    ),
    Mutation(
        "remote read without cluster barrier",
        "cluster_exchange",
        "  cluster_arrive();\n  cluster_wait();\n  const float other",
        "  const float other",
        (RACE,),
        also=(UNINITIALISED,),
    ),
    Mutation(
        "row overwritten while the peer reads it",
        "cluster_exchange",
        "  cluster_arrive();\n  cluster_wait();\n  row[thread] = 0.0f;",
        "  row[thread] = 0.0f;",
        (
            RACE,
            BOUNDS,
        ),
    ),
    Mutation(
        "relaxed cluster arrive",
        "cluster_exchange",
        "  cluster_arrive();\n  cluster_wait();\n  const float other",
        "  cluster_arrive_relaxed();\n  cluster_wait();\n  const float other",
        (RACE,),
    ),
    Mutation(
        "exit while the peer reads",
        "cluster_exchange",
        "  cluster_arrive();\n  cluster_wait();\n  row[thread] = 0.0f;\n",
        "",
        (BOUNDS, RACE),
    ),
    # --- Named barriers
    Mutation(
        "no wait for the drained buffer",
        "ping_pong",
        "      if (round > 0) named_sync(kDrained, 2 * kGroup);\n",
        "",
        (
            RACE,
            DEADLOCK,
        ),
        also=(UNINITIALISED,),
    ),
    Mutation(
        "wrong barrier number",
        "ping_pong",
        "      named_arrive(kFilled, 2 * kGroup);\n",
        "      named_arrive(kDrained, 2 * kGroup);\n",
        (
            DEADLOCK,
            BARRIER,
        ),
        also=(RACE,),
    ),
    Mutation(
        "wrong thread count",
        "ping_pong",
        "      named_sync(kFilled, 2 * kGroup);\n",
        "      named_sync(kFilled, kGroup);\n",
        (BARRIER, RACE),
        also=(UNINITIALISED, DEADLOCK),
    ),
    # --- Tensor maps made on the device
    Mutation(
        "no fence of the map's proxy",
        "changed_map",
        "    map_acquire(changed);\n",
        "",
        (FENCE,),
    ),
    # --- Global memory and warps
    Mutation(
        "flag polled without acquire",
        "token_passing",
        "load_acquire(flags",
        "load_relaxed(flags",
        (RACE,),
    ),
    Mutation(
        "flag released to the own CTA only",
        "token_passing",
        "store_release(flags",
        "store_release_cta(flags",
        (RACE,),
    ),
    Mutation(
        "flag set one too far",
        "token_passing",
        "flags + turn + 1, 1",
        "flags + turn + 2, 1",
        (DEADLOCK,),
        also=(RACE, UNINITIALISED),
    ),
    Mutation(
        "barrier executed by a part of a warp",
        "last_block",
        "  __syncthreads();\n  if (last",
        "  if (thread < 100) __syncthreads();\n  if (last",
        (DIVERGENCE, RACE),
        also=(UNINITIALISED,),
    ),
    Mutation(
        "no __threadfence before the counter",
        "last_block",
        "    __threadfence();\n    last",
        "    last",
        (RACE,),
    ),
    Mutation(
        "counter updated without atomics",
        "last_block",
        "atomicAdd(counter, 1u) == gridDim.x - 1;",
        "(*counter)++ == gridDim.x - 1;",
        (RACE,),
    ),
    Mutation(
        "no barrier between the warps' sums",
        "last_block",
        "sum;\n  __syncthreads();\n",
        "sum;\n",
        (RACE,),
        also=(UNINITIALISED,),
    ),
    Mutation(
        "vector load past the end",
        "last_block",
        "i < n4; i +=",
        "i <= n4; i +=",
        (BOUNDS,),
    ),
    Mutation(
        "no __syncwarp between the lanes",
        "warp_tiles",
        "  __syncwarp();\n",
        "",
        (RACE,),
    ),
    Mutation(
        "misaligned vector store",
        "warp_tiles",
        "&tile[warp][lane * 4]) =",
        "&tile[warp][lane * 4 - (lane == 5 ? 1 : 0)]) =",
        (MISALIGNED,),
    ),
    Mutation(
        "store past the end",
        "warp_tiles",
        "if (index >= tiles) return;",
        "if (index > tiles) return;",
        (BOUNDS,),
    ),
]
