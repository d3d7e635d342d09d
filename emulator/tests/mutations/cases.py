"""The good kernels: how to launch each and what it must compute."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from emulated import Argument, Input, Output, Scalar, TensorMap
from numpy.typing import NDArray

F32 = np.float32
Values = NDArray[Any]

# CUtensorMapDataType and CUtensorMapSwizzle.
MAP_F16, MAP_F32 = 6, 7
SWIZZLE_NONE, SWIZZLE_128 = 0, 3


@dataclass(frozen=True)
class Case:
    """One launch of a kernel file."""

    arguments: dict[str, Argument]
    parameters: Sequence[str | Scalar]
    grid: Sequence[int]
    block: int
    expected: dict[str, Values]
    tolerance: float = 0.0  #: absolute
    cluster: int = 1
    shared_bytes: int = 0


def _rng() -> np.random.Generator:
    return np.random.default_rng(21)


def tma_ring() -> Case:
    tiles = 5
    x = _rng().standard_normal((tiles * 32, 32)).astype(F32)
    return Case(
        {
            "x": Input(x),
            "y": Output(x.shape, F32),
            "in": TensorMap("x", (32, 32), MAP_F32),
            "out": TensorMap("y", (32, 32), MAP_F32),
        },
        ["in", "out", np.int32(tiles)],
        grid=[1],
        block=96,
        expected={"y": 2 * x + 1},
        tolerance=1e-5,
    )


def bulk_ring() -> Case:
    rows, ctas = 5, 2
    x = _rng().standard_normal((ctas * rows, 128)).astype(F32)
    return Case(
        {
            "x": Input(x),
            "out": Output(x.shape, F32),
            "sums": Input(np.zeros(128, F32), writable=True),
        },
        ["x", "out", "sums", np.int32(rows)],
        grid=[ctas],
        block=128,
        expected={"out": 2 * x, "sums": x.sum(axis=0)},
        tolerance=1e-5,
    )


def gemm_roles() -> Case:
    slices, m = 5, 256
    a = _rng().standard_normal((m, slices * 64)).astype(np.float16)
    b = _rng().standard_normal((64, slices * 64)).astype(np.float16)
    return Case(
        {
            "a": Input(a),
            "b": Input(b),
            "c": Output((m, 64), F32),
            "a_map": TensorMap("a", (64, 64), MAP_F16, SWIZZLE_128),
            "b_map": TensorMap("b", (64, 64), MAP_F16, SWIZZLE_128),
        },
        ["a_map", "b_map", "c", np.int32(slices)],
        grid=[m // 128],
        block=384,
        expected={"c": a.astype(F32) @ b.astype(F32).T},
        tolerance=1e-3,
        shared_bytes=2 * 3 * 8192 + 64 + 1024,
    )


def two_products() -> Case:
    rng = _rng()
    q, k, v = (rng.standard_normal((64, 64)).astype(np.float16) for _ in range(3))
    scores = np.maximum(q.astype(F32) @ k.astype(F32).T, 0).astype(np.float16).astype(F32)
    return Case(
        {
            "q": Input(q),
            "k": Input(k),
            "v_transposed": Input(np.ascontiguousarray(v.T)),
            "out": Output((64, 64), F32),
            "q_map": TensorMap("q", (64, 64), MAP_F16, SWIZZLE_128),
            "k_map": TensorMap("k", (64, 64), MAP_F16, SWIZZLE_128),
        },
        ["q_map", "k_map", "v_transposed", "out"],
        grid=[1],
        block=128,
        expected={"out": scores @ v.astype(F32)},
        tolerance=0.1,  # an element of P may round the other way
        shared_bytes=3 * 8192 + 64 + 1024,
    )


def cp_async_buffers() -> Case:
    ctas, rows = 2, 5
    x = _rng().standard_normal((ctas * rows, 128)).astype(F32)
    return Case(
        {"x": Input(x), "out": Output(x.shape, F32)},
        ["x", "out", np.int32(rows)],
        grid=[ctas],
        block=128,
        expected={"out": x[:, ::-1]},
    )


def cluster_sum() -> Case:
    clusters = 2
    x = _rng().standard_normal((clusters * 64, 32)).astype(F32)
    return Case(
        {
            "x": Input(x),
            "sums": Output((clusters * 64,), F32),
            "map": TensorMap("x", (64, 32), MAP_F32),
        },
        ["map", "sums"],
        grid=[2 * clusters],
        block=64,
        cluster=2,
        expected={"sums": x.sum(axis=1)},
        tolerance=1e-4,
    )


def cluster_exchange() -> Case:
    x = _rng().standard_normal((4, 64)).astype(F32)
    return Case(
        {"x": Input(x), "out": Output(x.shape, F32)},
        ["x", "out"],
        grid=[4],
        block=64,
        cluster=2,
        expected={"out": x[[1, 0, 3, 2], ::-1]},
    )


def ping_pong() -> Case:
    rounds = 4
    x = _rng().standard_normal((rounds, 64)).astype(F32)
    return Case(
        {"x": Input(x), "out": Output(x.shape, F32)},
        ["x", "out", np.int32(rounds)],
        grid=[1],
        block=128,
        expected={"out": x[:, ::-1]},
    )


def last_block() -> Case:
    n, ctas = 1500, 3
    x = _rng().standard_normal(n).astype(F32)
    return Case(
        {
            "x": Input(x),
            "partial": Output((ctas,), F32),
            "counter": Input(np.zeros(1, np.uint32), writable=True),
            "total": Output((1,), F32),
        },
        ["x", "partial", "counter", "total", np.int32(n // 4)],
        grid=[ctas],
        block=128,
        expected={"total": x.astype(np.float64).sum(keepdims=True)},
        tolerance=1e-3,
    )


def warp_tiles() -> Case:
    tiles = 3
    x = _rng().standard_normal((tiles, 32 * 4)).astype(F32)
    return Case(
        {"x": Input(x), "out": Output(x.shape, F32)},
        ["x", "out", np.int32(tiles)],
        grid=[2],
        block=64,
        expected={"out": x[:, ::-1]},
    )


def token_passing() -> Case:
    ctas = 4
    x = _rng().standard_normal((ctas, 64)).astype(F32)
    return Case(
        {
            "x": Input(x),
            "sums": Output(x.shape, F32),
            "flags": Input(np.zeros(ctas + 2, np.uint32), writable=True),
        },
        ["x", "sums", "flags"],
        grid=[ctas],
        block=64,
        expected={"sums": x.cumsum(axis=0)},
        tolerance=1e-5,
    )


def changed_map() -> Case:
    x = _rng().standard_normal((32, 32)).astype(F32)
    return Case(
        {
            "x": Input(x),
            "elsewhere": Input(np.zeros_like(x)),
            "changed": Input(np.zeros(16, np.uint64), writable=True),
            "out": Output(x.shape, F32),
            "map": TensorMap("elsewhere", (32, 32), MAP_F32),
        },
        ["map", "x", "changed", "out"],
        grid=[1],
        block=32,
        expected={"out": x},
    )


CASES: dict[str, Callable[[], Case]] = {
    function.__name__: function
    for function in (
        tma_ring,
        bulk_ring,
        gemm_roles,
        two_products,
        cp_async_buffers,
        cluster_sum,
        cluster_exchange,
        ping_pong,
        last_block,
        warp_tiles,
        token_passing,
        changed_map,
    )
}
