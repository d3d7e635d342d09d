"""Jagged nested tensors (``torch.jagged``) to values and offsets and back."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from jfa._core import InvalidArgument


def parts(name: str, nested: Tensor) -> tuple[Tensor, Tensor, Tensor | None]:
    """Values [total, H, D], offsets and used lengths of [batch, j, H, D] or [batch, H, j, D]."""
    if nested.layout != torch.jagged:
        raise InvalidArgument(
            f"{name}: a nested tensor of layout {nested.layout}; make it with layout=torch.jagged"
        )
    if nested.dim() != 4 or _ragged_dim(nested) not in (1, 2):
        raise InvalidArgument(
            f"{name}: a nested tensor with {nested.dim()} dimensions, ragged in dimension "
            f"{_ragged_dim(nested)}; allowed: [batch, j, heads, dim] and [batch, heads, j, dim]"
        )
    if _ragged_dim(nested) == 2:
        nested = nested.transpose(1, 2)
    return nested.values(), *_structure(nested)


def key_value_parts(k: Tensor, v: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor | None]:
    """(k values, v values, offsets, used lengths)."""
    if not (k.is_nested and v.is_nested):
        raise InvalidArgument(
            f"{'k' if k.is_nested else 'v'}: a nested tensor, but {'v' if k.is_nested else 'k'} is "
            "not; pass both nested, or .values() with kv_offsets"
        )
    k_values, offsets, used = parts("k", k)
    v_values, _, _ = parts("v", v)
    if k.shape[_ragged_dim(k)] != v.shape[_ragged_dim(v)]:
        raise InvalidArgument(
            "v: other offsets than k; nested tensors agree when they are made from the same "
            "offsets tensor: torch.nested.nested_tensor_from_jagged(values, k.offsets())"
        )
    return k_values, v_values, offsets, used


def like(nested: Tensor, values: Tensor) -> Tensor:
    """``values`` [total, heads, dim] as a nested tensor with the sequences and dimensions of
    ``nested``.
    """
    out = torch.nested.nested_tensor_from_jagged(values, *_structure(nested))
    return out.transpose(1, 2) if _ragged_dim(nested) == 2 else out


# PyTorch's type stubs do not know what a nested tensor has beyond Tensor.


def _structure(nested: Any) -> tuple[Tensor, Tensor | None]:
    return nested.offsets(), nested.lengths()


def _ragged_dim(nested: Any) -> int:
    dim: int = nested._ragged_idx
    return dim
