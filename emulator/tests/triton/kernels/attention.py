"""Flash attention in Triton: forward with TMA, backward with plain pointers, jagged forward."""

# mypy: ignore-errors
# Triton parses these functions itself: their arguments are device values, not Python objects.
import triton
import triton.language as tl


@triton.jit
def attention_forward(
    q,
    k,
    v,
    out,
    lse,
    length,
    scale_log2,
    D: tl.constexpr,
    BM: tl.constexpr,
    BN: tl.constexpr,
    CAUSAL: tl.constexpr,
):
    """q, k, v, out [heads * length, D] by TMA; lse [heads, length] in base 2."""
    start = tl.program_id(0) * BM
    head = tl.program_id(1)
    q_tile = q.load([head * length + start, 0])
    row = start + tl.arange(0, BM)
    maximum = tl.full((BM,), -float("inf"), dtype=tl.float32)
    denominator = tl.zeros((BM,), dtype=tl.float32)
    accumulator = tl.zeros((BM, D), dtype=tl.float32)
    stop = tl.minimum(start + BM, length) if CAUSAL else length
    for begin in tl.range(0, stop, BN):
        column = begin + tl.arange(0, BN)
        scores = tl.dot(q_tile, k.load([head * length + begin, 0]).T) * scale_log2
        if CAUSAL:
            scores = tl.where(row[:, None] >= column[None, :], scores, -float("inf"))
        new_maximum = tl.maximum(maximum, tl.max(scores, axis=1))
        p = tl.exp2(scores - new_maximum[:, None])
        alpha = tl.exp2(maximum - new_maximum)
        denominator = denominator * alpha + tl.sum(p, axis=1)
        accumulator = accumulator * alpha[:, None]
        v_tile = v.load([head * length + begin, 0])
        accumulator = tl.dot(p.to(v_tile.dtype), v_tile, accumulator)
        maximum = new_maximum
    tl.store(lse + head * length + row, maximum + tl.log2(denominator))
    out.store([head * length + start, 0], (accumulator / denominator[:, None]).to(q_tile.dtype))


@triton.jit
def attention_backward_keys(
    q,
    k,
    v,
    dout,
    lse,
    delta,
    dk,
    dv,
    length,
    scale,
    scale_log2,
    D: tl.constexpr,
    BM: tl.constexpr,
    BN: tl.constexpr,
    CAUSAL: tl.constexpr,
):
    """One program per block of keys: dk and dv."""
    base = tl.program_id(1) * length
    start = tl.program_id(0) * BN
    column = start + tl.arange(0, BN)
    d = tl.arange(0, D)
    k_tile = tl.load(k + (base + column)[:, None] * D + d[None, :])
    v_tile = tl.load(v + (base + column)[:, None] * D + d[None, :])
    dk_tile = tl.zeros((BN, D), dtype=tl.float32)
    dv_tile = tl.zeros((BN, D), dtype=tl.float32)
    first = start // BM * BM if CAUSAL else 0
    for begin in range(first, length, BM):
        row = begin + tl.arange(0, BM)
        q_tile = tl.load(q + (base + row)[:, None] * D + d[None, :])
        dout_tile = tl.load(dout + (base + row)[:, None] * D + d[None, :])
        scores_t = tl.dot(k_tile, tl.trans(q_tile)) * scale_log2
        p_t = tl.exp2(scores_t - tl.load(lse + base + row)[None, :])
        if CAUSAL:
            p_t = tl.where(row[None, :] >= column[:, None], p_t, 0.0)
        dv_tile = tl.dot(p_t.to(dout_tile.dtype), dout_tile, dv_tile)
        dp_t = tl.dot(v_tile, tl.trans(dout_tile))
        ds_t = p_t * (dp_t - tl.load(delta + base + row)[None, :])
        dk_tile = tl.dot(ds_t.to(q_tile.dtype), q_tile, dk_tile)
    tl.store(dv + (base + column)[:, None] * D + d[None, :], dv_tile)
    tl.store(dk + (base + column)[:, None] * D + d[None, :], dk_tile * scale)


@triton.jit
def attention_backward_queries(
    q,
    k,
    v,
    dout,
    lse,
    delta,
    dq,
    length,
    scale,
    scale_log2,
    D: tl.constexpr,
    BM: tl.constexpr,
    BN: tl.constexpr,
    CAUSAL: tl.constexpr,
):
    """One program per block of queries: dq."""
    base = tl.program_id(1) * length
    start = tl.program_id(0) * BM
    row = start + tl.arange(0, BM)
    d = tl.arange(0, D)
    q_tile = tl.load(q + (base + row)[:, None] * D + d[None, :])
    dout_tile = tl.load(dout + (base + row)[:, None] * D + d[None, :])
    row_lse = tl.load(lse + base + row)
    row_delta = tl.load(delta + base + row)
    dq_tile = tl.zeros((BM, D), dtype=tl.float32)
    stop = tl.minimum(start + BM, length) if CAUSAL else length
    for begin in range(0, stop, BN):
        column = begin + tl.arange(0, BN)
        k_tile = tl.load(k + (base + column)[:, None] * D + d[None, :])
        v_tile = tl.load(v + (base + column)[:, None] * D + d[None, :])
        p = tl.exp2(tl.dot(q_tile, tl.trans(k_tile)) * scale_log2 - row_lse[:, None])
        if CAUSAL:
            p = tl.where(row[:, None] >= column[None, :], p, 0.0)
        dp = tl.dot(dout_tile, tl.trans(v_tile))
        ds = p * (dp - row_delta[:, None])
        dq_tile = tl.dot(ds.to(k_tile.dtype), k_tile, dq_tile)
    tl.store(dq + (base + row)[:, None] * D + d[None, :], dq_tile * scale)


@triton.jit
def jagged_attention_forward(
    q, k, v, offsets, out, heads, scale_log2, D: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr
):
    """Causal attention over packed sequences, some empty; q, k, v, out [total, heads, D]."""
    first = tl.load(offsets + tl.program_id(1))
    length = tl.load(offsets + tl.program_id(1) + 1) - first
    start = tl.program_id(0) * BM
    if start >= length:
        return
    head = tl.program_id(2)
    row = start + tl.arange(0, BM)
    d = tl.arange(0, D)
    row_offset = ((first + row) * heads + head)[:, None] * D + d[None, :]
    q_tile = tl.load(q + row_offset, mask=(row < length)[:, None], other=0.0)
    maximum = tl.full((BM,), -float("inf"), dtype=tl.float32)
    denominator = tl.zeros((BM,), dtype=tl.float32)
    accumulator = tl.zeros((BM, D), dtype=tl.float32)
    for begin in range(0, tl.minimum(start + BM, length), BN):
        column = begin + tl.arange(0, BN)
        column_offset = ((first + column) * heads + head)[:, None] * D + d[None, :]
        visible = (column < length)[:, None]
        k_tile = tl.load(k + column_offset, mask=visible, other=0.0)
        scores = tl.dot(q_tile, tl.trans(k_tile)) * scale_log2
        allowed = (row[:, None] >= column[None, :]) & (column < length)[None, :]
        scores = tl.where(allowed, scores, -float("inf"))
        new_maximum = tl.maximum(maximum, tl.max(scores, axis=1))
        p = tl.exp2(scores - new_maximum[:, None])
        alpha = tl.exp2(maximum - new_maximum)
        denominator = denominator * alpha + tl.sum(p, axis=1)
        v_tile = tl.load(v + column_offset, mask=visible, other=0.0)
        accumulator = tl.dot(p.to(v_tile.dtype), v_tile, accumulator * alpha[:, None])
        maximum = new_maximum
    result = (accumulator / denominator[:, None]).to(tl.bfloat16)
    tl.store(out + row_offset, result, mask=(row < length)[:, None])
