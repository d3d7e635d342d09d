"""The operators under opcheck, torch.compile and torch.export."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch._dynamo.testing import CompileCounterWithBackend

import jfa
from jfa import _operators
from jfa.attention import _collect
from support import offsets_of, random_rows


def batch_of(lengths: list[int], heads: int = 2, dim: int = 8) -> tuple[Tensor, ...]:
    """q, k, v, offsets."""
    return (*(random_rows(sum(lengths), heads, dim) for _ in range(3)), offsets_of(lengths))


OPTIONS: dict[str, Callable[[], dict[str, Any]]] = {
    "plain": dict,
    "silu": lambda: {"activation": "silu", "out_scale": jfa.per_sequence(torch.rand(3))},
    "mask tensors": lambda: {"mask": jfa.window(torch.tensor([1, 2, 3]), 4)},
    "hstu": lambda: {"mask": jfa.hstu(2, torch.tensor([0, 1, 2]), 1, 4, 2), "activation": "silu"},
    "intervals": lambda: {"mask": jfa.intervals(torch.randint(0, 5, (8, 2), dtype=torch.int32))},
    "biases": lambda: {
        "bias": [
            jfa.dense_bias(random_rows(3, 1, 5, 5)),
            jfa.alibi_bias(random_rows(2)),
            jfa.position_bias(random_rows(2, 7)),
            jfa.time_bias(random_rows(1, 9), torch.arange(8)),
        ]
    },
    "used": lambda: {"q_used": torch.tensor([1, 0, 4])},
}


@pytest.mark.parametrize("reference", [True, False])
@pytest.mark.parametrize("name", OPTIONS)
def test_opcheck_of_forward(name: str, reference: bool) -> None:
    arguments = _collect(*batch_of([3, 0, 5]), **OPTIONS[name]())
    arguments = arguments._replace(reference=reference)
    result = torch.library.opcheck(_operators.forward, (*arguments, True))
    assert set(result.values()) == {"SUCCESS"}


def test_opcheck_of_broadcast_and_dense() -> None:
    q, k, v, offsets = batch_of([3, 0, 5])
    learned = random_rows(4, 2, 8)
    dense = random_rows(3, 4, 2, 8)
    for queries in (learned, dense):
        arguments = _collect(queries, k, v, None, offsets)
        torch.library.opcheck(_operators.forward, (*arguments, True))
    arguments = _collect(q, dense, dense, offsets)
    torch.library.opcheck(_operators.forward, (*arguments, True))


def test_opcheck_of_backward() -> None:
    q, k, v, offsets = (t.detach() for t in batch_of([3, 0, 5]))
    slopes = torch.rand(2)
    arguments = _collect(q, k, v, offsets, bias=jfa.alibi_bias(slopes))
    out, lse = _operators.forward(*arguments, True)
    needed = [True, False, True, False, True, False, False]
    tensors = (out, lse, torch.randn_like(out))
    torch.library.opcheck(_operators.backward, (*arguments, *tensors, True, needed))


def test_opcheck_of_the_others() -> None:
    torch.library.opcheck(_operators._offsets_operator, (torch.tensor([3, 0, 5]),))
    # The handle that make_plan returns is another one at each call, so values cannot be compared.
    arguments = _collect(*batch_of([3, 0, 5]))
    checks = ("test_schema", "test_autograd_registration", "test_faketensor")
    torch.library.opcheck(_operators.make_plan, tuple(arguments), test_utils=checks)


class Model(torch.nn.Module):
    """Fused projection, HSTU-like attention with targets that differ by sequence, residual."""

    def __init__(self, heads: int = 2, dim: int = 8) -> None:
        super().__init__()
        self.heads, self.dim = heads, dim
        self.projection = torch.nn.Linear(heads * dim, 3 * heads * dim)
        self.table = torch.nn.Parameter(torch.randn(heads, 9) * 0.1)

    def forward(self, x: Tensor, offsets: Tensor, targets: Tensor) -> Tensor:
        q, k, v = self.projection(x).unflatten(-1, (3, self.heads, self.dim)).unbind(1)
        out = jfa.jagged_attention(
            q,
            k,
            v,
            offsets,
            activation="silu",
            mask=jfa.hstu(1, targets),
            bias=jfa.position_bias(self.table),
            out_scale=1 / 64,
        )
        return x + out.flatten(1)


def random_batch(generator: torch.Generator) -> tuple[Tensor, Tensor, Tensor]:
    """2 to 9 sequences of 0 to 11 rows, 2 rows at least: PyTorch specialises for 0 and 1."""
    batch = int(torch.randint(1, 9, (), generator=generator))
    lengths = [*torch.randint(0, 12, (batch,), generator=generator).tolist(), 2]
    targets = torch.randint(0, 3, (batch + 1,), generator=generator)
    return torch.randn(sum(lengths), 16, generator=generator), offsets_of(lengths), targets


def test_one_compilation_for_a_thousand_offset_patterns() -> None:
    """Batch, lengths and the longest length differ in every call; forward and backward."""
    model = Model()
    counter = CompileCounterWithBackend("aot_eager")
    compiled = torch.compile(model, fullgraph=True, dynamic=True, backend=counter)
    generator = torch.Generator().manual_seed(1)
    longest = set()
    for step in range(1000):
        x, offsets, targets = random_batch(generator)
        longest.add(int(offsets.diff().max()))
        x.requires_grad_()
        out = compiled(x, offsets, targets)
        out.sum().backward()
        if step % 100 == 0:
            actual = x.grad
            x.grad = None
            expected = model(x, offsets, targets)
            expected.sum().backward()
            torch.testing.assert_close(out, expected)
            torch.testing.assert_close(actual, x.grad)
    assert counter.frame_count == 1
    assert len(longest) > 5


def test_default_compilation_settles_after_two() -> None:
    """Without dynamic=True PyTorch first compiles for the sizes it sees, then once for all."""
    model = Model()
    counter = CompileCounterWithBackend("aot_eager")
    compiled = torch.compile(model, fullgraph=True, backend=counter)
    generator = torch.Generator().manual_seed(2)
    for _ in range(50):
        compiled(*random_batch(generator))
    assert counter.frame_count <= 2


def test_masks_and_plans_as_arguments_of_a_compiled_function() -> None:
    counter = CompileCounterWithBackend("aot_eager")

    @torch.compile(fullgraph=True, dynamic=True, backend=counter)
    def compiled(q: Tensor, k: Tensor, v: Tensor, offsets: Tensor, mask: Any, plan: Any) -> Tensor:
        return jfa.jagged_attention(q, k, v, offsets, mask=mask, plan=plan)

    # All sizes of the first batch differ: PyTorch takes equal sizes for the same size.
    for lengths in ([3, 4, 6], [9, 1], [4, 4, 4, 4], [2, 0, 5, 1, 1]):
        inputs = batch_of(lengths)
        mask = jfa.window(torch.randint(0, 4, (len(lengths),)), 0)
        plan = jfa.plan(*inputs, mask=mask)
        out = compiled(*inputs, mask, plan)
        assert torch.equal(out, jfa.jagged_attention(*inputs, mask=mask))
        out.sum().backward()
    assert counter.frame_count == 1


def test_plan_inside_a_compiled_function() -> None:
    @torch.compile(fullgraph=True, dynamic=True, backend="aot_eager")
    def two_layers(q: Tensor, k: Tensor, v: Tensor, lengths: Tensor) -> Tensor:
        offsets = jfa.offsets_from_lengths(lengths)
        plan = jfa.plan(q, k, v, offsets, mask=jfa.causal())
        out = jfa.jagged_attention(q, k, v, offsets, mask=jfa.causal(), plan=plan)
        return jfa.jagged_attention(out, k, v, offsets, mask=jfa.causal(), plan=plan)

    for lengths in ([3, 4], [2, 0, 5]):
        q, k, v, offsets = batch_of(lengths)
        out = two_layers(q, k, v, torch.tensor(lengths))
        out.sum().backward()
        once = jfa.jagged_attention(q, k, v, offsets, mask=jfa.causal())
        assert torch.equal(out, jfa.jagged_attention(once, k, v, offsets, mask=jfa.causal()))


def test_inductor() -> None:
    """The default back end, with memory planning around the operators."""
    model = Model()
    compiled = torch.compile(model, fullgraph=True, dynamic=True)
    generator = torch.Generator().manual_seed(3)
    for _ in range(3):
        batch = random_batch(generator)
        model.zero_grad()
        expected = model(*batch)
        expected.sum().backward()
        wanted = [parameter.grad for parameter in model.parameters()]
        model.zero_grad()
        out = compiled(*batch)
        out.sum().backward()
        torch.testing.assert_close(out, expected)
        for parameter, gradient in zip(model.parameters(), wanted, strict=True):
            torch.testing.assert_close(parameter.grad, gradient)


def test_export() -> None:
    model = Model()
    generator = torch.Generator().manual_seed(4)
    total, batch = torch.export.Dim("total", min=2), torch.export.Dim("batch", min=2)
    shapes = ({0: total}, {0: batch + 1}, {0: batch})
    program = torch.export.export(model, random_batch(generator), dynamic_shapes=shapes)
    buffer = io.BytesIO()
    torch.export.save(program, buffer)
    buffer.seek(0)
    loaded = torch.export.load(buffer).module()
    for _ in range(5):
        inputs = random_batch(generator)
        assert torch.equal(loaded(*inputs), model(*inputs))


def test_fake_cuda_tensors_have_shapes() -> None:
    """Tracing for a GPU works on a machine that has none."""
    with torch._subclasses.FakeTensorMode():
        q = torch.empty(8, 2, 16, device="cuda", dtype=torch.bfloat16)
        offsets = torch.empty(4, device="cuda", dtype=torch.int32)
        out, lse = jfa.jagged_attention(q, q, q, offsets, return_lse=True)
        assert (out.shape, out.device.type, out.dtype) == (q.shape, "cuda", torch.bfloat16)
        assert (lse.shape, lse.dtype) == ((2, 8), torch.float32)
