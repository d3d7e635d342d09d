"""Masks: which keys of its sequence a query row may see.

Position of query row i in a sequence of Lq queries and Lk keys: p(i) = i + Lk − Lq when
``alignment`` is "bottom_right" (the last query sees the last key) and p(i) = i when it is
"top_left". Every number may be one int for the whole batch or an int32 or int64 tensor [batch] with
one number a sequence.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from torch import Tensor

from jfa._core import InvalidArgument, InvalidType

Alignment = Literal["bottom_right", "top_left"]

# The numbers of each mask, by the names that the C++ library gives them.
PARAMETERS: dict[str, tuple[str, ...]] = {
    "full": (),
    "causal": (),
    "window": ("left", "right"),
    "hstu": (
        "contextual",
        "targets",
        "target_group",
        "max_attention_length",
        "min_full_attention",
    ),
    "prefix_local": ("prefix", "local"),
    "blocks": ("block",),
    "intervals": (),
}


@dataclass(frozen=True, eq=False)
class Mask:
    """Made by the functions of this module. ``numbers`` follow ``PARAMETERS[kind]``."""

    kind: str = "full"
    alignment: Alignment = "bottom_right"
    numbers: tuple[int | Tensor, ...] = ()
    hstu_causal: bool = True
    intervals: Tensor | None = None


def full() -> Mask:
    """Every row sees every key of its sequence (the default)."""
    return Mask()


def causal(alignment: Alignment = "bottom_right") -> Mask:
    """Row i sees keys j ≤ p(i)."""
    return Mask("causal", alignment)


def window(
    left: int | Tensor | None = None,
    right: int | Tensor | None = None,
    alignment: Alignment = "bottom_right",
) -> Mask:
    """Row i sees keys p(i) − left ≤ j ≤ p(i) + right; None (or a negative number) is no bound."""
    unbounded = -1
    return Mask(
        "window",
        alignment,
        (
            unbounded if left is None else _number("left", left),
            unbounded if right is None else _number("right", right),
        ),
    )


def hstu(
    contextual: int | Tensor = 0,
    targets: int | Tensor = 0,
    target_group: int | Tensor = 1,
    max_attention_length: int | Tensor = 0,
    min_full_attention: int | Tensor = 0,
    *,
    causal: bool = True,
) -> Mask:
    """The mask of HSTU as generative-recommenders defines it (``_get_valid_attn_mask``).

    A sequence is ``contextual`` rows, history, then ``targets`` candidates. Contextual rows see all
    history; history is causal; a target sees history and its own group of ``target_group`` up to
    itself. ``max_attention_length`` > 0 bounds the distance in history, except for the last
    ``min_full_attention`` history rows. Needs as many queries as keys.
    """
    numbers = (
        _number("contextual", contextual),
        _number("targets", targets),
        _number("target_group", target_group),
        _number("max_attention_length", max_attention_length),
        _number("min_full_attention", min_full_attention),
    )
    return Mask("hstu", numbers=numbers, hstu_causal=causal)


def prefix_local(
    prefix: int | Tensor, local: int | Tensor, alignment: Alignment = "bottom_right"
) -> Mask:
    """Row i sees keys j ≤ p(i) with j < prefix or j > p(i) − local."""
    numbers = (_number("prefix", prefix), _number("local", local))
    return Mask("prefix_local", alignment, numbers)


def blocks(block: int | Tensor, alignment: Alignment = "bottom_right") -> Mask:
    """Row i sees keys of its own block: j // block == p(i) // block."""
    return Mask("blocks", alignment, (_number("block", block),))


def intervals(bounds: Tensor) -> Mask:
    """Row i sees keys lo ≤ j < hi, or lo2 ≤ j < hi2, counted from the first key of its sequence.

    ``bounds`` is int32, [query rows, 2] or [query rows, 4]; for dense queries [batch, rows, 2 or 4]
    too.
    """
    if not isinstance(bounds, Tensor):
        raise InvalidType(
            f"mask.intervals: a {type(bounds).__name__}; pass an int32 tensor [query rows, 2 or 4]"
        )
    return Mask("intervals", intervals=bounds)


def _number(name: str, value: int | Tensor) -> int | Tensor:
    if isinstance(value, bool | float | str) or value is None:
        raise InvalidType(
            f"mask.{name}: {value!r}, a {type(value).__name__}; pass an int, or an int32 or int64 "
            "tensor [batch] with one number a sequence"
        )
    if isinstance(value, int) and not -(2**63) <= value < 2**63:
        raise InvalidArgument(f"mask.{name}: {value}, which no int64 can hold")
    return value
