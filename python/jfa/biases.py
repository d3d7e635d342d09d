"""Additive biases. Scores are scale · QKᵀ + bias; pass one, or a list of different ones to be
summed.
"""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor


@dataclass(frozen=True, eq=False)
class Bias:
    """Made by the functions of this module; unused parts are None."""

    dense: Tensor | None = None
    alibi_slopes: Tensor | None = None
    position_table: Tensor | None = None
    time_table: Tensor | None = None
    q_timestamps: Tensor | None = None
    kv_timestamps: Tensor | None = None
    time_scale: float = 0.301


def dense_bias(values: Tensor) -> Bias:
    """``values`` [batch | 1, Hq | 1, ≥ longest q, ≥ longest kv], float32 or the type of q; any
    strides.
    """
    return Bias(dense=values)


def alibi_bias(slopes: Tensor) -> Bias:
    """−slope · |p(i) − j|; ``slopes`` float32 [Hq] or [batch, Hq]. p(i) as in ``jfa.masks``."""
    return Bias(alibi_slopes=slopes)


def position_bias(table: Tensor) -> Bias:
    """table[h][clamp(j − p(i), −(n−1), n−1) + n − 1]; ``table`` float32 [Hq | 1, 2n − 1]."""
    return Bias(position_table=table)


def time_bias(
    table: Tensor,
    q_timestamps: Tensor,
    kv_timestamps: Tensor | None = None,
    time_scale: float = 0.301,
) -> Bias:
    """table[h][min(buckets − 1, ⌊ln(max(1, |t_q − t_k|)) / time_scale⌋)], HSTU's log-time buckets.

    ``table`` float32 [Hq | 1, buckets]; timestamps int64, one a row of q and of k (jagged nested
    tensors [batch, j] too); ``kv_timestamps`` defaults to ``q_timestamps``.
    """
    if kv_timestamps is None:
        kv_timestamps = q_timestamps
    return Bias(
        time_table=table,
        q_timestamps=q_timestamps,
        kv_timestamps=kv_timestamps,
        time_scale=time_scale,
    )
