"""An oracle in plain PyTorch float64, one sequence at a time, and the comparison with it.

Written from the contract's formulas alone; it shares nothing with the package under test.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "silu": F.silu,
    "gelu": F.gelu,
    "gelu_tanh": lambda s: F.gelu(s, approximate="tanh"),
    "relu": F.relu,
    "relu2": lambda s: F.relu(s) ** 2,
    "leaky_relu": lambda s: F.leaky_relu(s, 0.01),
    "hardswish": F.hardswish,
    "identity": lambda s: s,
}

# Contract: relative Frobenius error of outputs; gradients may have twice as much. The reference
# computes in float64, where only the order of sums differs.
TOLERANCE = {
    torch.float64: 1e-13,
    torch.float32: 2e-6,
    torch.float16: 8e-4,
    torch.bfloat16: 5e-3,
}


def offsets_of(lengths: Sequence[int], start: int = 0, dtype: torch.dtype = torch.int64) -> Tensor:
    return torch.tensor([start, *lengths]).cumsum(0).to(dtype)


def random_rows(
    *shape: int, dtype: torch.dtype = torch.float32, generator: torch.Generator | None = None
) -> Tensor:
    """A leaf that requires a gradient."""
    return torch.randn(*shape, generator=generator).to(dtype).requires_grad_()


def attend(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    visible: Tensor | None = None,
    *,
    activation: str = "softmax",
    scale: float | None = None,
    bias: Tensor | float = 0.0,
) -> tuple[Tensor, Tensor]:
    """out [Lq, Hq, Dv] and lse [Hq, Lq] of one sequence: q [Lq, Hq, D], k [Lk, Hkv, D], v [Lk, Hkv,
    Dv].

    ``visible`` [Lq, Lk] says which keys a row sees; ``bias`` broadcasts to [Hq, Lq, Lk].
    """
    q, k, v = q.double(), k.double(), v.double()
    group = q.shape[1] // k.shape[1]
    k, v = k.repeat_interleave(group, 1), v.repeat_interleave(group, 1)
    if scale is None:
        scale = 1 / math.sqrt(q.shape[2]) if activation == "softmax" else 1.0
    if visible is None:
        visible = torch.ones(q.shape[0], k.shape[0], dtype=torch.bool)
    scores = torch.einsum("ihd,jhd->hij", q, k) * scale + bias
    if activation == "softmax":
        lse = scores.masked_fill(~visible, -math.inf).logsumexp(-1)
        # exp(S − lse) of a row without a visible key must be 0, with gradient 0, not NaN.
        shift = torch.where(visible.any(-1), lse, 0.0)[..., None]
        weights = (scores - shift).masked_fill(~visible, -math.inf).exp()
    else:
        lse = torch.empty(0)
        weights = ACTIVATIONS[activation](scores) * visible
    return torch.einsum("hij,jhd->ihd", weights, v), lse


def positions(
    q_length: int, k_length: int, alignment: str = "bottom_right"
) -> tuple[Tensor, Tensor]:
    """p(i) as a column and j as a row."""
    shift = k_length - q_length if alignment == "bottom_right" else 0
    return torch.arange(q_length)[:, None] + shift, torch.arange(k_length)[None, :]


def hstu_visible(
    length: int,
    contextual: int = 0,
    targets: int = 0,
    max_attention_length: int = 0,
    min_full_attention: int = 0,
    causal: bool = True,
) -> Tensor:
    """The valid-attention mask of generative-recommenders for one sequence, from its definition in
    ids.

    Contextual rows share id 0, targets share the last id.
    """
    position = torch.arange(length)
    ids = (position - contextual + 1).clamp(min=0) if contextual > 0 else position
    last = length - targets - (contextual - 1 if contextual > 0 else 0)
    ids = ids.clamp(max=last)
    row, column = ids[:, None], ids[None, :]
    distance = row - column if causal else (row - column).abs()
    visible = torch.eye(length, dtype=torch.bool) | (distance > 0)
    if max_attention_length > 0:
        near = distance <= max_attention_length
        if min_full_attention > 0:
            near = near | (row >= last - min_full_attention)
        visible = visible & near
    if contextual > 0:
        visible = visible | ((row == 0) & (column < last))
    return visible


def assert_close(actual: Tensor, expected: Tensor, tolerance: float, what: str = "out") -> None:
    """Relative Frobenius error and worst element; both must be finite where ``expected`` is."""
    assert actual.shape == expected.shape, f"{what}: {actual.shape} instead of {expected.shape}"
    actual, expected = actual.detach().double(), expected.detach().double()
    finite = expected.isfinite()
    assert torch.equal(actual[~finite], expected[~finite]), f"{what}: infinities differ"
    actual, expected = actual[finite], expected[finite]
    assert actual.isfinite().all(), f"{what}: not finite"
    if expected.numel() == 0:
        return
    difference = actual - expected
    norm = expected.norm().item()
    error = difference.norm().item() / norm if norm > 0 else difference.norm().item()
    assert error <= tolerance, f"{what}: relative error {error:.2e}, allowed {tolerance:.0e}"
    worst = difference.abs().max().item()
    allowed = 30 * tolerance * max(expected.abs().max().item(), 1e-30)
    assert worst <= allowed, f"{what}: worst element off by {worst:.2e}, allowed {allowed:.2e}"


def gradients(out: Tensor, d_out: Tensor, inputs: Sequence[Tensor]) -> list[Tensor]:
    """Gradients of ``inputs``; zeros where ``out`` does not depend on one."""
    found = torch.autograd.grad(out, inputs, d_out.to(out.dtype), allow_unused=True)
    return [torch.zeros_like(i) if g is None else g for i, g in zip(inputs, found, strict=True)]
