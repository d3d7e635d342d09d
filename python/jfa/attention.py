"""The calls: ``jagged_attention``, ``plan`` and ``reference_attention``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, TypedDict, get_args, overload

import torch
from torch import Tensor
from torch.autograd.forward_ad import unpack_dual
from typing_extensions import Unpack

from jfa import _nested, _operators, _plan, _prepared
from jfa._arguments import Arguments, tensors_of
from jfa._core import InvalidArgument, InvalidType, Unsupported
from jfa._plan import Plan
from jfa.biases import Bias
from jfa.masks import Mask
from jfa.scales import OutScale

Activation = Literal[
    "softmax",
    "silu",
    "gelu",
    "gelu_tanh",
    "relu",
    "relu2",
    "leaky_relu",
    "hardswish",
    "identity",
]
Layout = Literal["jagged", "dense", "broadcast"]


class Options(TypedDict, total=False):
    """The keyword arguments that say what is computed, shared by ``jagged_attention``, ``plan`` and
    ``reference_attention``; the first explains them.
    """

    q_lengths: Tensor | None
    kv_lengths: Tensor | None
    q_used: Tensor | None
    kv_used: Tensor | None
    kv_layout: Layout | None
    kv_map: Tensor | None
    batch: int | None
    activation: Activation
    leaky_slope: float | None
    scale: float | None
    out_scale: float | OutScale | None
    mask: Mask | None
    bias: Bias | Tensor | Sequence[Bias] | None
    strict_isolation: bool


@overload
def jagged_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    q_offsets: Tensor | None = None,
    kv_offsets: Tensor | None = None,
    *,
    plan: Plan | None = None,
    return_lse: Literal[False] = False,
    deterministic: bool | None = None,
    threads: int | None = None,
    **options: Unpack[Options],
) -> Tensor: ...
@overload
def jagged_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    q_offsets: Tensor | None = None,
    kv_offsets: Tensor | None = None,
    *,
    plan: Plan | None = None,
    return_lse: Literal[True],
    deterministic: bool | None = None,
    threads: int | None = None,
    **options: Unpack[Options],
) -> tuple[Tensor, Tensor]: ...
def jagged_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    q_offsets: Tensor | None = None,
    kv_offsets: Tensor | None = None,
    *,
    plan: Plan | None = None,
    return_lse: bool = False,
    deterministic: bool | None = None,
    threads: int | None = None,
    **options: Unpack[Options],
) -> Tensor | tuple[Tensor, Tensor]:
    """Attention over sequences of different lengths, differentiable in q, k, v and every bias.

    S = scale · QKᵀ + bias, P = softmax(S) or activation(S), out = out_scale · P V.
    ``torch.compile`` and ``torch.export`` see one operator, whatever the lengths. Under autocast q,
    k and v take its type.

    Args:
        q: float32, bfloat16 or float16. Jagged [total_q, Hq, D] with ``q_offsets``; dense
            [batch, rows, Hq, D]; broadcast [rows, Hq, D] without offsets (one block of queries for
            every sequence); or a jagged nested tensor [batch, j, Hq, D] or [batch, Hq, j, D].
        k: the same with Hkv heads; Hq must be a multiple of Hkv.
        v: like k, with Dv in place of D.
        q_offsets: int32 or int64 [batch + 1]; sequence b owns rows q_offsets[b] … q_offsets[b+1] −
            1. May start above 0; rows after the last offset are never read and get zeros.
        kv_offsets: the same for k and v. Absent with jagged q and 3-D k: self-attention, the
            sequences of q.
        q_lengths, kv_lengths: int32 or int64 [batch], TorchRec lengths in place of offsets.
        q_used, kv_used: int32 or int64 [batch], only the first n rows of a sequence count (holes).
        kv_layout: needed for jagged q with broadcast k ("broadcast"); otherwise inferred.
        kv_map: int32 or int64 [batch], the key sequence that each query sequence uses.
        batch: number of sequences; needed only when q and k are both broadcast.
        activation: softmax, or elementwise without normalisation (masked entries count as 0).
        leaky_slope: slope of leaky_relu below 0; default 0.01.
        scale: factor of QKᵀ; default 1/√D for softmax and 1 for the others.
        out_scale: factor of the output: a number (default 1), ``jfa.per_sequence(tensor)`` or
            ``jfa.per_token(tensor)``.
        mask: ``jfa.causal()``, ``jfa.window(…)``, ``jfa.hstu(…)``, ``jfa.prefix_local(…)``,
            ``jfa.blocks(…)``, ``jfa.intervals(…)``; default: all keys of the sequence.
        bias: ``jfa.dense_bias(…)`` (or its tensor), ``jfa.alibi_bias(…)``,
            ``jfa.position_bias(…)``, ``jfa.time_bias(…)``, or a list of different ones, which are
            summed.
        plan: of ``jfa.plan`` for the same arguments; saves making it again in every layer and
            backward.
        return_lse: also return lse, float32 [Hq, query rows], the natural logarithm of the softmax
            denominators, −∞ for rows without a visible key. It carries no gradient.
        deterministic: bitwise reproducible gradients; default:
            torch.are_deterministic_algorithms_enabled() when the backward pass runs.
        threads: CPU threads; default torch.get_num_threads().
        strict_isolation: also keep NaN and Inf of one sequence's rows out of every other's result.

    Returns:
        out in the type of q: [total_q, Hq, Dv]; [batch, rows, Hq, Dv] for dense and broadcast q; a
        nested tensor for nested q. With ``return_lse``: (out, lse).

    Raises:
        ValueError, TypeError, NotImplementedError: naming the argument, before any work.
    """
    key = entry = None
    if plan is not None and not torch.compiler.is_compiling() and type(plan) is Plan:
        entry = _plan.entry_of(plan)
        if entry.memory is not None:
            key = _prepared.key_of(q, k, v, q_offsets, kv_offsets, return_lse, options)
            prepared = None if key is None else _prepared.find(entry, key)
            if prepared is not None:
                return _prepared.run(entry, prepared, q, k, v, q_offsets, kv_offsets)
    arguments = _collect(q, k, v, q_offsets, kv_offsets, **options)._replace(
        plan=None if plan is None else _of_type("plan", plan, Plan, "a jfa.Plan").handle,
        threads=_thread_count(threads),
    )
    if deterministic is not None:
        _of_type("deterministic", deterministic, bool, "True, False or None")
    out, lse = _operators.forward(*arguments, deterministic)
    if key is not None and entry is not None:
        prepared = _operators.prepare(arguments, out, lse if return_lse else None)
        _prepared.keep(entry, key, prepared)
    if q.is_nested:
        out = _nested.like(q, out)
    return (out, lse) if return_lse else out


def reference_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    q_offsets: Tensor | None = None,
    kv_offsets: Tensor | None = None,
    **options: Unpack[Options],
) -> tuple[Tensor, Tensor]:
    """The definition of ``jagged_attention`` in plain float64 loops, differentiable alike, and
    slow.

    Inputs may be float64 too. Returns (out, lse), both float64; lse is empty for activations other
    than softmax.
    """
    arguments = _collect(q, k, v, q_offsets, kv_offsets, **options)._replace(reference=True)
    out, lse = _operators.forward(*arguments, None)
    return (_nested.like(q, out) if q.is_nested else out), lse


def plan(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    q_offsets: Tensor | None = None,
    kv_offsets: Tensor | None = None,
    **options: Unpack[Options],
) -> Plan:
    """The work list for ``jagged_attention`` with these arguments.

    Offsets, lengths, mask and the shapes of q, k, v matter, their values do not: one plan serves
    every layer of a model and its backward pass. A call with other offsets refuses it.
    """
    return Plan(_operators.make_plan(*_collect(q, k, v, q_offsets, kv_offsets, **options)))


# ------------------------------------------------------------------ from a user's call to Arguments


def _collect(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    q_offsets: Tensor | None = None,
    kv_offsets: Tensor | None = None,
    *,
    q_lengths: Tensor | None = None,
    kv_lengths: Tensor | None = None,
    q_used: Tensor | None = None,
    kv_used: Tensor | None = None,
    kv_layout: Layout | None = None,
    kv_map: Tensor | None = None,
    batch: int | None = None,
    activation: Activation = "softmax",
    leaky_slope: float | None = None,
    scale: float | None = None,
    out_scale: float | OutScale | None = None,
    mask: Mask | None = None,
    bias: Bias | Tensor | Sequence[Bias] | None = None,
    strict_isolation: bool = False,
    **unknown: object,
) -> Arguments:
    """Checks what only PyTorch knows and resolves layouts; shapes and values are left to the
    library.
    """
    for name in unknown:
        raise InvalidType(
            f"{name}: no such argument; allowed: {', '.join(Options.__annotations__)}"
        )
    _check_tensors(q=q, k=k, v=v)
    _check_optional_tensors(
        q_offsets=q_offsets,
        kv_offsets=kv_offsets,
        q_lengths=q_lengths,
        kv_lengths=kv_lengths,
        q_used=q_used,
        kv_used=kv_used,
        kv_map=kv_map,
    )
    if q.is_nested:
        _refuse_beside_nested("q", q_offsets=q_offsets, q_lengths=q_lengths, q_used=q_used)
        q, q_offsets, q_used = _nested.parts("q", q)
    if k.is_nested or v.is_nested:
        _refuse_beside_nested("k", kv_offsets=kv_offsets, kv_lengths=kv_lengths, kv_used=kv_used)
        k, v, kv_offsets, kv_used = _nested.key_value_parts(k, v)

    q_offsets = _offsets("q", q_offsets, q_lengths)
    kv_offsets = _offsets("kv", kv_offsets, kv_lengths)
    q_layout = _layout("q", q, q_offsets, None)
    if q_layout == "jagged" and k.dim() == 3 and kv_offsets is None and kv_layout != "broadcast":
        kv_offsets = q_offsets
        kv_used = q_used if kv_used is None else kv_used
    kv_layout = _layout("kv", k, kv_offsets, kv_layout)

    mask = _of_type("mask", Mask() if mask is None else mask, Mask, "jfa.causal(), …")
    numbers = [number if isinstance(number, int) else 0 for number in mask.numbers]
    tensors = [number if isinstance(number, Tensor) else None for number in mask.numbers]
    padding = 5 - len(mask.numbers)
    numbers, tensors = [*numbers, *[0] * padding], [*tensors, *[None] * padding]
    total_bias = _sum_of_biases(bias)
    scale_kind, scale_number, scale_tensor = _out_scale(out_scale)
    q, k, v = _autocast(q, k, v)
    _refuse_forward_mode(q, k, v, total_bias)
    arguments = Arguments(
        q=q,
        k=k,
        v=v,
        bias_dense=total_bias.dense,
        alibi_slopes=total_bias.alibi_slopes,
        position_table=total_bias.position_table,
        time_table=total_bias.time_table,
        q_offsets=q_offsets,
        kv_offsets=kv_offsets,
        q_used=q_used,
        kv_used=kv_used,
        kv_map=kv_map,
        out_scales=scale_tensor,
        q_timestamps=_flat_rows(total_bias.q_timestamps),
        kv_timestamps=_flat_rows(total_bias.kv_timestamps),
        intervals=None if mask.intervals is None else mask.intervals.flatten(0, -2),
        mask_tensor_0=tensors[0],
        mask_tensor_1=tensors[1],
        mask_tensor_2=tensors[2],
        mask_tensor_3=tensors[3],
        mask_tensor_4=tensors[4],
        plan=None,
        q_layout=q_layout,
        kv_layout=kv_layout,
        batch=-1 if batch is None else _whole_number("batch", batch),
        activation=_one_of("activation", activation, get_args(Activation)),
        leaky_slope=0.01 if leaky_slope is None else _number("leaky_slope", leaky_slope),
        scale=None if scale is None else _number("scale", scale),
        out_scale_kind=scale_kind,
        out_scale=scale_number,
        mask=mask.kind,
        alignment=_one_of("mask.alignment", mask.alignment, ("bottom_right", "top_left")),
        hstu_causal=mask.hstu_causal,
        mask_numbers=numbers,
        time_scale=_number("time_scale", total_bias.time_scale),
        reference=False,
        threads=0,
        strict_isolation=strict_isolation,
    )
    _check_devices(arguments)
    return arguments


def _check_tensors(**tensors: Tensor) -> None:
    for name, tensor in tensors.items():
        if not isinstance(tensor, Tensor):
            raise InvalidType(f"{name}: a {type(tensor).__name__}; pass a torch.Tensor")
        if tensor.layout not in (torch.strided, torch.jagged):
            raise InvalidType(f"{name}: layout {tensor.layout}; pass {name}.to_dense()")
        if not tensor.is_nested and tensor.dim() not in (3, 4):
            raise InvalidArgument(
                f"{name}: shape {list(tensor.shape)} has rank {tensor.dim()}; allowed: jagged "
                "[total, heads, dim], broadcast [rows, heads, dim], dense [batch, rows, heads, dim]"
            )


def _check_optional_tensors(**tensors: Tensor | None) -> None:
    for name, tensor in tensors.items():
        if tensor is not None:
            _of_type(name, tensor, Tensor, "a torch.Tensor of int32 or int64")


def _refuse_beside_nested(name: str, **given: Tensor | None) -> None:
    for argument, value in given.items():
        if value is not None:
            raise InvalidArgument(
                f"{argument}: given although {name} is a nested tensor, which brings its own; "
                f"leave {argument} out, or pass {name}.values()"
            )


def _offsets(side: str, offsets: Tensor | None, lengths: Tensor | None) -> Tensor | None:
    if lengths is None:
        return offsets
    if offsets is not None:
        raise InvalidArgument(f"{side}_lengths: given beside {side}_offsets; pass one of them")
    return _operators.offsets_from_lengths(lengths)


def _layout(side: str, tensor: Tensor, offsets: Tensor | None, wanted: Layout | None) -> Layout:
    name = "q" if side == "q" else "k"
    found: Layout = "dense" if tensor.dim() == 4 else "broadcast" if offsets is None else "jagged"
    if found == "dense" and offsets is not None:
        raise InvalidArgument(
            f"{side}_offsets: given although {name} has 4 dimensions, which is a block of equally "
            f"long sequences; leave {side}_offsets out, or pass {name}.flatten(0, 1)"
        )
    if wanted is not None and wanted != found:
        _one_of("kv_layout", wanted, get_args(Layout))
        raise InvalidArgument(
            f"kv_layout: {wanted!r}, but k has {tensor.dim()} dimensions and kv_offsets is "
            f"{'absent' if offsets is None else 'given'}, which is {found!r}; jagged is 3-D with "
            "offsets or lengths, broadcast 3-D without, dense 4-D"
        )
    return found


def _sum_of_biases(bias: Bias | Tensor | Sequence[Bias] | None) -> Bias:
    if bias is None:
        return Bias()
    if isinstance(bias, Tensor):
        return Bias(dense=bias)
    if isinstance(bias, Bias):
        return bias
    merged: dict[str, Tensor | float] = {}
    wanted = "jfa.dense_bias(…), jfa.alibi_bias(…), … or a list of them"
    for part in _of_type("bias", bias, (list, tuple), wanted):
        _of_type("bias", part, Bias, wanted)
        present = {name: value for name, value in vars(part).items() if isinstance(value, Tensor)}
        for name in present:
            if name in merged:
                raise InvalidArgument(f"bias: {name} is given twice; add the two tensors")
        merged |= present
        if part.time_table is not None:
            merged["time_scale"] = part.time_scale
    return Bias(**merged)  # type: ignore[arg-type]


def _out_scale(scale: float | OutScale | None) -> tuple[str, float, Tensor | None]:
    if isinstance(scale, OutScale):
        if scale.values.requires_grad:
            raise Unsupported(
                "out_scale: requires a gradient, which is not computed; multiply the output by it"
            )
        return scale.kind, 1.0, scale.values.flatten()
    if isinstance(scale, Tensor):
        raise InvalidType(
            "out_scale: a tensor; say what its numbers belong to: jfa.per_sequence(tensor) or "
            "jfa.per_token(tensor)"
        )
    return "uniform", 1.0 if scale is None else _number("out_scale", scale), None


def _flat_rows(timestamps: Tensor | None) -> Tensor | None:
    if timestamps is None:
        return None
    return timestamps.values() if timestamps.is_nested else timestamps.flatten()


def _autocast(q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    device = q.device.type
    autocast = device in ("cpu", "cuda") and torch.is_autocast_enabled(device)
    if q.dtype == torch.float64 or not autocast:
        return q, k, v
    dtype = torch.get_autocast_dtype(device)
    return q.to(dtype), k.to(dtype), v.to(dtype)


def _refuse_forward_mode(q: Tensor, k: Tensor, v: Tensor, bias: Bias) -> None:
    """A custom operator would answer forward-mode differentiation with zero tangents."""
    if torch.compiler.is_compiling():
        return
    learned = (q, k, v, bias.dense, bias.alibi_slopes, bias.position_table, bias.time_table)
    tangents = [unpack_dual(t).tangent for t in learned if t is not None]  # type: ignore[no-untyped-call]
    if any(tangent is not None for tangent in tangents):
        raise Unsupported(
            "jagged_attention: forward-mode differentiation (torch.func.jvp, forward_ad) is not "
            "supported; use reverse mode (backward, torch.autograd.grad)"
        )


def _check_devices(arguments: Arguments) -> None:
    for name, tensor in tensors_of(arguments).items():
        if tensor.device != arguments.q.device and name != "plan":
            raise InvalidArgument(
                f"{name}: on {tensor.device} but q on {arguments.q.device}; move it with "
                f".to({str(arguments.q.device)!r})"
            )


def _thread_count(threads: int | None) -> int:
    most = 2**31 - 1
    if threads is None:
        return 0
    if not isinstance(threads, int) or isinstance(threads, bool):
        raise InvalidType(f"threads: {threads!r}; pass a positive int or None")
    if not 1 <= threads <= most:
        raise InvalidArgument(
            f"threads: {threads}; pass a number from 1 to {most}, or None for torch's number"
        )
    return threads


def _whole_number(name: str, value: int) -> int:
    _of_type(name, value, (int, torch.SymInt), "an int")
    if isinstance(value, int) and not -(2**63) <= value < 2**63:
        raise InvalidArgument(f"{name}: {value}, which no int64 can hold")
    return value


def _number(name: str, value: float) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InvalidType(
            f"{name}: a {type(value).__name__}; pass a number. For a factor that is learned, "
            "multiply q or the output by it instead"
        )
    try:
        return value if isinstance(value, float) else float(value)
    except OverflowError:
        raise InvalidArgument(f"{name}: an int that no float64 can hold") from None


def _one_of(name: str, value: str, allowed: tuple[str, ...]) -> str:
    if value not in allowed:
        raise InvalidArgument(f"{name}: {value!r}; allowed: {', '.join(allowed)}")
    return value


def _of_type(name: str, value: object, kind: type | tuple[type, ...], wanted: str):  # type: ignore[no-untyped-def]
    if not isinstance(value, kind):
        raise InvalidType(f"{name}: a {type(value).__name__}; pass {wanted}")
    return value
