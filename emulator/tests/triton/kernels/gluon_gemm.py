"""Kernels in Gluon, Triton's low-level dialect: roles, barriers and buffers are written by hand."""

# mypy: ignore-errors
# Gluon parses these functions itself: their arguments are device values, not Python objects.
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import (
    fence_async_shared,
    mbarrier,
    tma,
    warpgroup_mma,
    warpgroup_mma_wait,
)


@gluon.jit
def _load_role(a, b, a_ring, b_ring, full, empty, row, column, k_tiles, STAGES: gl.constexpr):
    BK: gl.constexpr = a.block_type.shape[1]
    for k in range(k_tiles):
        stage = k % STAGES
        # A fresh barrier counts as having completed the phase before the first one.
        mbarrier.wait(empty.index(stage), ((k // STAGES) & 1) ^ 1)
        mbarrier.expect(full.index(stage), a.block_type.nbytes + b.block_type.nbytes)
        tma.async_load(a, [row, k * BK], full.index(stage), a_ring.index(stage))
        tma.async_load(b, [column, k * BK], full.index(stage), b_ring.index(stage))


@gluon.jit
def _multiply_role(c, a_ring, b_ring, full, empty, row, column, k_tiles, STAGES: gl.constexpr):
    BM: gl.constexpr = c.block_type.shape[0]
    BN: gl.constexpr = c.block_type.shape[1]
    layout: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, BN, 16])
    accumulator = gl.zeros((BM, BN), dtype=gl.float32, layout=layout)
    for k in range(k_tiles):
        stage = k % STAGES
        mbarrier.wait(full.index(stage), (k // STAGES) & 1)
        b_turned = b_ring.index(stage).permute((1, 0))
        accumulator = warpgroup_mma(a_ring.index(stage), b_turned, accumulator, is_async=True)
        accumulator = warpgroup_mma_wait(0, deps=(accumulator,))
        mbarrier.arrive(empty.index(stage), count=1)
    tile = gl.allocate_shared_memory(c.dtype, c.block_type.shape, c.layout)
    tile.store(accumulator.to(c.dtype))
    fence_async_shared()
    tma.async_store(c, [row, column], tile)
    tma.store_wait(0)


@gluon.jit
def gemm_roles(a, b, c, N, K, STAGES: gl.constexpr):
    """c[M, N] = a[M, K] b[N, K]^T: a load warp and a multiplying warpgroup around a ring."""
    BM: gl.constexpr = a.block_type.shape[0]
    BN: gl.constexpr = b.block_type.shape[0]
    BK: gl.constexpr = a.block_type.shape[1]
    tiles_n = gl.cdiv(N, BN)
    row = gl.program_id(0) // tiles_n * BM
    column = gl.program_id(0) % tiles_n * BN
    a_ring = gl.allocate_shared_memory(a.dtype, [STAGES, BM, BK], a.layout)
    b_ring = gl.allocate_shared_memory(b.dtype, [STAGES, BN, BK], b.layout)
    full = gl.allocate_shared_memory(gl.int64, [STAGES, 1], mbarrier.MBarrierLayout())
    empty = gl.allocate_shared_memory(gl.int64, [STAGES, 1], mbarrier.MBarrierLayout())
    for stage in gl.static_range(STAGES):
        mbarrier.init(full.index(stage), count=1)
        mbarrier.init(empty.index(stage), count=1)
    k_tiles = gl.cdiv(K, BK)
    gl.warp_specialize(
        [
            (_multiply_role, (c, a_ring, b_ring, full, empty, row, column, k_tiles, STAGES)),
            (_load_role, (a, b, a_ring, b_ring, full, empty, row, column, k_tiles, STAGES)),
        ],
        [1],
        [24],
    )
    for stage in gl.static_range(STAGES):
        mbarrier.invalidate(full.index(stage))
        mbarrier.invalidate(empty.index(stage))
