"""Flash attention, forward and backward, dense and jagged, against NumPy in float64."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest
from compiler import CompiledKernel, compile_kernel
from emulated import Input, Output
from formats import from_bf16, to_bf16
from kernels import attention
from launcher import launch
from numpy.typing import NDArray
from ptxemu import Settings

F32 = np.float32
LOG2E = 1.4426950408889634
#: Relative error of one rounding to the element type.
BF16, F16 = 2.0**-8, 2.0**-11
Values = NDArray[Any]


def _softmax(scores: Values, causal: bool) -> tuple[Values, Values]:
    """Probabilities and base-2 log-sum-exp of one head's scores (natural units)."""
    if causal:
        row, column = np.indices(scores.shape)
        scores = np.where(row >= column, scores, -np.inf)
    top = scores.max(axis=1, keepdims=True)
    p = np.exp(scores - top)
    total = p.sum(axis=1, keepdims=True)
    return p / total, ((top + np.log(total)) * LOG2E)[:, 0]


def _assert_close(got: Values, expected: Values, rounding: float) -> None:
    """Relative Frobenius error within two roundings of the element type, worst element in eight.

    P is rounded to the element type once, the result once more; both errors are relative to values
    of the size of V.
    """
    error = got.astype(np.float64) - expected
    scale = np.linalg.norm(expected)
    assert np.linalg.norm(error) <= 2 * rounding * scale
    assert np.abs(error).max() <= 8 * rounding * np.abs(expected).max()


@cache
def _compile_forward(
    d: int, bm: int, bn: int, causal: bool, warps: int, stages: int
) -> CompiledKernel:
    def descriptor(rows: int) -> str:
        return f"tensordesc<bf16[{rows},{d}]>"

    return compile_kernel(
        attention.attention_forward,
        {
            "q": descriptor(bm),
            "k": descriptor(bn),
            "v": descriptor(bn),
            "out": descriptor(bm),
            "lse": "*fp32",
            "length": "i32",
            "scale_log2": "fp32",
        },
        {"D": d, "BM": bm, "BN": bn, "CAUSAL": causal},
        warps=warps,
        stages=stages,
    )


@pytest.mark.parametrize(
    ("d", "bm", "bn", "causal", "warps", "stages"),
    [
        pytest.param(64, 128, 64, False, 4, 3, id="d64"),
        pytest.param(64, 128, 64, True, 4, 3, id="d64_causal"),
        pytest.param(128, 128, 128, True, 8, 2, id="d128_causal_8_warps"),
    ],
)
def test_attention_forward(
    d: int, bm: int, bn: int, causal: bool, warps: int, stages: int, settings: Settings
) -> None:
    heads, length = 2, 256
    rng = np.random.default_rng(11)
    q, k, v = (to_bf16(rng.standard_normal((heads * length, d)).astype(F32)) for _ in range(3))
    scale = d**-0.5
    run = launch(
        _compile_forward(d, bm, bn, causal, warps, stages),
        {
            "q": Input(q),
            "k": Input(k),
            "v": Input(v),
            "out": Output((heads * length, d), np.uint16),
            "lse": Output((heads, length), F32),
        },
        ["@q", "@k", "@v", "@out", "lse", np.int32(length), F32(scale * LOG2E)],
        grid=[length // bm, heads],
        settings=settings,
    )
    assert run.result.clean, run.reports()
    wide = [from_bf16(x).astype(np.float64).reshape(heads, length, d) for x in (q, k, v)]
    for head in range(heads):
        p, lse = _softmax(wide[0][head] @ wide[1][head].T * scale, causal)
        got = from_bf16(run.arrays["out"]).reshape(heads, length, d)[head]
        _assert_close(got, p @ wide[2][head], BF16)
        np.testing.assert_allclose(run.arrays["lse"][head], lse, atol=1e-4)


BACKWARD = {
    "q": "*fp16",
    "k": "*fp16",
    "v": "*fp16",
    "dout": "*fp16",
    "lse": "*fp32",
    "delta": "*fp32",
    "length": "i32",
    "scale": "fp32",
    "scale_log2": "fp32",
}


@cache
def _compile_backward(name: str, causal: bool) -> CompiledKernel:
    gradients = {"attention_backward_keys": ["dk", "dv"], "attention_backward_queries": ["dq"]}
    signature = dict(BACKWARD) | dict.fromkeys(gradients[name], "*fp32")
    constants = {"D": 64, "BM": 64, "BN": 64, "CAUSAL": causal}
    return compile_kernel(getattr(attention, name), signature, constants, stages=2)


@pytest.mark.parametrize("causal", [False, True], ids=["full", "causal"])
def test_attention_backward(causal: bool, settings: Settings) -> None:
    heads, length, d = 2, 128, 64
    scale = d**-0.5
    rng = np.random.default_rng(12)
    q, k, v, dout = rng.standard_normal((4, heads, length, d)).astype(np.float16)
    wide = [x.astype(np.float64) for x in (q, k, v, dout)]
    expected: dict[str, list[Values]] = {"dq": [], "dk": [], "dv": []}
    lse, delta = np.empty((2, heads, length), F32)
    for head in range(heads):
        qh, kh, vh, dh = (x[head] for x in wide)
        p, lse[head] = _softmax(qh @ kh.T * scale, causal)
        dp = dh @ vh.T
        row_delta = (p * dp).sum(axis=1, keepdims=True)
        delta[head] = row_delta[:, 0]
        ds = p * (dp - row_delta) * scale
        expected["dq"].append(ds @ kh)
        expected["dk"].append(ds.T @ qh)
        expected["dv"].append(p.T @ dh)
    inputs = {"q": q, "k": k, "v": v, "dout": dout, "lse": lse, "delta": delta}
    scalars = [np.int32(length), F32(scale), F32(scale * LOG2E)]
    for name, gradients in [
        ("attention_backward_keys", ["dk", "dv"]),
        ("attention_backward_queries", ["dq"]),
    ]:
        run = launch(
            _compile_backward(name, causal),
            {key: Input(value) for key, value in inputs.items()}
            | {gradient: Output((heads, length, d), F32) for gradient in gradients},
            [*inputs, *gradients, *scalars],
            grid=[length // 64, heads],
            settings=settings,
        )
        assert run.result.clean, run.reports()
        for gradient in gradients:
            _assert_close(run.arrays[gradient], np.stack(expected[gradient]), F16)


@cache
def _compile_jagged() -> CompiledKernel:
    return compile_kernel(
        attention.jagged_attention_forward,
        {
            "q": "*bf16",
            "k": "*bf16",
            "v": "*bf16",
            "offsets": "*i32",
            "out": "*bf16",
            "heads": "i32",
            "scale_log2": "fp32",
        },
        {"D": 64, "BM": 64, "BN": 64},
        stages=2,
    )


def test_jagged_attention_forward(settings: Settings) -> None:
    heads, d = 2, 64
    lengths = [70, 0, 1, 128]
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    total = int(offsets[-1])
    scale = d**-0.5
    rng = np.random.default_rng(13)
    q, k, v = (to_bf16(rng.standard_normal((total, heads, d)).astype(F32)) for _ in range(3))
    run = launch(
        _compile_jagged(),
        {
            "q": Input(q),
            "k": Input(k),
            "v": Input(v),
            "offsets": Input(offsets),
            "out": Output((total, heads, d), np.uint16),
        },
        ["q", "k", "v", "offsets", "out", np.int32(heads), F32(scale * LOG2E)],
        grid=[2, len(lengths), heads],
        settings=settings,
    )
    assert run.result.clean, run.reports()
    wide = [from_bf16(x).astype(np.float64) for x in (q, k, v)]
    got = from_bf16(run.arrays["out"])
    for sequence, length in enumerate(lengths):
        rows = slice(offsets[sequence], offsets[sequence] + length)
        for head in range(heads if length else 0):
            p, _ = _softmax(wide[0][rows, head] @ wide[1][rows, head].T * scale, causal=True)
            _assert_close(got[rows, head], p @ wide[2][rows, head], BF16)
