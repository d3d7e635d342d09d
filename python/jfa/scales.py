"""Factors of the output that are not one number: out = out_scale · P V."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor


@dataclass(frozen=True, eq=False)
class OutScale:
    """Made by ``per_sequence`` and ``per_token``."""

    kind: str
    values: Tensor


def per_sequence(values: Tensor) -> OutScale:
    """One factor a sequence: ``values`` float32 [batch]. Carries no gradient."""
    return OutScale("per_sequence", values)


def per_token(values: Tensor) -> OutScale:
    """One factor a query row: ``values`` float32 [total_q], dense and broadcast queries [batch,
    rows].

    Carries no gradient.
    """
    return OutScale("per_token", values)
