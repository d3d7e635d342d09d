"""Kernels without matrix products: element-wise, row-wise, scans, sorts, atomics."""

# mypy: ignore-errors
# Triton parses these functions itself: their arguments are device values, not Python objects.
import triton
import triton.language as tl


@triton.jit
def vector_add(x, y, out, n, BLOCK: tl.constexpr):
    index = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    valid = index < n
    tl.store(
        out + index, tl.load(x + index, mask=valid) + tl.load(y + index, mask=valid), mask=valid
    )


@triton.jit
def gated_silu(gate, up, out, n, BLOCK: tl.constexpr):
    index = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    valid = index < n
    g = tl.load(gate + index, mask=valid, other=0.0).to(tl.float32)
    u = tl.load(up + index, mask=valid, other=0.0).to(tl.float32)
    tl.store(out + index, (g * tl.sigmoid(g) * u).to(tl.bfloat16), mask=valid)


@triton.jit
def softmax_rows(x, out, columns, stride, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    column = tl.arange(0, BLOCK)
    valid = column < columns
    values = tl.load(x + row * stride + column, mask=valid, other=-float("inf"))
    numerator = tl.exp(values - tl.max(values, axis=0))
    tl.store(out + row * stride + column, numerator / tl.sum(numerator, axis=0), mask=valid)


@triton.jit
def layer_norm(x, weight, bias, out, mean_out, rstd_out, columns, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    column = tl.arange(0, BLOCK)
    valid = column < columns
    values = tl.load(x + row * columns + column, mask=valid, other=0.0).to(tl.float32)
    mean = tl.sum(values, axis=0) / columns
    centred = tl.where(valid, values - mean, 0.0)
    rstd = 1.0 / tl.sqrt(tl.sum(centred * centred, axis=0) / columns + eps)
    tl.store(mean_out + row, mean)
    tl.store(rstd_out + row, rstd)
    w = tl.load(weight + column, mask=valid, other=0.0)
    b = tl.load(bias + column, mask=valid, other=0.0)
    tl.store(out + row * columns + column, (centred * rstd * w + b).to(tl.float16), mask=valid)


@triton.jit
def layer_norm_weight_gradient(
    x, dy, mean, rstd, lock, dw, rows, columns, ROWS: tl.constexpr, BLOCK: tl.constexpr
):
    """Each program sums ROWS rows, then adds its part to dw under a spin lock."""
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    column = tl.arange(0, BLOCK)
    valid = (row < rows)[:, None] & (column < columns)[None, :]
    offset = row[:, None] * columns + column[None, :]
    xs = tl.load(x + offset, mask=valid, other=0.0).to(tl.float32)
    gradient = tl.load(dy + offset, mask=valid, other=0.0).to(tl.float32)
    m = tl.load(mean + row, mask=row < rows, other=0.0)
    r = tl.load(rstd + row, mask=row < rows, other=0.0)
    part = tl.sum(gradient * (xs - m[:, None]) * r[:, None], axis=0)
    while tl.atomic_cas(lock, 0, 1) == 1:
        pass
    previous = tl.load(dw + column, mask=column < columns, other=0.0)
    tl.store(dw + column, previous + part, mask=column < columns)
    tl.debug_barrier()
    tl.atomic_xchg(lock, 0)


@triton.jit
def column_sum_atomic(x, out, rows, columns, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    column = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    valid = (row < rows)[:, None] & (column < columns)[None, :]
    values = tl.load(x + row[:, None] * columns + column[None, :], mask=valid, other=0.0)
    tl.atomic_add(out + column, tl.sum(values, axis=0), mask=column < columns)


@triton.jit
def histogram(x, counts, n, BINS: tl.constexpr, BLOCK: tl.constexpr):
    index = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    valid = index < n
    values = tl.load(x + index, mask=valid, other=0)
    tl.atomic_add(counts + tl.arange(0, BINS), tl.histogram(values, BINS, mask=valid))


@triton.jit
def scan_rows(x, sums, positions, columns, BLOCK: tl.constexpr):
    """Prefix sum of each row and the index of its largest element."""
    row = tl.program_id(0)
    column = tl.arange(0, BLOCK)
    valid = column < columns
    values = tl.load(x + row * columns + column, mask=valid, other=0.0)
    tl.store(sums + row * columns + column, tl.cumsum(values, axis=0), mask=valid)
    tl.store(positions + row, tl.argmax(tl.where(valid, values, -float("inf")), axis=0))


@triton.jit
def sort_rows(x, out, BLOCK: tl.constexpr):
    offset = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + offset, tl.sort(tl.load(x + offset)))


@triton.jit
def transpose(x, out, rows, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    column = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    valid = (row < rows)[:, None] & (column < columns)[None, :]
    tile = tl.load(x + row[:, None] * columns + column[None, :], mask=valid)
    turned = tl.trans(tile)
    tl.store(out + column[:, None] * rows + row[None, :], turned, mask=tl.trans(valid))
