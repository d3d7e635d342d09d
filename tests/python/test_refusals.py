"""Every refusal names the argument and its value, comes before any work, and is a Python exception
of the kind that one expects.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

import jfa
from jfa import _devices
from support import offsets_of, random_rows

Q = torch.randn(8, 4, 16)
K = torch.randn(8, 2, 16)
OFFSETS = offsets_of([3, 0, 5])


def call(q: Any = Q, k: Any = K, v: Any = K, q_offsets: Any = OFFSETS, **options: Any) -> Tensor:
    kv_offsets = options.pop("kv_offsets", None)
    return jfa.jagged_attention(q, k, v, q_offsets, kv_offsets, **options)


def changed(tensor: Tensor, index: int, value: int) -> Tensor:
    tensor = tensor.clone()
    tensor[index] = value
    return tensor


VALUE_ERRORS: dict[str, tuple[Callable[[], object], str]] = {
    "q rank": (lambda: call(Q[0]), r"q: shape \[4, 16\] has rank 2; allowed: jagged \[total"),
    "k rank": (lambda: call(k=K[None, None]), r"k: shape \[1, 1, 8, 2, 16\] has rank 5"),
    "k and v ranks": (lambda: call(v=K[None]), r"v: "),
    "head dimension": (lambda: call(k=K[..., :8], v=K), r"k: head dimension 8"),
    "v rows": (lambda: call(v=K[:7]), r"v: shape \[7, 2, 16\]"),
    "heads": (lambda: call(q=Q[:, :3]), r"q: 3 heads with 2 heads in k and v"),
    "last stride": (lambda: call(q=torch.randn(8, 4, 32)[..., ::2]), r"q: .*stride"),
    "decreasing offsets": (
        lambda: call(q_offsets=torch.tensor([0, 5, 3, 8])),
        r"q_offsets\[2\] = 3 .*5",
    ),
    "negative offset": (lambda: call(q_offsets=torch.tensor([-1, 3, 8])), r"q_offsets\[0\] = -1"),
    "offsets beyond q": (lambda: call(q_offsets=OFFSETS + 1), r"q_offsets\[3\] = 9 exceeds the 8"),
    "offsets beyond k": (
        lambda: call(kv_offsets=offsets_of([3, 0, 6])),
        r"kv_offsets\[3\] = 9 exceeds the 8",
    ),
    "offsets shape": (lambda: call(q_offsets=OFFSETS[None]), r"q_offsets: shape \[1, 4\]"),
    "no offsets at all": (lambda: call(q_offsets=OFFSETS[:0]), r"q_offsets: shape \[0\]"),
    "different batches": (
        lambda: call(kv_offsets=offsets_of([3, 5])),
        r"kv_offsets: 2 key sequences for 3 query sequences",
    ),
    "offsets and lengths": (
        lambda: call(q_lengths=torch.tensor([3, 0, 5])),
        r"q_lengths: given beside q_offsets; pass one of them",
    ),
    "negative length": (
        lambda: call(q_offsets=None, q_lengths=torch.tensor([3, -2])),
        r"lengths\[1\] = -2",
    ),
    "offsets of dense q": (
        lambda: call(q=Q[None]),
        r"q_offsets: given although q has 4 dimensions",
    ),
    "offsets of dense k": (
        lambda: call(k=K[None], v=K[None], kv_offsets=OFFSETS),
        r"kv_offsets: given although k has 4 dimensions",
    ),
    "dense k of another batch": (
        lambda: call(k=torch.randn(2, 5, 2, 16), v=torch.randn(2, 5, 2, 16)),
        r"2 key sequences for 3 query sequences",
    ),
    "used lengths": (lambda: call(q_used=torch.tensor([1, 2])), r"q_used: shape \[2\]"),
    "negative used length": (
        lambda: call(kv_used=torch.tensor([1, -2, 3]), kv_offsets=OFFSETS),
        r"kv_used\[1\] = -2",
    ),
    "map shape": (
        lambda: call(kv_map=torch.tensor([0]), kv_offsets=OFFSETS),
        r"kv_map: shape \[1\]",
    ),
    "map value": (
        lambda: call(kv_map=torch.tensor([0, 1, 7]), kv_offsets=OFFSETS),
        r"kv_map\[2\] = 7",
    ),
    "unknown layout": (lambda: call(kv_layout="ragged"), r"kv_layout: 'ragged'; allowed: jagged"),
    "wrong layout": (
        lambda: call(kv_layout="dense"),
        r"kv_layout: 'dense', but k has 3 dimensions",
    ),
    "missing batch": (lambda: call(q_offsets=None), r"batch: .*both broadcast"),
    "wrong batch": (lambda: call(batch=2), r"batch: 2, but .* have 3 sequences"),
    "activation": (lambda: call(activation="tanh"), r"activation: 'tanh'; allowed: softmax, silu"),
    "scale": (lambda: call(scale=float("nan")), r"scale: nan; it must be a finite number"),
    "slope": (lambda: call(leaky_slope=float("inf")), r"leaky_slope: inf"),
    "out_scale": (lambda: call(out_scale=float("inf")), r"out_scale: inf"),
    "scale per sequence": (
        lambda: call(out_scale=jfa.per_sequence(torch.ones(2))),
        r"out_scale: shape \[2\]",
    ),
    "scale per token": (
        lambda: call(out_scale=jfa.per_token(torch.ones(3))),
        r"out_scale: shape \[3\]",
    ),
    "mask tensor": (
        lambda: call(mask=jfa.window(torch.tensor([1, 2]))),
        r"mask.left: shape \[2\]",
    ),
    "block": (lambda: call(mask=jfa.blocks(0)), r"mask.block = 0; it must be at least 1"),
    "block of a sequence": (
        lambda: call(mask=jfa.blocks(torch.tensor([3, 0, 1]))),
        r"mask.block\[1\] = 0",
    ),
    "contextual": (lambda: call(mask=jfa.hstu(contextual=-1)), r"mask.contextual = -1"),
    "prefix": (lambda: call(mask=jfa.prefix_local(-1, 3)), r"mask.prefix = -1"),
    "alignment": (
        lambda: call(mask=jfa.causal("left")),  # type: ignore[arg-type]
        r"mask.alignment: 'left'; allowed: bottom_right, top_left",
    ),
    "interval rows": (
        lambda: call(mask=jfa.intervals(torch.zeros(7, 2, dtype=torch.int32))),
        r"mask.intervals: shape \[7, 2\]",
    ),
    "interval columns": (
        lambda: call(mask=jfa.intervals(torch.zeros(8, 3, dtype=torch.int32))),
        r"mask.intervals: shape \[8, 3\]",
    ),
    "small dense bias": (
        lambda: call(bias=torch.zeros(1, 1, 5, 4)),
        r"bias.dense: shape \[1, 1, 5, 4\]",
    ),
    "dense bias heads": (lambda: call(bias=torch.zeros(1, 3, 5, 5)), r"bias.dense: shape"),
    "slopes": (lambda: call(bias=jfa.alibi_bias(torch.ones(3))), r"bias.alibi_slopes: shape \[3\]"),
    "even table": (
        lambda: call(bias=jfa.position_bias(torch.ones(1, 6))),
        r"bias.position_table: shape \[1, 6\] has an even number",
    ),
    "timestamps": (
        lambda: call(bias=jfa.time_bias(torch.ones(1, 4), torch.arange(7))),
        r"q_timestamps: shape \[7\]",
    ),
    "time scale": (
        lambda: call(bias=jfa.time_bias(torch.ones(1, 4), torch.arange(8), time_scale=0.0)),
        r"bias.time_scale: 0",
    ),
    "two dense biases": (
        lambda: call(bias=[jfa.dense_bias(torch.ones(1, 1, 5, 5))] * 2),
        r"bias: dense is given twice",
    ),
    "no threads": (lambda: call(threads=0), r"threads: 0; pass a number from 1"),
    "device of k": (lambda: call(k=K.to("meta")), r"k: on meta but q on cpu; move it with"),
}


@pytest.mark.parametrize("name", VALUE_ERRORS)
def test_value_error(name: str) -> None:
    attempt, message = VALUE_ERRORS[name]
    with pytest.raises(ValueError, match=message) as caught:
        attempt()
    assert isinstance(caught.value, jfa.InvalidArgument)


TYPE_ERRORS: dict[str, tuple[Callable[[], object], str]] = {
    "list for q": (lambda: call(q=[1, 2]), r"q: a list; pass a torch.Tensor"),
    "float64": (lambda: call(Q.double(), K.double(), K.double()), r"q: .*float64.*reference"),
    "integers": (lambda: call(q=Q.int()), r"q: .*int32"),
    "two types": (lambda: call(k=K.half()), r"k: .*float16"),
    "strange type": (lambda: call(q=Q.to(torch.complex64)), r"q: type torch.complex64"),
    "float offsets": (lambda: call(q_offsets=OFFSETS.float()), r"q_offsets: .*float32"),
    "float lengths": (
        lambda: call(q_offsets=None, q_lengths=torch.ones(3)),
        r"lengths: .*float32",
    ),
    "float map": (lambda: call(kv_map=torch.ones(3), kv_offsets=OFFSETS), r"kv_map: .*float32"),
    "scale tensor": (lambda: call(scale=torch.ones(1)), r"scale: a Tensor; pass a number"),
    "bool scale": (lambda: call(scale=True), r"scale: a bool; pass a number"),
    "out_scale tensor": (
        lambda: call(out_scale=torch.ones(3)),
        r"out_scale: a tensor; say what its numbers belong to: jfa.per_sequence",
    ),
    "scales in half": (
        lambda: call(out_scale=jfa.per_sequence(torch.ones(3).half())),
        r"out_scale: .*float16",
    ),
    "mask string": (lambda: call(mask="causal"), r"mask: a str; pass jfa.causal\(\)"),
    "bias number": (lambda: call(bias=3), r"bias: a int; pass jfa.dense_bias"),
    "bias list": (lambda: call(bias=["alibi"]), r"bias: a str; pass jfa.dense_bias"),
    "window": (lambda: jfa.window(1.5), r"mask.left: 1.5, a float; pass an int"),  # type: ignore[arg-type]
    "float window": (lambda: call(mask=jfa.window(torch.ones(3))), r"mask.left: .*float32"),
    "intervals": (lambda: jfa.intervals([1]), r"mask.intervals: a list"),  # type: ignore[arg-type]
    "float intervals": (
        lambda: call(mask=jfa.intervals(torch.zeros(8, 2))),
        r"mask.intervals: .*float32",
    ),
    "half slopes": (lambda: call(bias=jfa.alibi_bias(torch.ones(4).half())), r"alibi_slopes: .*16"),
    "float timestamps": (
        lambda: call(bias=jfa.time_bias(torch.ones(1, 4), torch.ones(8))),
        r"q_timestamps: .*float32",
    ),
    "threads": (lambda: call(threads=1.5), r"threads: 1.5; pass a positive int or None"),
}


@pytest.mark.parametrize("name", TYPE_ERRORS)
def test_type_error(name: str) -> None:
    attempt, message = TYPE_ERRORS[name]
    with pytest.raises(TypeError, match=message) as caught:
        attempt()
    assert isinstance(caught.value, jfa.InvalidType)


def test_messages_use_the_names_of_this_package() -> None:
    for attempt, _ in [*VALUE_ERRORS.values(), *TYPE_ERRORS.values()]:
        with pytest.raises(jfa.Error) as caught:
            attempt()
        assert not re.search(r"_sequences|out_scales|used_lengths", str(caught.value))


def test_unknown_argument() -> None:
    for function in (jfa.jagged_attention, jfa.plan, jfa.reference_attention):
        with pytest.raises(TypeError, match=r"maks: no such argument; allowed: .*mask"):
            function(Q, K, K, OFFSETS, maks=jfa.causal())  # type: ignore[operator]


WRONG_KINDS: dict[str, tuple[Callable[[], object], str]] = {
    "sparse q": (lambda: call(q=Q.to_sparse()), r"q: layout torch.sparse_coo; pass q.to_dense"),
    "list of offsets": (lambda: call(q_offsets=[0, 8]), r"q_offsets: a list; pass a torch.Tensor"),
    "list of lengths": (
        lambda: call(q_offsets=None, q_lengths=[8]),
        r"q_lengths: a list; pass a torch.Tensor",
    ),
    "lengths": (lambda: jfa.offsets_from_lengths([8]), r"lengths: a list; pass a torch.Tensor"),  # type: ignore[arg-type]
    "plan": (lambda: call(plan=3), r"plan: a int; pass a jfa.Plan"),
    "deterministic": (lambda: call(deterministic="yes"), r"deterministic: a str; pass True"),
    "batch": (lambda: call(batch=2**70), r"batch: 11805.*, which no int64 can hold"),
    "window": (lambda: call(mask=jfa.window(2**70)), r"mask.left: 11805.*, which no int64"),
    "scale": (lambda: call(scale=10**400), r"scale: an int that no float64 can hold"),
    "threads": (lambda: call(threads=2**40), r"threads: 1099511627776; pass a number from 1"),
}


@pytest.mark.parametrize("name", WRONG_KINDS)
def test_wrong_kinds(name: str) -> None:
    attempt, message = WRONG_KINDS[name]
    with pytest.raises((TypeError, ValueError), match=message) as caught:
        attempt()
    assert isinstance(caught.value, jfa.Error)


def test_meta_tensors() -> None:
    q = torch.empty(8, 2, 16, device="meta")
    out = jfa.jagged_attention(q, q, q, torch.empty(4, dtype=torch.int64, device="meta"))
    assert out.is_meta
    assert out.shape == q.shape


def test_double_backward() -> None:
    q = random_rows(8, 2, 16)
    out = jfa.jagged_attention(q, K, K, OFFSETS)
    (first,) = torch.autograd.grad(out.sum(), q, create_graph=True)
    with pytest.raises(NotImplementedError, match=r"double backward .* is not supported; take"):
        first.sum().backward()


def test_forward_mode() -> None:
    def attention(q: Tensor) -> Tensor:
        return jfa.jagged_attention(q, K, K, OFFSETS)

    q = torch.randn(8, 2, 16)
    with pytest.raises(NotImplementedError, match=r"forward-mode .* use reverse mode"):
        torch.func.jvp(attention, (q,), (q,))
    with (
        pytest.raises(NotImplementedError, match=r"forward-mode"),
        torch.autograd.forward_ad.dual_level(),
    ):
        attention(torch.autograd.forward_ad.make_dual(q, q))


def test_functional_transforms() -> None:
    def total(q: Tensor) -> Tensor:
        return jfa.jagged_attention(q, K, K, OFFSETS).sum()

    with pytest.raises(NotImplementedError, match=r"torch.func.grad, .* use backward"):
        torch.func.grad(total)(torch.randn(8, 2, 16))


def test_gradient_of_out_scale() -> None:
    factors = torch.ones(3, requires_grad=True)
    with pytest.raises(NotImplementedError, match=r"out_scale: requires a gradient"):
        call(out_scale=jfa.per_sequence(factors))


def test_gradient_of_lse_is_cut() -> None:
    q = random_rows(8, 2, 16)
    _, lse = jfa.jagged_attention(q, K, K, OFFSETS, return_lse=True)
    assert not lse.requires_grad


def test_devices_without_an_engine() -> None:
    with pytest.raises(NotImplementedError, match=r"q: on meta, but only tensors of cpu and cuda"):
        _devices.execution_on(torch.device("meta"), 0, False)


def test_nothing_is_written_by_a_refused_call() -> None:
    before = [t.clone() for t in (Q, K, OFFSETS)]
    for attempt, _ in [*VALUE_ERRORS.values(), *TYPE_ERRORS.values()]:
        with pytest.raises(jfa.Error):
            attempt()
    for tensor, copy in zip((Q, K, OFFSETS), before, strict=True):
        assert torch.equal(tensor, copy)
