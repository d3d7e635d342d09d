"""Jagged nested tensors in and out."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

import jfa
from conftest import Computation
from support import TOLERANCE, assert_close, attend, random_rows


def nested(parts: list[Tensor]) -> Tensor:
    return torch.nested.as_nested_tensor(parts, layout=torch.jagged)


@pytest.mark.parametrize("transposed", [False, True])
def test_self_attention(compute: Computation, transposed: bool) -> None:
    """[batch, j, H, D] and, as scaled_dot_product_attention has it, [batch, H, j, D]."""
    parts = [random_rows(n, 2, 8, dtype=compute.dtype) for n in (3, 0, 5)]
    q = nested(parts)
    k, v = q * 0.5, q + 1
    inputs = [t.transpose(1, 2) if transposed else t for t in (q, k, v)]
    out, _ = compute(*inputs, mask=jfa.causal())
    assert out.shape == inputs[0].shape  # the same ragged size: out + q works
    if transposed:
        out = out.transpose(1, 2)
    expected = [
        attend(x, x * 0.5, x + 1, torch.ones(len(x), len(x), dtype=torch.bool).tril())[0]
        for x in parts
    ]
    assert_close(out.values(), torch.cat(expected), TOLERANCE[compute.dtype])
    (out + q).values().double().sum().backward()
    actual = [part.grad for part in parts]
    for part in parts:
        part.grad = None
    sum(((e + p).sum() for e, p in zip(expected, parts, strict=True)), torch.zeros(())).backward()
    for a, part in zip(actual, parts, strict=True):
        assert a is not None
        assert part.grad is not None
        assert_close(a, part.grad, 4 * TOLERANCE[compute.dtype], "gradient")


def test_dense_queries_on_nested_keys(compute: Computation) -> None:
    parts = [random_rows(n, 2, 8, dtype=compute.dtype) for n in (3, 1, 5)]
    keys = nested(parts)
    q = random_rows(3, 4, 2, 8, dtype=compute.dtype)
    out, _ = compute(q, keys, keys)
    expected = torch.stack([attend(q[b], parts[b], parts[b])[0] for b in range(3)])
    assert_close(out, expected, TOLERANCE[compute.dtype])


def test_holes(compute: Computation) -> None:
    """narrow() gives a nested tensor with lengths beside its offsets."""
    base = torch.randn(4, 6, 2, 8).to(compute.dtype)
    starts, lengths = torch.tensor([0, 1, 2, 0]), torch.tensor([2, 3, 1, 0])
    q = torch.nested.narrow(base, 1, starts, lengths, layout=torch.jagged)
    assert q.lengths() is not None
    out, _ = compute(q, q, q)
    for b, part in enumerate(out.unbind()):
        x = base[b, starts[b] : starts[b] + lengths[b]]
        assert_close(part, attend(x, x, x)[0], TOLERANCE[compute.dtype])


def test_timestamps_may_be_nested() -> None:
    x = nested([torch.randn(n, 1, 4) for n in (3, 2)])
    flat = torch.tensor([1, 20, 300, 4, 5000])
    table = torch.randn(1, 8)
    stamps = torch.nested.nested_tensor_from_jagged(flat, x.offsets())
    a = jfa.reference_attention(x, x, x, bias=jfa.time_bias(table, stamps))[0]
    values = x.values()
    b = jfa.reference_attention(
        values, values, values, x.offsets(), bias=jfa.time_bias(table, flat)
    )[0]
    assert torch.equal(a.values(), b)


def test_compiled() -> None:
    x = nested([torch.randn(n, 2, 8) for n in (3, 2, 7)])

    def attention(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return jfa.jagged_attention(q, k, v, mask=jfa.causal())

    compiled = torch.compile(attention, fullgraph=True, backend="aot_eager")
    k = x * 2
    assert torch.equal(compiled(x, k, x).values(), attention(x, k, x).values())


def test_refusals() -> None:
    x = nested([torch.randn(n, 2, 8) for n in (3, 2)])
    other = nested([torch.randn(n, 2, 8) for n in (2, 3)])
    flat = x.values()
    with pytest.raises(ValueError, match=r"q_offsets: given although q is a nested tensor"):
        jfa.jagged_attention(x, x, x, x.offsets())
    with pytest.raises(ValueError, match=r"kv_used: given although k is a nested tensor"):
        jfa.jagged_attention(x, x, x, kv_used=torch.tensor([1, 1]))
    with pytest.raises(ValueError, match=r"k: a nested tensor, but v is not"):
        jfa.jagged_attention(x, x, flat)
    with pytest.raises(ValueError, match=r"v: other offsets than k"):
        jfa.jagged_attention(x, x, other)
    with pytest.raises(ValueError, match=r"ragged in dimension 1; allowed: \[batch, j, heads"):
        jfa.jagged_attention(*[nested([torch.randn(n, 8) for n in (3, 2)])] * 3)
    with pytest.raises(ValueError, match=r"layout torch.strided; make it with layout=torch.jagged"):
        jfa.jagged_attention(*[torch.nested.nested_tensor([torch.randn(2, 2, 8)])] * 3)
