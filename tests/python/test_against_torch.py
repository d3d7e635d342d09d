"""Every mask, activation and bias against plain PyTorch in float64, forward and backward."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

import jfa
from conftest import Computation
from support import (
    ACTIVATIONS,
    TOLERANCE,
    assert_close,
    attend,
    gradients,
    hstu_visible,
    offsets_of,
    positions,
    random_rows,
)

Visible = Callable[[int, int, int], Tensor]  # (sequence, Lq, Lk) → bool [Lq, Lk]
BiasOf = Callable[[int, int, int], Tensor]  # (sequence, Lq, Lk) → broadcasts to [Hq, Lq, Lk]


@dataclass
class Case:
    """Jagged q and k of two lists of lengths; Hq heads over Hkv, D and Dv columns."""

    q_lengths: list[int] = field(default_factory=lambda: [5, 0, 1, 17, 3])
    k_lengths: list[int] = field(default_factory=lambda: [7, 4, 0, 17, 2])
    heads: int = 4
    kv_heads: int = 2
    dim: int = 8
    value_dim: int = 12
    options: dict[str, object] = field(default_factory=dict)
    visible: Visible = lambda b, q_length, k_length: torch.ones(q_length, k_length).bool()
    bias: BiasOf = lambda b, q_length, k_length: torch.zeros(1, 1, 1)
    learned: list[Tensor] = field(default_factory=list)  # bias tensors that get a gradient
    scale: float | None = None


def check(compute: Computation, case: Case) -> None:
    """out, lse and the gradients of q, k, v and of what the case learns."""
    dtype = compute.dtype
    q = random_rows(sum(case.q_lengths), case.heads, case.dim, dtype=dtype)
    k = random_rows(sum(case.k_lengths), case.kv_heads, case.dim, dtype=dtype)
    v = random_rows(sum(case.k_lengths), case.kv_heads, case.value_dim, dtype=dtype)
    q_offsets, k_offsets = offsets_of(case.q_lengths), offsets_of(case.k_lengths)
    out, lse = compute(q, k, v, q_offsets, k_offsets, scale=case.scale, **case.options)

    activation = str(case.options.get("activation", "softmax"))
    outs, lses = [], []
    for b, (q_length, k_length) in enumerate(zip(case.q_lengths, case.k_lengths, strict=True)):
        rows = slice(int(q_offsets[b]), int(q_offsets[b + 1]))
        keys = slice(int(k_offsets[b]), int(k_offsets[b + 1]))
        part = attend(
            q[rows],
            k[keys],
            v[keys],
            case.visible(b, q_length, k_length),
            activation=activation,
            scale=case.scale,
            bias=case.bias(b, q_length, k_length),
        )
        outs.append(part[0])
        lses.append(part[1])
    expected = torch.cat(outs)

    tolerance = TOLERANCE[dtype]
    assert out.dtype == dtype
    assert_close(out, expected, tolerance)
    if activation == "softmax":
        assert_close(lse, torch.cat(lses, 1), 1e-13 if compute.is_reference else 1e-5, "lse")
    else:
        assert lse.numel() == 0
    d_out = torch.randn_like(expected).to(dtype)
    inputs = [q, k, v, *case.learned]
    names = ["d_q", "d_k", "d_v", *(f"d_learned[{i}]" for i in range(len(case.learned)))]
    actual = gradients(out, d_out, inputs)
    wanted = gradients(expected, d_out, inputs)
    for name, a, w, i in zip(names, actual, wanted, inputs, strict=True):
        assert a.dtype == i.dtype
        # PyTorch hands out a gradient in the type of its input: rounded, ours and the oracle's.
        allowed = max(2 * tolerance, 2e-7 if i.dtype == torch.float32 else 0.0)
        assert_close(a, w, allowed, name)


def aligned(rule: Callable[[Tensor, Tensor], Tensor], alignment: str = "bottom_right") -> Visible:
    """The mask rule(p(i), j)."""
    return lambda b, q_length, k_length: rule(*positions(q_length, k_length, alignment)).expand(
        q_length, k_length
    )


PER_SEQUENCE = torch.tensor([3, 1, 0, 6, 2], dtype=torch.int32)

MASKS: dict[str, tuple[jfa.Mask | None, Visible]] = {
    "none": (None, lambda b, q, k: torch.ones(q, k).bool()),
    "full": (jfa.full(), lambda b, q, k: torch.ones(q, k).bool()),
    "causal": (jfa.causal(), aligned(lambda p, j: j <= p)),
    "causal_top_left": (jfa.causal("top_left"), aligned(lambda p, j: j <= p, "top_left")),
    "window": (jfa.window(3, 2), aligned(lambda p, j: (p - 3 <= j) & (j <= p + 2))),
    "window_left_only": (jfa.window(left=2), aligned(lambda p, j: j >= p - 2)),
    "window_right_only": (
        jfa.window(right=0, alignment="top_left"),
        aligned(lambda p, j: j <= p, "top_left"),
    ),
    "window_per_sequence": (
        jfa.window(PER_SEQUENCE, 1),
        lambda b, q, k: aligned(lambda p, j: (p - int(PER_SEQUENCE[b]) <= j) & (j <= p + 1))(
            b, q, k
        ),
    ),
    "prefix_local": (
        jfa.prefix_local(2, 3),
        aligned(lambda p, j: (j <= p) & ((j < 2) | (j > p - 3))),
    ),
    "prefix_local_per_sequence": (
        jfa.prefix_local(1, PER_SEQUENCE.long()),
        lambda b, q, k: aligned(lambda p, j: (j <= p) & ((j < 1) | (j > p - int(PER_SEQUENCE[b]))))(
            b, q, k
        ),
    ),
    "blocks": (
        jfa.blocks(4),
        aligned(lambda p, j: p.div(4, rounding_mode="floor") == j // 4),
    ),
}


@pytest.mark.parametrize("name", MASKS)
@pytest.mark.parametrize("activation", ["softmax", "silu"])
def test_mask(compute: Computation, name: str, activation: str) -> None:
    mask, visible = MASKS[name]
    check(compute, Case(options={"mask": mask, "activation": activation}, visible=visible))


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_activation(compute: Computation, activation: str) -> None:
    check(compute, Case(options={"activation": activation}, scale=0.7))


@pytest.mark.parametrize("width", [2, 4])
def test_intervals(compute: Computation, width: int) -> None:
    case = Case()
    bounds = torch.randint(-2, 12, (sum(case.q_lengths), width), dtype=torch.int32)
    first_row = offsets_of(case.q_lengths)

    def visible(b: int, q_length: int, k_length: int) -> Tensor:
        rows = bounds[first_row[b] : first_row[b + 1]]
        j = torch.arange(k_length)
        inside = (rows[:, :1] <= j) & (j < rows[:, 1:2])
        if width == 4:
            inside = inside | ((rows[:, 2:3] <= j) & (j < rows[:, 3:4]))
        return inside

    case.options = {"mask": jfa.intervals(bounds)}
    case.visible = visible
    check(compute, case)


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("window", [(0, 0), (3, 0), (3, 2)])
@pytest.mark.parametrize("contextual", [0, 1, 3])
def test_hstu(compute: Computation, contextual: int, window: tuple[int, int], causal: bool) -> None:
    """generative-recommenders' mask, with targets that differ by sequence."""
    lengths = [12, 4, 20, 0, 7]
    targets = torch.tensor([2, 0, 5, 0, 1])
    mask = jfa.hstu(contextual, targets, 1, *window, causal=causal)

    def visible(b: int, q_length: int, k_length: int) -> Tensor:
        return hstu_visible(q_length, contextual, int(targets[b]), *window, causal)

    out_scale = jfa.per_sequence(torch.full([5], 1.0))
    options: dict[str, object] = {"mask": mask, "activation": "silu", "out_scale": out_scale}
    check(compute, Case(lengths, lengths, options=options, visible=visible))


def test_hstu_target_groups(compute: Computation) -> None:
    """A target sees history and the targets of its own group up to itself."""
    length, targets, group = 13, 6, 3

    def visible(b: int, q_length: int, k_length: int) -> Tensor:
        i, j = torch.arange(length)[:, None], torch.arange(length)[None, :]
        history = length - targets
        same_group = (i - history) // group == (j - history) // group
        return (j <= i) & ((j < history) | same_group)

    mask = jfa.hstu(targets=targets, target_group=group)
    case = Case([length], [length], options={"mask": mask, "activation": "silu"}, visible=visible)
    check(compute, case)


def test_dense_bias(compute: Computation) -> None:
    for shape in [(5, 4), (1, 4), (5, 1), (1, 1)]:
        dtype = torch.float64 if compute.is_reference else torch.float32
        values = random_rows(*shape, 17, 19, dtype=dtype)

        def bias(b: int, q_length: int, k_length: int, values: Tensor = values) -> Tensor:
            row = b if values.shape[0] > 1 else 0
            return values[row, :, :q_length, :k_length]

        options: dict[str, object] = {"bias": jfa.dense_bias(values), "mask": jfa.causal()}
        visible = MASKS["causal"][1]
        check(compute, Case(options=options, bias=bias, visible=visible, learned=[values]))


def test_dense_bias_in_the_type_of_q() -> None:
    values = random_rows(1, 4, 17, 17, dtype=torch.bfloat16)
    case = Case(options={"bias": values}, learned=[values])
    case.bias = lambda b, q_length, k_length: values[0, :, :q_length, :k_length]
    check(Computation("bfloat16"), case)


@pytest.mark.parametrize("per_batch", [False, True])
def test_alibi(compute: Computation, per_batch: bool) -> None:
    slopes = torch.rand([5, 4] if per_batch else [4]).requires_grad_()

    def bias(b: int, q_length: int, k_length: int) -> Tensor:
        p, j = positions(q_length, k_length)
        return -(slopes[b] if per_batch else slopes).double()[:, None, None] * (p - j).abs()

    check(compute, Case(options={"bias": jfa.alibi_bias(slopes)}, bias=bias, learned=[slopes]))


@pytest.mark.parametrize("activation", ["softmax", "silu"])
@pytest.mark.parametrize("heads", [1, 4])
def test_position_and_time_bias(compute: Computation, heads: int, activation: str) -> None:
    """HSTU's relative attention bias: a table of distances plus a table of log-time buckets."""
    lengths = [5, 0, 9, 17]
    positions_table = random_rows(heads, 2 * 6 - 1)
    time_table = random_rows(heads, 20)
    stamps = torch.randint(0, 10**6, (sum(lengths),)).sort().values
    first_row = offsets_of(lengths)

    def bias(b: int, q_length: int, k_length: int) -> Tensor:
        p, j = positions(q_length, k_length)
        t = stamps[first_row[b] : first_row[b + 1]]
        elapsed = (t[:, None] - t[None, :]).abs().clamp(min=1).double()
        bucket = (elapsed.log() / 0.301).floor().long().clamp(max=19)
        distances = positions_table.double()[:, (j - p).clamp(-5, 5) + 5]
        return distances + time_table.double()[:, bucket]

    options: dict[str, object] = {
        "bias": [jfa.position_bias(positions_table), jfa.time_bias(time_table, stamps)],
        "activation": activation,
        "mask": jfa.causal(),
    }
    case = Case(lengths, lengths, options=options, bias=bias, visible=MASKS["causal"][1])
    case.learned = [positions_table, time_table]
    check(compute, case)


def test_scaled_dot_product_attention(compute: Computation) -> None:
    """PyTorch's own operator, with its causal mask (aligned top-left) and ALiBi as attn_mask."""
    lengths, heads, dim = [1, 33, 64, 7], 2, 16
    offsets = offsets_of(lengths)
    q, k, v = (random_rows(sum(lengths), heads, dim, dtype=compute.dtype) for _ in range(3))
    slopes = torch.rand(heads)
    out, _ = compute(q, k, v, offsets, mask=jfa.causal("top_left"), bias=jfa.alibi_bias(slopes))
    for b, length in enumerate(lengths):
        rows = slice(int(offsets[b]), int(offsets[b + 1]))
        parts = (t[rows].detach().double().transpose(0, 1) for t in (q, k, v))
        i, j = torch.arange(length)[:, None], torch.arange(length)[None, :]
        bias = -slopes.double()[:, None, None] * (i - j).abs()
        expected = F.scaled_dot_product_attention(
            *parts, attn_mask=bias.masked_fill(j > i, -torch.inf)
        )
        assert_close(out[rows], expected.transpose(0, 1), 3 * TOLERANCE[compute.dtype])


def test_gradcheck_of_the_reference() -> None:
    """The reference's gradients against finite differences, with everything that can be learned."""
    lengths = [3, 0, 2]
    q, k, v = (random_rows(sum(lengths), 2, 3, dtype=torch.float64) for _ in range(3))
    tables = [
        random_rows(3, 2, 3, 3, dtype=torch.float64),
        random_rows(2, dtype=torch.float64),
        random_rows(1, 5, dtype=torch.float64),
        random_rows(2, 4, dtype=torch.float64),
    ]
    stamps = torch.tensor([1, 5, 9, 2, 4])

    def call(activation: str, *inputs: Tensor) -> Tensor:
        dense, slopes, distance_table, time_table = inputs[3:]
        return jfa.reference_attention(
            *inputs[:3],
            offsets_of(lengths),
            activation=activation,  # type: ignore[arg-type]
            mask=jfa.causal(),
            out_scale=0.5,
            bias=[
                jfa.dense_bias(dense),
                jfa.alibi_bias(slopes),
                jfa.position_bias(distance_table),
                jfa.time_bias(time_table, stamps),
            ],
        )[0]

    for activation in ("softmax", "silu", "gelu_tanh"):
        inputs = (q, k, v, *tables)
        assert torch.autograd.gradcheck(lambda *i, a=activation: call(a, *i), inputs)
