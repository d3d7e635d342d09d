"""Element-wise, row-wise and atomic kernels against NumPy."""

from __future__ import annotations

from functools import cache

import numpy as np
from compiler import CompiledKernel, compile_kernel
from emulated import Input, Output
from formats import from_bf16, to_bf16
from kernels import pointwise
from launcher import launch
from ptxemu import Settings

F32 = np.float32
#: Relative error of one float32 operation.
ULP = 2.0**-23


@cache
def _compile(name: str, constants: tuple[tuple[str, int], ...], **signature: str) -> CompiledKernel:
    return compile_kernel(getattr(pointwise, name), signature, dict(constants))


def _compiled(name: str, constants: dict[str, int], **signature: str) -> CompiledKernel:
    return _compile(name, tuple(constants.items()), **signature)


def _rng() -> np.random.Generator:
    return np.random.default_rng(7)


def test_vector_add(settings: Settings) -> None:
    kernel = _compiled("vector_add", {"BLOCK": 1024}, x="*fp32", y="*fp32", out="*fp32", n="i32")
    n = 2500
    x, y = _rng().standard_normal((2, n)).astype(F32)
    run = launch(
        kernel,
        {"x": Input(x), "y": Input(y), "out": Output((n,), F32)},
        ["x", "y", "out", np.int32(n)],
        grid=[3],
        settings=settings,
    )
    assert run.result.clean, run.reports()
    np.testing.assert_array_equal(run.arrays["out"], x + y)


def test_gated_silu(settings: Settings) -> None:
    kernel = _compiled("gated_silu", {"BLOCK": 512}, gate="*bf16", up="*bf16", out="*bf16", n="i32")
    n = 1200
    gate, up = (to_bf16(v) for v in _rng().standard_normal((2, n)).astype(F32) * 2)
    run = launch(
        kernel,
        {"gate": Input(gate), "up": Input(up), "out": Output((n,), np.uint16)},
        ["gate", "up", "out", np.int32(n)],
        grid=[3],
        settings=settings,
    )
    assert run.result.clean, run.reports()
    g, u = from_bf16(gate).astype(np.float64), from_bf16(up).astype(np.float64)
    # One rounding to bf16 (2^-8 relative) and a few approximate float32 operations before it.
    np.testing.assert_allclose(
        from_bf16(run.arrays["out"]), g / (1 + np.exp(-g)) * u, rtol=2.0**-8 + 16 * ULP, atol=1e-30
    )


def test_softmax_rows(settings: Settings) -> None:
    kernel = _compiled(
        "softmax_rows", {"BLOCK": 1024}, x="*fp32", out="*fp32", columns="i32", stride="i32"
    )
    rows, columns = 3, 777
    x = _rng().standard_normal((rows, columns)).astype(F32) * 3
    run = launch(
        kernel,
        {"x": Input(x), "out": Output((rows, columns), F32)},
        ["x", "out", np.int32(columns), np.int32(columns)],
        grid=[rows],
        settings=settings,
    )
    assert run.result.clean, run.reports()
    p = np.exp(x.astype(np.float64) - x.max(axis=1, keepdims=True))
    # exp(x) = ex2(x log2 e): rounding the argument costs |x| ulp, sum and quotient a few more.
    np.testing.assert_allclose(
        run.arrays["out"], p / p.sum(axis=1, keepdims=True), rtol=64 * ULP, atol=1e-30
    )


def test_layer_norm(settings: Settings) -> None:
    kernel = _compiled(
        "layer_norm",
        {"BLOCK": 512},
        x="*fp16",
        weight="*fp32",
        bias="*fp32",
        out="*fp16",
        mean_out="*fp32",
        rstd_out="*fp32",
        columns="i32",
        eps="fp32",
    )
    rows, columns = 4, 300
    rng = _rng()
    x = rng.standard_normal((rows, columns)).astype(np.float16)
    weight, bias = rng.standard_normal((2, columns)).astype(F32)
    run = launch(
        kernel,
        {
            "x": Input(x),
            "weight": Input(weight),
            "bias": Input(bias),
            "out": Output((rows, columns), np.float16),
            "mean": Output((rows,), F32),
            "rstd": Output((rows,), F32),
        },
        ["x", "weight", "bias", "out", "mean", "rstd", np.int32(columns), F32(1e-5)],
        grid=[rows],
        settings=settings,
    )
    assert run.result.clean, run.reports()
    wide = x.astype(np.float64)
    mean = wide.mean(axis=1)
    rstd = 1 / np.sqrt(wide.var(axis=1) + 1e-5)
    np.testing.assert_allclose(run.arrays["mean"], mean, atol=32 * ULP)
    np.testing.assert_allclose(run.arrays["rstd"], rstd, rtol=32 * ULP)
    expected = (wide - mean[:, None]) * rstd[:, None] * weight + bias
    np.testing.assert_allclose(
        run.arrays["out"].astype(np.float64), expected, rtol=2.0**-11 + 64 * ULP, atol=1e-5
    )


def test_layer_norm_weight_gradient(settings: Settings) -> None:
    """Programs add to one array under a spin lock: needs forward progress and release/acquire."""
    kernel = _compiled(
        "layer_norm_weight_gradient",
        {"ROWS": 16, "BLOCK": 128},
        x="*fp16",
        dy="*fp16",
        mean="*fp32",
        rstd="*fp32",
        lock="*i32",
        dw="*fp32",
        rows="i32",
        columns="i32",
    )
    rows, columns = 40, 100
    rng = _rng()
    x, dy = rng.standard_normal((2, rows, columns)).astype(np.float16)
    mean = rng.standard_normal(rows).astype(F32)
    rstd = rng.uniform(0.5, 2, rows).astype(F32)
    run = launch(
        kernel,
        {
            "x": Input(x),
            "dy": Input(dy),
            "mean": Input(mean),
            "rstd": Input(rstd),
            "lock": Input(np.zeros(1, np.int32), writable=True),
            "dw": Input(np.zeros(columns, F32), writable=True),
        },
        ["x", "dy", "mean", "rstd", "lock", "dw", np.int32(rows), np.int32(columns)],
        grid=[3],
        settings=settings,
    )
    assert run.result.clean, run.reports()
    terms = dy.astype(np.float64) * (x - mean[:, None].astype(np.float64)) * rstd[:, None]
    np.testing.assert_allclose(
        run.arrays["dw"], terms.sum(axis=0), atol=rows * ULP * np.abs(terms).sum(axis=0).max()
    )


def test_column_sum_atomic(settings: Settings) -> None:
    kernel = _compiled(
        "column_sum_atomic",
        {"ROWS": 32, "COLUMNS": 64},
        x="*fp32",
        out="*fp32",
        rows="i32",
        columns="i32",
    )
    rows, columns = 70, 100
    x = _rng().standard_normal((rows, columns)).astype(F32)
    run = launch(
        kernel,
        {"x": Input(x), "out": Input(np.zeros(columns, F32), writable=True)},
        ["x", "out", np.int32(rows), np.int32(columns)],
        grid=[3, 2],
        settings=settings,
    )
    assert run.result.clean, run.reports()
    np.testing.assert_allclose(
        run.arrays["out"],
        x.astype(np.float64).sum(axis=0),
        atol=rows * ULP * np.abs(x).sum(axis=0).max(),
    )


def test_histogram(settings: Settings) -> None:
    kernel = _compiled("histogram", {"BINS": 64, "BLOCK": 512}, x="*i32", counts="*i32", n="i32")
    n = 1300
    x = _rng().integers(0, 64, n).astype(np.int32)
    run = launch(
        kernel,
        {"x": Input(x), "counts": Input(np.zeros(64, np.int32), writable=True)},
        ["x", "counts", np.int32(n)],
        grid=[3],
        settings=settings,
    )
    assert run.result.clean, run.reports()
    np.testing.assert_array_equal(run.arrays["counts"], np.bincount(x, minlength=64))


def test_scan_rows(settings: Settings) -> None:
    kernel = _compiled(
        "scan_rows", {"BLOCK": 512}, x="*fp32", sums="*fp32", positions="*i32", columns="i32"
    )
    rows, columns = 2, 400
    x = _rng().standard_normal((rows, columns)).astype(F32)
    run = launch(
        kernel,
        {
            "x": Input(x),
            "sums": Output((rows, columns), F32),
            "positions": Output((rows,), np.int32),
        },
        ["x", "sums", "positions", np.int32(columns)],
        grid=[rows],
        settings=settings,
    )
    assert run.result.clean, run.reports()
    np.testing.assert_array_equal(run.arrays["positions"], x.argmax(axis=1))
    np.testing.assert_allclose(
        run.arrays["sums"],
        x.astype(np.float64).cumsum(axis=1),
        atol=columns * ULP * np.abs(x).sum(axis=1).max(),
    )


def test_sort_rows(settings: Settings) -> None:
    kernel = _compiled("sort_rows", {"BLOCK": 256}, x="*i32", out="*i32")
    x = _rng().integers(-(2**31), 2**31 - 1, (2, 256)).astype(np.int32)
    run = launch(
        kernel,
        {"x": Input(x), "out": Output((2, 256), np.int32)},
        ["x", "out"],
        grid=[2],
        settings=settings,
    )
    assert run.result.clean, run.reports()
    np.testing.assert_array_equal(run.arrays["out"], np.sort(x, axis=1))


def test_transpose(settings: Settings) -> None:
    kernel = _compiled(
        "transpose", {"BLOCK": 64}, x="*fp16", out="*fp16", rows="i32", columns="i32"
    )
    x = _rng().standard_normal((100, 70)).astype(np.float16)
    run = launch(
        kernel,
        {"x": Input(x), "out": Output((70, 100), np.float16)},
        ["x", "out", np.int32(100), np.int32(70)],
        grid=[2, 2],
        settings=settings,
    )
    assert run.result.clean, run.reports()
    np.testing.assert_array_equal(run.arrays["out"], x.T)
