"""Matrix products: TMA + wgmma, persistent, warp-specialised, split-K with atomics, mma.sync."""

# mypy: ignore-errors
# Triton parses these functions itself: their arguments are device values, not Python objects.
import triton
import triton.language as tl


@triton.jit
def gemm_tma(
    a,
    b,
    c,
    N,
    K,
    BM: tl.constexpr,
    BN: tl.constexpr,
    BK: tl.constexpr,
    ACC: tl.constexpr,
    OUT: tl.constexpr,
):
    """c[M, N] = a[M, K] b[N, K]^T, one tile per program."""
    tiles_n = tl.cdiv(N, BN)
    row = tl.program_id(0) // tiles_n * BM
    column = tl.program_id(0) % tiles_n * BN
    accumulator = tl.zeros((BM, BN), dtype=ACC)
    for k in tl.range(0, tl.cdiv(K, BK)):
        accumulator = tl.dot(a.load([row, k * BK]), b.load([column, k * BK]).T, accumulator)
    c.store([row, column], accumulator.to(OUT))


@triton.jit
def gemm_tma_row_major_b(a, b, c, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """c[M, N] = a[M, K] b[K, N]: the B operand of wgmma is N-major ("transposed")."""
    tiles_n = tl.cdiv(N, BN)
    row = tl.program_id(0) // tiles_n * BM
    column = tl.program_id(0) % tiles_n * BN
    accumulator = tl.zeros((BM, BN), dtype=tl.float32)
    for k in tl.range(0, tl.cdiv(K, BK)):
        accumulator = tl.dot(a.load([row, k * BK]), b.load([k * BK, column]), accumulator)
    c.store([row, column], accumulator.to(tl.bfloat16))


@triton.jit
def gemm_persistent(a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """A grid smaller than the number of tiles; the loops over tiles and K are fused."""
    tiles_n = tl.cdiv(N, BN)
    tiles = tl.cdiv(M, BM) * tiles_n
    for tile in tl.range(tl.program_id(0), tiles, tl.num_programs(0), flatten=True):
        row = tile // tiles_n * BM
        column = tile % tiles_n * BN
        accumulator = tl.zeros((BM, BN), dtype=tl.float32)
        for k in range(tl.cdiv(K, BK)):
            accumulator = tl.dot(a.load([row, k * BK]), b.load([column, k * BK]).T, accumulator)
        c.store([row, column], accumulator.to(tl.float16))


@triton.jit
def gemm_split_k(
    a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, SPLITS: tl.constexpr
):
    """Plain pointers (cp.async pipeline); each program adds its slice of K to c with atomics."""
    tiles_n = tl.cdiv(N, BN)
    rows = tl.program_id(0) // tiles_n * BM + tl.arange(0, BM)
    columns = tl.program_id(0) % tiles_n * BN + tl.arange(0, BN)
    ks = tl.program_id(1) * BK + tl.arange(0, BK)
    a_pointers = a + rows[:, None] * K + ks[None, :]
    b_pointers = b + columns[None, :] * K + ks[:, None]
    accumulator = tl.zeros((BM, BN), dtype=tl.float32)
    for k in range(tl.cdiv(K, BK * SPLITS)):
        left = K - k * BK * SPLITS
        a_tile = tl.load(a_pointers, mask=(rows[:, None] < M) & (ks[None, :] < left), other=0.0)
        b_tile = tl.load(b_pointers, mask=(columns[None, :] < N) & (ks[:, None] < left), other=0.0)
        accumulator = tl.dot(a_tile, b_tile, accumulator)
        a_pointers += BK * SPLITS
        b_pointers += BK * SPLITS
    valid = (rows[:, None] < M) & (columns[None, :] < N)
    tl.atomic_add(c + rows[:, None] * N + columns[None, :], accumulator, mask=valid)
