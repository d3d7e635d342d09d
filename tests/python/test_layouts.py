"""How rows may lie in memory: dense, broadcast, mapped, holes, slack, views, empty things."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

import jfa
from conftest import Computation
from support import TOLERANCE, assert_close, attend, gradients, offsets_of, random_rows


def compare(
    compute: Computation, out: Tensor, expected: Tensor, inputs: list[Tensor], what: str = ""
) -> None:
    """out and the gradients of ``inputs`` for a random gradient of out."""
    tolerance = TOLERANCE[compute.dtype]
    assert_close(out, expected, tolerance, f"out {what}")
    d_out = torch.randn(out.shape).to(compute.dtype)
    actual, wanted = gradients(out, d_out, inputs), gradients(expected, d_out, inputs)
    for index, (a, w) in enumerate(zip(actual, wanted, strict=True)):
        assert_close(a, w, 2 * tolerance, f"gradient {index} {what}")


def rows_of(tensor: Tensor, offsets: Tensor, b: int) -> Tensor:
    return tensor[int(offsets[b]) : int(offsets[b + 1])]


def test_dense_queries_on_jagged_keys(compute: Computation) -> None:
    offsets = offsets_of([4, 0, 9])
    q = random_rows(3, 5, 2, 8, dtype=compute.dtype)
    k, v = (random_rows(13, 2, 8, dtype=compute.dtype) for _ in range(2))
    out, lse = compute(q, k, v, None, offsets)
    parts = [attend(q[b], rows_of(k, offsets, b), rows_of(v, offsets, b)) for b in range(3)]
    assert lse.shape == (2, 15)
    compare(compute, out, torch.stack([part[0] for part in parts]), [q, k, v])


def test_jagged_queries_on_dense_keys(compute: Computation) -> None:
    offsets = offsets_of([4, 0, 9])
    q = random_rows(13, 2, 8, dtype=compute.dtype)
    k, v = (random_rows(3, 6, 2, 8, dtype=compute.dtype) for _ in range(2))
    out, _ = compute(q, k, v, offsets, mask=jfa.causal())
    parts = []
    for b in range(3):
        rows = rows_of(q, offsets, b)
        i, j = torch.arange(len(rows))[:, None], torch.arange(6)[None, :]
        parts.append(attend(rows, k[b], v[b], j <= i + 6 - len(rows))[0])
    compare(compute, out, torch.cat(parts), [q, k, v])


@pytest.mark.parametrize("activation", ["softmax", "silu"])
def test_broadcast_queries(compute: Computation, activation: str) -> None:
    """Pooling with learned queries: their gradient is the sum over the batch."""
    offsets = offsets_of([4, 0, 9, 1])
    q = random_rows(3, 4, 8, dtype=compute.dtype)
    k, v = (random_rows(14, 2, 8, dtype=compute.dtype) for _ in range(2))
    out, _ = compute(q, k, v, None, offsets, activation=activation)
    assert out.shape == (4, 3, 4, 8)
    parts = [
        attend(q, rows_of(k, offsets, b), rows_of(v, offsets, b), activation=activation)[0]
        for b in range(4)
    ]
    compare(compute, out, torch.stack(parts), [q, k, v])


def test_broadcast_keys(compute: Computation) -> None:
    offsets = offsets_of([4, 0, 9])
    q = random_rows(13, 4, 8, dtype=compute.dtype)
    k, v = (random_rows(6, 2, 8, dtype=compute.dtype) for _ in range(2))
    out, _ = compute(q, k, v, offsets, kv_layout="broadcast")
    parts = [attend(rows_of(q, offsets, b), k, v)[0] for b in range(3)]
    compare(compute, out, torch.cat(parts), [q, k, v])


def test_both_sides_broadcast(compute: Computation) -> None:
    q, k, v = (random_rows(3, 2, 8, dtype=compute.dtype) for _ in range(3))
    out, _ = compute(q, k, v, batch=2)
    compare(compute, out, attend(q, k, v)[0].expand(2, 3, 2, 8), [q, k, v])


def test_map_of_candidates_to_requests(compute: Computation) -> None:
    """Many query sequences use the same key sequence; its gradients add up."""
    q_offsets, kv_offsets = offsets_of([2, 3, 0, 4]), offsets_of([5, 7])
    kv_map = torch.tensor([1, 0, 0, 1], dtype=torch.int32)
    q = random_rows(9, 2, 8, dtype=compute.dtype)
    k, v = (random_rows(12, 2, 8, dtype=compute.dtype) for _ in range(2))
    out, _ = compute(q, k, v, q_offsets, kv_offsets, kv_map=kv_map)
    parts = [
        attend(
            rows_of(q, q_offsets, b),
            rows_of(k, kv_offsets, int(kv_map[b])),
            rows_of(v, kv_offsets, int(kv_map[b])),
        )[0]
        for b in range(4)
    ]
    compare(compute, out, torch.cat(parts), [q, k, v])


@pytest.mark.parametrize("dtype", [torch.int32, torch.int64])
def test_lengths_give_the_same_bits_as_offsets(compute: Computation, dtype: torch.dtype) -> None:
    lengths = torch.tensor([3, 0, 5], dtype=dtype)
    q, k, v = (random_rows(8, 2, 8, dtype=compute.dtype) for _ in range(3))
    by_lengths = compute(q, k, v, q_lengths=lengths)
    by_offsets = compute(q, k, v, offsets_of([3, 0, 5], dtype=dtype))
    assert torch.equal(by_lengths[0], by_offsets[0])
    assert torch.equal(jfa.offsets_from_lengths(lengths), offsets_of([3, 0, 5], dtype=dtype))
    assert jfa.offsets_from_lengths(lengths).dtype == dtype


@pytest.mark.parametrize("activation", ["softmax", "silu"])
def test_slack_and_holes_hold_nan(compute: Computation, activation: str) -> None:
    """Rows that belong to no sequence are never part of a result; theirs are exactly 0."""
    lengths, used = [4, 6, 0, 3], torch.tensor([4, 2, 0, 99])
    offsets = offsets_of(lengths, start=3)
    valid = torch.zeros(20, dtype=torch.bool)
    for b in range(4):
        valid[int(offsets[b]) : int(offsets[b]) + min(lengths[b], int(used[b]))] = True
    data = [torch.randn(20, 2, 8) for _ in range(3)]
    for tensor in data:
        tensor[~valid] = torch.nan
    q, k, v = (tensor.to(compute.dtype).requires_grad_() for tensor in data)
    out, lse = compute(q, k, v, offsets, q_used=used, activation=activation, mask=jfa.causal())
    d_out = torch.randn(20, 2, 8).to(compute.dtype)
    d_out[~valid] = torch.nan
    found = gradients(out, d_out, [q, k, v])
    for name, result in zip(["out", "d_q", "d_k", "d_v"], [out, *found], strict=True):
        assert (result[~valid] == 0).all(), name
        assert result[valid].isfinite().all(), name
    if activation == "softmax":
        assert (lse[:, ~valid] == -torch.inf).all()

    parts, inputs = [], []
    for b in range(4):
        rows = [rows_of(t, offsets, b)[: int(used[b])].detach() for t in (q, k, v)]
        inputs += [row.requires_grad_() for row in rows]
        causal = torch.ones(len(rows[0]), len(rows[0]), dtype=torch.bool).tril()
        parts.append(attend(*rows, causal, activation=activation)[0])
    assert_close(out[valid], torch.cat(parts), TOLERANCE[compute.dtype])
    wanted = gradients(torch.cat(parts), d_out[valid], inputs)
    for index, gradient in enumerate(found):
        expected = torch.cat(wanted[index::3])
        assert_close(gradient[valid], expected, 2 * TOLERANCE[compute.dtype], f"gradient {index}")


def test_nan_stays_in_its_sequence() -> None:
    """With strict isolation NaN in one sequence's valid rows leaves all others' bits alone."""
    offsets = offsets_of([3, 4, 2])
    tensors = [torch.randn(9, 2, 8) for _ in range(3)]
    clean = jfa.jagged_attention(*tensors, offsets, strict_isolation=True)
    for tensor in tensors:
        tensor[4] = torch.nan
    spoiled = jfa.jagged_attention(*tensors, offsets, strict_isolation=True)
    assert torch.equal(clean[:3], spoiled[:3])
    assert torch.equal(clean[7:], spoiled[7:])
    assert spoiled[3:7].isnan().all()


def test_views_of_one_fused_buffer(compute: Computation) -> None:
    """q, k, v as views of a fused UVQK projection, with other widths in between."""
    offsets = offsets_of([3, 0, 5])
    fused = random_rows(8, 2, 7 + 8 + 8 + 12, dtype=compute.dtype)
    _, q, k, v = fused.split([7, 8, 8, 12], dim=-1)
    assert not q.is_contiguous()
    out, _ = compute(q, k, v, offsets)
    parts = [attend(*(rows_of(t, offsets, b) for t in (q, k, v)))[0] for b in range(3)]
    compare(compute, out, torch.cat(parts), [fused])


def test_grouped_views_and_transposed_storage(compute: Computation) -> None:
    """Head-major storage [H, total, D] seen as [total, H, D], one element off the buffer start."""
    offsets = offsets_of([3, 5])
    storage = random_rows(3 * 2 * 8 * 8 + 1, dtype=compute.dtype)
    q, k, v = storage[1:].view(3, 2, 8, 8).transpose(1, 2).unbind(0)
    out, _ = compute(q, k, v, offsets)
    parts = [attend(*(rows_of(t, offsets, b) for t in (q, k, v)))[0] for b in range(2)]
    compare(compute, out, torch.cat(parts), [storage])


def test_expanded_gradient(compute: Computation) -> None:
    """The gradient of .sum() has stride 0 everywhere."""
    offsets = offsets_of([3, 5])
    q, k, v = (random_rows(8, 2, 8, dtype=compute.dtype) for _ in range(3))
    out, _ = compute(q, k, v, offsets)
    by_sum = torch.autograd.grad(out.sum(), [q, k, v], retain_graph=True)
    by_ones = torch.autograd.grad(out, [q, k, v], torch.ones_like(out))
    for a, b in zip(by_sum, by_ones, strict=True):
        assert torch.equal(a, b)


def test_transposed_gradient(compute: Computation) -> None:
    offsets = offsets_of([3, 5])
    q, k, v = (random_rows(8, 2, 8, dtype=compute.dtype) for _ in range(3))
    out, _ = compute(q, k, v, offsets)
    weight = torch.randn(2, 8, 8).to(out.dtype)
    a = torch.autograd.grad((out.transpose(0, 1) * weight).sum(), [q, k, v], retain_graph=True)
    b = torch.autograd.grad(out, [q, k, v], weight.transpose(0, 1).contiguous())
    for x, y in zip(a, b, strict=True):
        assert torch.equal(x, y)


@pytest.mark.parametrize(
    ("lengths", "rows"),
    [([], 0), ([0], 0), ([0, 0, 0], 0), ([], 4), ([0, 0], 4), ([1], 1)],
)
@pytest.mark.parametrize("activation", ["softmax", "silu"])
def test_empty_batches(
    compute: Computation, lengths: list[int], rows: int, activation: str
) -> None:
    offsets = offsets_of(lengths)
    q, k, v = (random_rows(rows, 2, 8, dtype=compute.dtype) for _ in range(3))
    out, lse = compute(q, k, v, offsets, activation=activation)
    assert out.shape == (rows, 2, 8)
    if sum(lengths) == 0:
        assert (out == 0).all()
        assert activation != "softmax" or (lse == -torch.inf).all()
        for gradient in gradients(out, torch.ones_like(out), [q, k, v]):
            assert (gradient == 0).all()


def test_queries_without_keys_and_keys_without_queries(compute: Computation) -> None:
    q_offsets, kv_offsets = offsets_of([3, 0]), offsets_of([0, 4])
    q = random_rows(3, 2, 8, dtype=compute.dtype)
    k, v = (random_rows(4, 2, 8, dtype=compute.dtype) for _ in range(2))
    out, lse = compute(q, k, v, q_offsets, kv_offsets)
    assert (out == 0).all()
    assert (lse == -torch.inf).all()
    for gradient in gradients(out, torch.ones_like(out), [q, k, v]):
        assert (gradient == 0).all()


def test_empty_broadcast_batch(compute: Computation) -> None:
    q = random_rows(3, 2, 8, dtype=compute.dtype)
    k, v = (random_rows(0, 2, 8, dtype=compute.dtype) for _ in range(2))
    out, _ = compute(q, k, v, None, offsets_of([]))
    assert out.shape == (0, 3, 2, 8)
    assert (gradients(out, torch.empty_like(out), [q])[0] == 0).all()


@pytest.mark.parametrize("kind", ["number", "sequence", "token"])
def test_out_scale(compute: Computation, kind: str) -> None:
    """Post-scale of the output: HSTU's 1/N, or jagged per-token factors."""
    lengths = [3, 0, 5]
    offsets = offsets_of(lengths)
    q, k, v = (random_rows(8, 2, 8, dtype=compute.dtype) for _ in range(3))
    factors = torch.rand(8) + 0.5
    scale: float | jfa.OutScale = 0.25
    expected_factors = torch.full([8], 0.25)
    if kind == "sequence":
        scale = jfa.per_sequence(factors[:3])
        expected_factors = factors[:3].repeat_interleave(torch.tensor(lengths))
    if kind == "token":
        scale, expected_factors = jfa.per_token(factors), factors
    out, _ = compute(q, k, v, offsets, activation="silu", out_scale=scale)
    parts = [
        attend(*(rows_of(t, offsets, b) for t in (q, k, v)), activation="silu")[0] for b in range(3)
    ]
    expected = torch.cat(parts) * expected_factors.double()[:, None, None]
    compare(compute, out, expected, [q, k, v])


def test_out_scale_per_token_of_broadcast_queries(compute: Computation) -> None:
    offsets = offsets_of([4, 2])
    q = random_rows(3, 2, 8, dtype=compute.dtype)
    k, v = (random_rows(6, 2, 8, dtype=compute.dtype) for _ in range(2))
    factors = torch.rand(2, 3)
    out, _ = compute(q, k, v, None, offsets, out_scale=jfa.per_token(factors))
    parts = [attend(q, rows_of(k, offsets, b), rows_of(v, offsets, b))[0] for b in range(2)]
    expected = torch.stack(parts) * factors.double()[..., None, None]
    compare(compute, out, expected, [q, k, v])


@pytest.mark.parametrize(
    ("heads", "kv_heads", "dim", "value_dim"),
    [(1, 1, 1, 4), (3, 3, 5, 7), (21, 7, 16, 8), (8, 1, 72, 96), (2, 2, 256, 256)],
)
def test_heads_and_dimensions(
    compute: Computation, heads: int, kv_heads: int, dim: int, value_dim: int
) -> None:
    offsets = offsets_of([3, 0, 9])
    q = random_rows(12, heads, dim, dtype=compute.dtype)
    k = random_rows(12, kv_heads, dim, dtype=compute.dtype)
    v = random_rows(12, kv_heads, value_dim, dtype=compute.dtype)
    out, _ = compute(q, k, v, offsets)
    parts = [attend(*(rows_of(t, offsets, b) for t in (q, k, v)))[0] for b in range(3)]
    compare(compute, out, torch.cat(parts), [q, k, v])


def test_order_of_sequences_does_not_change_bits() -> None:
    """Permuting the batch permutes the results bit for bit; an empty sequence changes nothing."""
    lengths = [7, 130, 1, 33]
    offsets = offsets_of(lengths)
    q, k, v = (torch.randn(sum(lengths), 2, 16) for _ in range(3))
    out = jfa.jagged_attention(q, k, v, offsets, mask=jfa.causal())
    order = [2, 0, 3, 1]
    permuted = [torch.cat([rows_of(t, offsets, b) for b in order]) for t in (q, k, v)]
    new_offsets = offsets_of([lengths[b] for b in order])
    result = jfa.jagged_attention(*permuted, new_offsets, mask=jfa.causal())
    for place, b in enumerate(order):
        assert torch.equal(rows_of(result, new_offsets, place), rows_of(out, offsets, b))
    with_empty = offsets_of([0, 7, 130, 0, 0, 1, 33, 0])
    assert torch.equal(jfa.jagged_attention(q, k, v, with_empty, mask=jfa.causal()), out)
