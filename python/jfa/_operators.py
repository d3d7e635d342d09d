"""The PyTorch operators ``torch.ops.jfa.*``: real, fake and autograd.

Offsets, lengths and plans are tensors and never part of a compiled graph's key. Nothing here
decides what is legal; the C++ library does, before any work.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from jfa import _core, _devices, _plan, _prepared
from jfa._arguments import DIFFERENTIABLE, SCHEMA, Arguments, fill, tensors_of, view

_COUNT = len(Arguments._fields)


# What the C++ library calls an argument, where that differs from this package.
_NAMES = {
    "q_sequences.offsets": "q_offsets",
    "kv_sequences.offsets": "kv_offsets",
    "q_sequences.used_lengths": "q_used",
    "kv_sequences.used_lengths": "kv_used",
    "kv_sequences:": "kv_offsets:",
    "out_scales": "out_scale",
    "mask.kind": "mask",
    "reference_forward": "jfa.reference_attention",
    "bias.q_timestamps": "time_bias: q_timestamps",
    "bias.kv_timestamps": "time_bias: kv_timestamps",
}


@contextmanager
def _names_of_this_package() -> Iterator[None]:
    """Refusals of the C++ library, in the names of ``jfa.jagged_attention``."""
    try:
        yield
    except _core.Error as error:
        message = str(error)
        for name, here in _NAMES.items():
            message = message.replace(name, here)
        raise type(error)(message) from None


def _execution(a: Arguments) -> _core.Execution:
    return _devices.execution_on(a.q.device, a.threads, a.strict_isolation)


# ------------------------------------------------------------------------------------------ forward


def _batch(a: Arguments) -> int:
    """Sequences of queries, from the first argument that tells."""
    if a.q_layout == "dense":
        return a.q.shape[0]
    for tensor, extra in (
        (a.q_offsets, 1),
        (a.kv_map, 0),
        (a.kv_offsets, 1),
        (a.k if a.kv_layout == "dense" else None, 0),
    ):
        if tensor is not None:
            return tensor.shape[0] - extra
    return a.batch


def _new_outputs(a: Arguments) -> tuple[Tensor, Tensor]:
    """Unwritten ``out`` and ``lse``; lse is empty for activations without normalisation."""
    rows = list(a.q.shape[:-2])
    if a.q_layout == "broadcast":
        rows = [max(_batch(a), 0), *rows]
    heads = a.q.shape[-2]
    out_type = torch.float64 if a.reference else a.q.dtype
    out = a.q.new_empty([*rows, heads, a.v.shape[-1]], dtype=out_type)
    row_count = rows[0] if len(rows) == 1 else rows[0] * rows[1]
    lse_shape = [heads, row_count] if a.activation == "softmax" else [0]
    lse_type = torch.float64 if a.reference else torch.float32
    return out, a.q.new_empty(lse_shape, dtype=lse_type)


def _forward(*flat: Any) -> tuple[Tensor, Tensor]:
    a = Arguments(*flat)
    execution = _execution(a)
    out, lse = _new_outputs(a)
    call = fill(_core.ForwardArgs(), a)
    call.out = view("out", out)
    if a.activation == "softmax":
        call.lse = view("lse", lse)
    with _names_of_this_package():
        if a.reference:
            _core.reference_forward(call)
        elif not _devices.on_device(a.q.device):
            _core.attention_forward(call, execution, _plan_of(a))
        else:
            _forward_on_device(a, call, execution, out, lse)
    return out, lse


def _forward_on_device(
    a: Arguments, call: _core.ForwardArgs, execution: _core.Execution, out: Tensor, lse: Tensor
) -> None:
    """On PyTorch's current stream, in memory of PyTorch's allocator, without waiting."""
    entry = None if a.plan is None else _plan.entry(a.plan)
    plan = None if entry is None else entry.plan
    workspace = None
    size = _core.forward_workspace_bytes(call, execution, plan)
    if size > 0:
        workspace, address = _devices.memory_on(a.q.device, size)
        execution.use_workspace(address, size)
    plan_memory = None if entry is None else entry.used_on(execution.stream)
    with _devices.reachable(execution, (*tensors_of(a).values(), out, lse, workspace, plan_memory)):
        _core.attention_forward(call, execution, plan)


def prepare(a: Arguments, out: Tensor, lse: Tensor | None) -> _prepared.Prepared:
    """The call that gave ``out`` and ``lse`` on a device, for its repetitions; without ``lse`` they
    compute none.
    """
    execution = _execution(a)
    call = fill(_core.ForwardArgs(), a)
    call.out = view("out", out)
    if a.activation == "softmax" and lse is not None:
        call.lse = view("lse", lse)
    plan = _plan_of(a)
    assert plan is not None
    workspace = _core.forward_workspace_bytes(call, execution, plan)
    prepared = _core.PreparedForward(call, execution, plan)
    return _prepared.Prepared(prepared, out.shape, None if lse is None else lse.shape, workspace)


def _forward_fake(*flat: Any) -> tuple[Tensor, Tensor]:
    return _new_outputs(Arguments(*flat))


def _plan_of(a: Arguments) -> _core.Plan | None:
    return None if a.plan is None else _plan.entry(a.plan).plan


# ----------------------------------------------------------------------------------------- backward


def _new_gradients(a: Arguments, needed: list[bool]) -> list[Tensor]:
    """One unwritten gradient for each differentiable argument; empty where it is not needed."""
    gradients = []
    for name, need in zip(DIFFERENTIABLE, needed, strict=True):
        shape = getattr(a, name).shape if need else [0]
        # Gradients of biases are float32, whatever the type of the bias.
        dtype = a.q.dtype if name in ("q", "k", "v") else torch.float32
        gradients.append(a.q.new_empty(shape, dtype=torch.float64 if a.reference else dtype))
    return gradients


def _backward(*flat: Any) -> tuple[Tensor, ...]:
    a = Arguments(*flat[:_COUNT])
    out, lse, d_out, deterministic, needed = flat[_COUNT:]
    execution = _execution(a)
    gradients = _new_gradients(a, needed)
    call = fill(_core.BackwardArgs(), a)
    if a.activation == "softmax":
        call.out = view("out", out)
        call.lse = view("lse", lse)
    call.d_out = view("d_out", d_out)
    for name, need, gradient in zip(DIFFERENTIABLE, needed, gradients, strict=True):
        if need:
            setattr(call, f"d_{name}", view(f"d_{name}", gradient))
    if deterministic is None:
        deterministic = torch.are_deterministic_algorithms_enabled()
    call.deterministic = deterministic
    with _names_of_this_package():
        if a.reference:
            _core.reference_backward(call)
        else:
            _core.attention_backward(call, execution, _plan_of(a))
    return tuple(gradients)


def _backward_fake(*flat: Any) -> tuple[Tensor, ...]:
    return tuple(_new_gradients(Arguments(*flat[:_COUNT]), flat[-1]))


def _save(ctx: Any, a: Arguments, deterministic: bool | None, out: Tensor, lse: Tensor) -> None:
    ctx.mark_non_differentiable(lse)
    is_tensor = [isinstance(value, Tensor) for value in a]
    ctx.is_tensor = is_tensor
    ctx.others = [None if tensor else value for value, tensor in zip(a, is_tensor, strict=True)]
    ctx.deterministic = deterministic
    # Elementwise activations need nothing of the forward pass.
    results = (out, lse) if a.activation == "softmax" else (None, None)
    ctx.save_for_backward(*(value for value in a if isinstance(value, Tensor)), *results)


def _apply_backward(ctx: Any, d_out: Tensor) -> list[Tensor | None]:
    """Gradients of the differentiable arguments."""
    *tensors, out, lse = ctx.saved_tensors
    remaining = iter(tensors)
    flat = [
        next(remaining) if tensor else value
        for tensor, value in zip(ctx.is_tensor, ctx.others, strict=True)
    ]
    needed = list(ctx.needs_input_grad[1 : 1 + len(DIFFERENTIABLE)])
    gradients = backward(*flat, out, lse, d_out, ctx.deterministic, needed)
    return [
        gradient.to(argument.dtype) if need else None
        for gradient, argument, need in zip(gradients, flat, needed, strict=False)
    ]


def _below_autograd(operator: Any, keys: Any, flat: tuple[Any, ...]) -> Any:
    with torch._C._AutoDispatchBelowAutograd():
        return operator.redispatch(keys & torch._C._after_autograd_keyset, *flat)


# What torch.library.register_autograd would make of these two, but for its time: it looks up each
# argument in a new list of all arguments, which takes 0.5 ms of every call.


class _ForwardFunction(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, keys: Any, *flat: Any) -> tuple[Tensor, Tensor]:
        out, lse = _below_autograd(forward, keys, flat)
        _save(ctx, Arguments(*flat[:_COUNT]), flat[_COUNT], out, lse)
        return out, lse

    @staticmethod
    def backward(ctx: Any, d_out: Tensor, _d_lse: Tensor) -> tuple[Tensor | None, ...]:
        gradients = _apply_backward(ctx, d_out)
        return (None, *gradients, *(None for _ in range(_COUNT + 1 - len(gradients))))


class _BackwardFunction(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, keys: Any, *flat: Any) -> tuple[Tensor, ...]:
        gradients: tuple[Tensor, ...] = _below_autograd(backward, keys, flat)
        return gradients

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> None:
        raise _core.Unsupported(
            "jagged_attention: double backward (a gradient of a gradient) is not supported; take "
            "first-order gradients without create_graph=True, or write this layer with PyTorch's "
            "own operations"
        )


# --------------------------------------------------------------------------------- plan and lengths


def _make_plan(*flat: Any) -> Tensor:
    a = Arguments(*flat)
    execution = _execution(a)
    call = fill(_core.AttentionArgs(), a)
    memory = None
    with _names_of_this_package():
        if _devices.on_device(a.q.device):
            size = _core.plan_bytes(call, execution)
            memory, address = _devices.memory_on(a.q.device, size)
            execution.use_plan_memory(address, size)
        with _devices.reachable(execution, (*tensors_of(a).values(), memory)):
            plan = _core.make_plan(call, execution)
    return _plan.register(plan, memory, execution.stream)


def _make_plan_fake(*flat: Any) -> Tensor:
    return torch.empty([1], dtype=torch.int64, device="cpu")


def _offsets_from_lengths(lengths: Tensor) -> Tensor:
    if lengths.device.type != "cpu":  # the values are checked where the offsets are used
        return torch.nn.functional.pad(lengths.cumsum(0, dtype=lengths.dtype), (1, 0))
    offsets = _offsets_from_lengths_fake(lengths)
    with _names_of_this_package():
        _core.offsets_from_lengths(view("lengths", lengths), view("offsets", offsets))
    return offsets


def _offsets_from_lengths_fake(lengths: Tensor) -> Tensor:
    return lengths.new_empty([lengths.shape[0] + 1])


# ------------------------------------------------------------------------------------- registration


_library: Any = torch.library.Library("jfa", "DEF")  # type: ignore[no-untyped-call]


def _define(
    name: str,
    schema: str,
    real: Callable[..., Any],
    fake: Callable[..., Any],
    function: Any = None,
) -> Any:
    """The operator jfa::name, differentiable by ``function``, a torch.autograd.Function."""
    # A compiler must hand over tensors as they are: their last stride is 1.
    exact = getattr(torch.Tag, "needs_exact_strides", torch.Tag.needs_fixed_stride_order)
    _library.define(name + schema, tags=(torch.Tag.pt2_compliant_tag, exact))
    _library.impl(name, real, "CompositeExplicitAutograd")
    torch.library.register_fake(f"jfa::{name}", fake, lib=_library)
    operator = getattr(torch.ops.jfa, name).default
    if function is not None:

        def differentiable(keys: Any, *flat: Any) -> Any:
            if torch.is_grad_enabled() and torch._C._any_requires_grad(*flat):
                if torch._C._are_functorch_transforms_active():
                    raise _core.Unsupported(
                        "jagged_attention: PyTorch cannot differentiate operators written in "
                        "Python in torch.func.grad, vjp or jacrev; use backward or "
                        "torch.autograd.grad"
                    )
                return function.apply(keys, *flat)
            return _below_autograd(operator, keys, flat)

        _library.impl(name, differentiable, "Autograd", with_keyset=True)
    return operator


forward = _define(
    "attention_forward",
    f"({SCHEMA}, bool? deterministic) -> (Tensor, Tensor)",
    lambda *flat: _forward(*flat[:_COUNT]),
    lambda *flat: _forward_fake(*flat[:_COUNT]),
    _ForwardFunction,
)
backward = _define(
    "attention_backward",
    f"({SCHEMA}, Tensor? out, Tensor? lse, Tensor d_out, bool? deterministic, bool[] needed) -> "
    f"({', '.join(['Tensor'] * len(DIFFERENTIABLE))})",
    _backward,
    _backward_fake,
    _BackwardFunction,
)
make_plan = _define("make_plan", f"({SCHEMA}) -> Tensor", _make_plan, _make_plan_fake)
_offsets_operator = _define(
    "offsets_from_lengths",
    "(Tensor lengths) -> Tensor",
    _offsets_from_lengths,
    _offsets_from_lengths_fake,
)


def offsets_from_lengths(lengths: Tensor) -> Tensor:
    """TorchRec lengths [batch] (int32 or int64) to offsets [batch + 1] of the same type."""
    if not isinstance(lengths, Tensor):
        raise _core.InvalidType(
            f"lengths: a {type(lengths).__name__}; pass a torch.Tensor of int32 or int64"
        )
    offsets: Tensor = _offsets_operator(lengths)
    return offsets
