"""The short way of a call with a plan on a GPU: what PyTorch's dispatcher, autograd and the checks
of ``jfa.attention`` would find again and again is kept with the plan.

The first call with new shapes or options takes the long way. Later ones that differ from it in
addresses alone allocate the output and go straight to the C++ library, which checks every address.
Both ways launch the same kernel with the same arguments.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, NamedTuple

import torch
from torch import Tensor

from jfa import _core, _devices
from jfa._plan import Entry
from jfa.masks import Mask

# Options that a key can hold; a call with any other takes the long way.
_OPTIONS = frozenset({"mask", "activation", "scale", "strict_isolation"})
_MOST_KEYS = 64  # a plan is for one layer's shapes, or a few

_enabled = os.environ.get("JFA_CHECK", "") in ("", "0")


class Prepared(NamedTuple):
    call: _core.PreparedForward
    out_shape: tuple[int, ...]
    lse_shape: tuple[int, ...] | None  # None: the caller wants none
    workspace: int  # bytes


# Looked up once: a call has microseconds.
_empty_like = torch.empty_like
_autocast = torch.is_autocast_enabled
_grad = torch.is_grad_enabled
_dispatch_modes = torch._C._len_torch_dispatch_stack
_function_modes = torch._C._len_torch_function_stack
_functorch = torch._C._are_functorch_transforms_active

Key = tuple[Any, ...]


def key_of(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    q_offsets: Tensor | None,
    kv_offsets: Tensor | None,
    return_lse: bool,
    options: Mapping[str, Any],
) -> Key | None:
    """What, beside addresses, a call depends on; None if it must take the long way."""
    if not (_enabled and type(q) is type(k) is type(v) is Tensor):
        return None
    if _grad() and (q.requires_grad or k.requires_grad or v.requires_grad):
        return None
    device = q.device
    if k.device != device or v.device != device or _is_watched(device):
        return None
    mask = activation = scale = isolation = None
    if options:
        if not options.keys() <= _OPTIONS:
            return None
        activation, scale = options.get("activation"), options.get("scale")
        isolation = options.get("strict_isolation")
        mask = options.get("mask")
        if mask is not None:
            mask = _key_of_mask(mask)
            if mask is None:
                return None
    return (
        q.shape,
        q.stride(),
        k.shape,
        k.stride(),
        v.shape,
        v.stride(),
        q.dtype,
        k.dtype,
        v.dtype,
        device,
        None if q_offsets is None else (q_offsets.shape, q_offsets.dtype, q_offsets.stride()),
        None
        if kv_offsets is None
        else (kv_offsets.shape, kv_offsets.dtype, kv_offsets.stride(), kv_offsets.device),
        mask,
        activation,
        scale,
        isolation,
        return_lse,
    )


def _key_of_mask(mask: Mask) -> Key | None:
    if type(mask) is not Mask or mask.intervals is not None:
        return None
    for number in mask.numbers:
        if isinstance(number, Tensor):
            return None
    return (mask.kind, mask.alignment, mask.numbers, mask.hstu_causal)


def _is_watched(device: torch.device) -> bool:
    """Whether something of PyTorch wants to see the operator: autocast, a mode, functorch."""
    return _autocast(device.type) or _dispatch_modes() > 0 or _function_modes() > 0 or _functorch()


def run(
    entry: Entry,
    prepared: Prepared,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    q_offsets: Tensor | None,
    kv_offsets: Tensor | None,
) -> Tensor | tuple[Tensor, Tensor]:
    """The result of a call whose key led to ``prepared``."""
    if prepared.out_shape == q.shape:  # takes half the time of new_empty
        out = _empty_like(q, memory_format=torch.contiguous_format)
    else:
        out = q.new_empty(prepared.out_shape)
    lse = None
    if prepared.lse_shape is not None:
        lse = q.new_empty(prepared.lse_shape, dtype=torch.float32)
    device = q.device
    stream = _devices.stream_of(device)
    workspace, address = None, 0
    if prepared.workspace > 0:
        workspace, address = _devices.memory_on(device, prepared.workspace)
    if stream != entry.stream:
        entry.used_on(stream)
    if kv_offsets is None:
        kv_offsets = q_offsets
    arguments = (
        q.data_ptr(),
        k.data_ptr(),
        v.data_ptr(),
        0 if q_offsets is None else q_offsets.data_ptr(),
        0 if kv_offsets is None else kv_offsets.data_ptr(),
        out.data_ptr(),
        0 if lse is None else lse.data_ptr(),
        stream,
        address,
        prepared.workspace,
    )
    if device.type == "cuda":
        prepared.call.run(*arguments)
    else:
        execution = _devices.execution_on(device, 0, False)
        tensors = (q, k, v, q_offsets, kv_offsets, out, lse, workspace, entry.memory)
        with _devices.reachable(execution, tensors):
            prepared.call.run(*arguments)
    return out if lse is None else (out, lse)


def find(entry: Entry, key: Key) -> Prepared | None:
    """What was kept for ``key``. Most often that is the last one: to compare takes less time than
    to hash.
    """
    if entry.last is not None and entry.last[0] == key:
        prepared: Prepared = entry.last[1]
        return prepared
    found: Prepared | None = entry.prepared.get(key)
    if found is not None:
        entry.last = (key, found)
    return found


def keep(entry: Entry, key: Key, prepared: Prepared) -> None:
    if len(entry.prepared) >= _MOST_KEYS:
        entry.prepared.clear()
    entry.prepared[key] = prepared
