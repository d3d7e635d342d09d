"""Times the matrix products of examples/tlx against cuBLAS on one GPU.

    python3 bench/gpu/gemm_ladder.py [--output results.md] [--size 8192] [--commit name]

Compiles each step with nvcc, checks every entry against float64 at sizes that no tile divides and
at the size that is timed, then times steps and torch.matmul in turn in one loop: the clock of a GPU
at its power limit depends on what ran before. Inputs are normally distributed for all: the power a
product takes, and with it the clock, depends on its numbers. Needs a Hopper GPU, PyTorch and nvcc;
nothing of the built library.
"""

from __future__ import annotations

import argparse
import ctypes
import math
import random
import statistics
import subprocess
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import torch
from driver import ROOT, Driver, TensorMap, compile_cubin, event_milliseconds

TILE_ROWS, TILE_COLUMNS = 128, 256
SHARED_BYTES = 227 * 1024
BOX_COLUMNS, OPERAND_BOX_ROWS, OUTPUT_BOX_ROWS = 64, 128, 64


class Step(NamedTuple):
    file: str
    name: str
    threads: int
    maps: bool  # takes tensor maps rather than addresses
    persistent: bool


STEPS = [
    Step("gemm_1_naive", "naive", 256, False, False),
    Step("gemm_2_tma", "TMA", 256, True, False),
    Step("gemm_3_specialised", "warp-specialised", 384, True, False),
    Step("gemm_4_persistent", "persistent", 384, True, True),
]


def plain_map(driver: Driver, tensor: torch.Tensor, box_rows: int) -> TensorMap:
    """A map of a row-major matrix."""
    rows, columns = tensor.shape
    return driver.encode(tensor, (columns, rows), (columns * 2,), (BOX_COLUMNS, box_rows))


def compile_step(step: Step) -> bytes:
    return compile_cubin(ROOT / "examples" / "tlx" / f"{step.file}.cu")


class Launch:
    """One step on one problem: out[M, N] = a[M, K] · b[N, K]ᵀ."""

    def __init__(
        self,
        driver: Driver,
        kernel: ctypes.c_void_p,
        step: Step,
        a: torch.Tensor,
        b: torch.Tensor,
        out: torch.Tensor,
    ) -> None:
        (m, k), n = a.shape, b.shape[0]
        self._driver, self._kernel, self._threads = driver, kernel, step.threads
        arguments: list[ctypes.Structure | ctypes._SimpleCData[int]] = []
        if step.maps:
            arguments += [
                plain_map(driver, a, OPERAND_BOX_ROWS),
                plain_map(driver, b, OPERAND_BOX_ROWS),
            ]
            arguments.append(plain_map(driver, out, OUTPUT_BOX_ROWS))
        else:
            arguments += [ctypes.c_uint64(tensor.data_ptr()) for tensor in (a, b, out)]
        sizes = (m, n, k) if step.persistent or not step.maps else (k,)
        self._arguments = [*arguments, *map(ctypes.c_uint32, sizes)]
        self._pointers = (ctypes.c_void_p * len(self._arguments))(
            *map(ctypes.addressof, self._arguments)
        )
        self._grid = (math.ceil(m / TILE_ROWS), math.ceil(n / TILE_COLUMNS))
        if step.persistent:
            processors = torch.cuda.get_device_properties(0).multi_processor_count
            self._grid = (processors // 2 * 2, 1)

    def __call__(self) -> None:
        stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
        size = (*self._grid, 1, self._threads, 1, 1, SHARED_BYTES, stream)
        self._driver.call("cuLaunchKernel", self._kernel, *size, self._pointers, None)


def random_matrix(rows: int, columns: int) -> torch.Tensor:
    return torch.randn(rows, columns, device="cuda", dtype=torch.bfloat16)


def check(driver: Driver, kernel: ctypes.c_void_p, step: Step, m: int, n: int, k: int) -> None:
    a, b = random_matrix(m, k), random_matrix(n, k)
    storage = torch.full((m + 1, n), math.nan, device="cuda", dtype=torch.bfloat16)
    Launch(driver, kernel, step, a, b, storage[:m])()
    worst, error, norm = 0.0, 0.0, 0.0
    for first in range(0, m, 1024):
        expected = a[first : first + 1024].double() @ b.double().T
        difference = (storage[:m][first : first + 1024].double() - expected).abs()
        if difference.isnan().any():
            raise AssertionError(f"{step.name} at {m} x {n} x {k}: NaN in the result")
        # Half a unit of bfloat16, and float32 sums of k terms of size 1.
        excess = difference - expected.abs() / 256 - 1e-6 * k
        worst = max(worst, float(excess.max()))
        error += float(difference.square().sum())
        norm += float(expected.square().sum())
    relative = math.sqrt(error / norm)
    print(f"{step.name:17} {m} x {n} x {k}: relative error {relative:.1e}", flush=True)
    if worst > 0 or relative > 2.5e-3:
        raise AssertionError(f"{step.name} at {m} x {n} x {k} is outside the accuracy of bfloat16")
    if not storage[m].isnan().all():
        raise AssertionError(f"{step.name} at {m} x {n} x {k} wrote behind the last row")


def milliseconds(calls: dict[str, Callable[[], object]], rounds: int) -> dict[str, float]:
    """Median time of each, all in turn, in a new order every round."""
    times: dict[str, list[float]] = {name: [] for name in calls}
    for call in calls.values():
        call()
    for _ in range(rounds):
        for name, call in random.sample(list(calls.items()), len(calls)):
            times[name].append(event_milliseconds(call))
    return {name: statistics.median(values) for name, values in times.items()}


def device_line() -> str:
    query = "name,driver_version,power.limit,clocks.max.sm,clocks.sm,power.draw"
    smi = ["nvidia-smi", "--id=0", f"--query-gpu={query}", "--format=csv,noheader"]
    values = subprocess.run(smi, check=True, capture_output=True, text=True).stdout.split(", ")
    name, version, limit, highest, clock, power = (value.strip() for value in values)
    return (
        f"{name}, driver {version}, limit {limit}, highest clock {highest}; "
        f"{clock} and {power} right after the last product."
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--output", type=Path, help="write the table there as Markdown")
    parser.add_argument("--size", type=int, default=8192, help="M = N = K")
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--commit", default="the commit that brings this file")
    options = parser.parse_args()

    driver = Driver()
    with ThreadPoolExecutor() as pool:
        cubins = list(pool.map(compile_step, STEPS))
    kernels = [driver.load(cubin, SHARED_BYTES) for cubin in cubins]
    for kernel, step in zip(kernels, STEPS, strict=True):
        for m, n, k in [(1000, 776, 520), (64, 8, 8), (3000, 2056, 1096)]:
            check(driver, kernel, step, m, n, k)
        check(driver, kernel, step, options.size, options.size, options.size)

    size = options.size
    a, b = random_matrix(size, size), random_matrix(size, size)
    out = torch.empty(size, size, device="cuda", dtype=torch.bfloat16)
    calls: dict[str, Callable[[], object]] = {
        step.name: Launch(driver, kernel, step, a, b, out)
        for kernel, step in zip(kernels, STEPS, strict=True)
    }
    calls["cuBLAS"] = lambda: torch.matmul(a, b.T, out=out)
    # The naive step leaves the GPU cool: it is timed apart from those that are compared closely.
    naive = {STEPS[0].name: calls.pop(STEPS[0].name)}
    times = milliseconds(naive, 5) | milliseconds(calls, options.rounds)
    device = device_line()
    lines = [
        "| step | ms | TFLOP/s | % of cuBLAS |",
        "|---|---|---|---|",
        *(
            f"| {name} | {time:.3f} | {2 * size**3 / time / 1e9:.0f} "
            f"| {100 * times['cuBLAS'] / time:.0f} |"
            for name, time in times.items()
        ),
    ]
    report = f"""# The matrix products of examples/tlx on one GPU

C = A · Bᵀ, M = N = K = {size}, bfloat16 with float32 accumulation, normally distributed inputs.
{device} PyTorch {torch.__version__}; {options.commit}.
Command: `python3 bench/gpu/gemm_ladder.py`. Medians of {options.rounds} rounds in which all but the
naive step run in turn, in random order.

""" + "\n".join(lines)
    print(report)
    if options.output:
        options.output.write_text(report + "\n")


if __name__ == "__main__":
    main()
