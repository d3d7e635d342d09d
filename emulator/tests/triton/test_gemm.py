"""Matrix products against NumPy: TMA and wgmma, mma.sync, all element types, several pipelines."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import pytest
import triton.language as tl
from compiler import CompiledKernel, compile_kernel
from emulated import Input, Output
from formats import E4M3, E5M2, from_bf16, random_fp8, to_bf16
from kernels import gemm, gluon_gemm
from launcher import launch
from numpy.typing import NDArray
from ptxemu import Settings
from triton.experimental.gluon import language as gl

F32 = np.float32
ULP = 2.0**-23

Values = NDArray[Any]
#: Makes an operand: its bits and its values.
Maker = Callable[[np.random.Generator, tuple[int, int]], tuple[Values, Values]]


def _f16(rng: np.random.Generator, shape: tuple[int, int]) -> tuple[Values, Values]:
    values = rng.standard_normal(shape).astype(np.float16)
    return values, values.astype(np.float64)


def _bf16(rng: np.random.Generator, shape: tuple[int, int]) -> tuple[Values, Values]:
    bits = to_bf16(rng.standard_normal(shape).astype(F32))
    return bits, from_bf16(bits).astype(np.float64)


def _tf32(rng: np.random.Generator, shape: tuple[int, int]) -> tuple[Values, Values]:
    # float16 values have 10 fraction bits, as tf32 has: the conversion on the way is exact.
    values = rng.standard_normal(shape).astype(np.float16).astype(F32)
    return values, values.astype(np.float64)


def _e4m3(rng: np.random.Generator, shape: tuple[int, int]) -> tuple[Values, Values]:
    return random_fp8(rng, E4M3, shape)


def _e5m2(rng: np.random.Generator, shape: tuple[int, int]) -> tuple[Values, Values]:
    return random_fp8(rng, E5M2, shape)


def _int8(rng: np.random.Generator, shape: tuple[int, int]) -> tuple[Values, Values]:
    values = rng.integers(-128, 128, shape).astype(np.int8)
    return values, values.astype(np.int64)


@dataclass(frozen=True)
class Case:
    """A product with `tile` = (rows, columns, k) per step; sizes leave partial tiles."""

    element: str
    make: Maker
    tile: tuple[int, int, int]
    size: tuple[int, int, int]
    accumulator: Any = tl.float32
    output: str = "fp16"
    warps: int = 4
    cluster: int = 1

    @property
    def output_type(self) -> Any:
        return {"fp16": np.float16, "bf16": np.uint16, "fp32": F32, "i32": np.int32}[self.output]


CASES = {
    "f16": Case("fp16", _f16, (128, 128, 64), (200, 136, 192)),
    "bf16_8_warps": Case("bf16", _bf16, (128, 256, 64), (128, 256, 128), output="bf16", warps=8),
    "tf32": Case("fp32", _tf32, (64, 64, 32), (100, 72, 96), output="fp32"),
    "e4m3": Case("fp8e4nv", _e4m3, (128, 128, 128), (136, 128, 256)),
    "e5m2": Case("fp8e5", _e5m2, (64, 128, 64), (64, 136, 192)),
    "int8": Case("i8", _int8, (64, 64, 128), (72, 64, 256), tl.int32, "i32"),
    "cluster_of_2": Case("fp16", _f16, (128, 128, 64), (128, 128, 192), cluster=2),
    "mma_f16": Case("fp16", _f16, (32, 32, 64), (40, 32, 128), warps=1),
    "mma_bf16": Case("bf16", _bf16, (32, 32, 32), (40, 32, 96), output="bf16", warps=2),
    "mma_tf32": Case("fp32", _tf32, (32, 32, 32), (40, 32, 64), output="fp32", warps=1),
    "mma_e4m3": Case("fp8e4nv", _e4m3, (32, 32, 64), (40, 32, 128), warps=1),
    "mma_int8": Case("i8", _int8, (32, 32, 64), (40, 32, 128), tl.int32, "i32", warps=1),
}


def _descriptor_type(element: str, *block: int) -> str:
    return f"tensordesc<{element}[{','.join(map(str, block))}]>"


@cache
def _compile_case(name: str) -> CompiledKernel:
    case = CASES[name]
    rows, columns, k = case.tile
    triton_types = {"fp16": tl.float16, "bf16": tl.bfloat16, "fp32": tl.float32, "i32": tl.int32}
    return compile_kernel(
        gemm.gemm_tma,
        {
            "a": _descriptor_type(case.element, rows, k),
            "b": _descriptor_type(case.element, columns, k),
            "c": _descriptor_type(case.output, rows, columns),
            "N": "i32",
            "K": "i32",
        },
        {
            "BM": rows,
            "BN": columns,
            "BK": k,
            "ACC": case.accumulator,
            "OUT": triton_types[case.output],
        },
        warps=case.warps,
        cluster=case.cluster,
    )


def _tiles(extent: int, tile: int) -> int:
    return -(-extent // tile)


def _compare(got: Values, a: Values, b: Values, output: str) -> None:
    """`got` against a b^T: sums are rounded to the accumulator, the result to the output."""
    exact = a @ b.T
    if output == "i32":
        np.testing.assert_array_equal(got, exact)
        return
    values = from_bf16(got) if output == "bf16" else got
    rounding = {"fp16": 2.0**-11, "bf16": 2.0**-8, "fp32": 0.0}[output]
    magnitude = np.abs(a) @ np.abs(b).T
    error = np.abs(values.astype(np.float64) - exact)
    bound = a.shape[1] * ULP * magnitude + rounding * np.abs(exact) + 2.0**-24
    worst = np.unravel_index(np.argmax(error / bound), error.shape)
    assert (error <= bound).all(), f"at {worst}: {values[worst]} instead of {exact[worst]}"


@pytest.mark.parametrize("name", CASES)
def test_gemm_tma(name: str, settings: Settings) -> None:
    case = CASES[name]
    m, n, k = case.size
    rng = np.random.default_rng(3)
    a_bits, a = case.make(rng, (m, k))
    b_bits, b = case.make(rng, (n, k))
    run = launch(
        _compile_case(name),
        {"a": Input(a_bits), "b": Input(b_bits), "c": Output((m, n), case.output_type)},
        ["@a", "@b", "@c", np.int32(n), np.int32(k)],
        grid=[_tiles(m, case.tile[0]) * _tiles(n, case.tile[1])],
        settings=settings,
    )
    assert run.result.clean, run.reports()
    _compare(run.arrays["c"], a, b, case.output)


@cache
def _compile_row_major_b() -> CompiledKernel:
    return compile_kernel(
        gemm.gemm_tma_row_major_b,
        {
            "a": _descriptor_type("bf16", 64, 64),
            "b": _descriptor_type("bf16", 64, 128),
            "c": _descriptor_type("bf16", 64, 128),
            "N": "i32",
            "K": "i32",
        },
        {"BM": 64, "BN": 128, "BK": 64},
    )


def test_gemm_row_major_b(settings: Settings) -> None:
    m, n, k = 72, 136, 192
    rng = np.random.default_rng(4)
    a_bits, a = _bf16(rng, (m, k))
    b_bits, b = _bf16(rng, (k, n))
    run = launch(
        _compile_row_major_b(),
        {"a": Input(a_bits), "b": Input(b_bits), "c": Output((m, n), np.uint16)},
        ["@a", "@b", "@c", np.int32(n), np.int32(k)],
        grid=[_tiles(m, 64) * _tiles(n, 128)],
        settings=settings,
    )
    assert run.result.clean, run.reports()
    _compare(run.arrays["c"], a, b.T, "bf16")


@cache
def _compile_persistent() -> CompiledKernel:
    return compile_kernel(
        gemm.gemm_persistent,
        {
            "a": _descriptor_type("fp16", 128, 64),
            "b": _descriptor_type("fp16", 128, 64),
            "c": _descriptor_type("fp16", 128, 128),
            "M": "i32",
            "N": "i32",
            "K": "i32",
        },
        {"BM": 128, "BN": 128, "BK": 64},
    )


def test_gemm_persistent(settings: Settings) -> None:
    """Five tiles on two programs: one does three, one two."""
    m, n, k = 640, 128, 128
    rng = np.random.default_rng(5)
    a_bits, a = _f16(rng, (m, k))
    b_bits, b = _f16(rng, (n, k))
    run = launch(
        _compile_persistent(),
        {"a": Input(a_bits), "b": Input(b_bits), "c": Output((m, n), np.float16)},
        ["@a", "@b", "@c", np.int32(m), np.int32(n), np.int32(k)],
        grid=[2],
        settings=settings,
    )
    assert run.result.clean, run.reports()
    _compare(run.arrays["c"], a, b, "fp16")


@cache
def _compile_split_k() -> CompiledKernel:
    return compile_kernel(
        gemm.gemm_split_k,
        {"a": "*fp16", "b": "*fp16", "c": "*fp32", "M": "i32", "N": "i32", "K": "i32"},
        {"BM": 64, "BN": 64, "BK": 64, "SPLITS": 2},
    )


def test_gemm_split_k(settings: Settings) -> None:
    m, n, k = 80, 64, 256
    rng = np.random.default_rng(6)
    a_bits, a = _f16(rng, (m, k))
    b_bits, b = _f16(rng, (n, k))
    run = launch(
        _compile_split_k(),
        {"a": Input(a_bits), "b": Input(b_bits), "c": Input(np.zeros((m, n), F32), writable=True)},
        ["a", "b", "c", np.int32(m), np.int32(n), np.int32(k)],
        grid=[2, 2],
        settings=settings,
    )
    assert run.result.clean, run.reports()
    _compare(run.arrays["c"], a, b, "fp32")


@cache
def _compile_roles() -> CompiledKernel:
    layout = gl.NVMMASharedLayout(swizzle_byte_width=128, element_bitwidth=16, rank=2)

    def descriptor(*block: int) -> str:
        return f"tensordesc<fp16[{','.join(map(str, block))}],{layout!r}>"

    return compile_kernel(
        gluon_gemm.gemm_roles,
        {
            "a": descriptor(64, 64),
            "b": descriptor(128, 64),
            "c": descriptor(64, 128),
            "N": "i32",
            "K": "i32",
        },
        {"STAGES": 3},
    )


def test_gemm_roles(settings: Settings) -> None:
    """Gluon: a load warp and a multiplying warpgroup around a ring with full and empty barriers."""
    m, n, k = 128, 128, 320
    rng = np.random.default_rng(8)
    a_bits, a = _f16(rng, (m, k))
    b_bits, b = _f16(rng, (n, k))
    run = launch(
        _compile_roles(),
        {"a": Input(a_bits), "b": Input(b_bits), "c": Output((m, n), np.float16)},
        ["@a", "@b", "@c", np.int32(n), np.int32(k)],
        grid=[_tiles(m, 64) * _tiles(n, 128)],
        settings=settings,
    )
    assert run.result.clean, run.reports()
    _compare(run.arrays["c"], a, b, "fp16")
