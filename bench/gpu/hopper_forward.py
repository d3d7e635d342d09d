"""Times the Hopper forward kernel against PyTorch's variable-length attention on one GPU.

    python3 bench/gpu/hopper_forward.py [--check] [--output results.md] [workload ...]

Compiles one instance from kernels/ with nvcc, checks it against float64, and prints a row a
workload: our time, the time of FlashAttention-2 (PyTorch's) in this run, how we stand to
FlashAttention-3 (through the ratio of the two measured once on an H200, see ANCHORS), and the share
of the floor. Needs a Hopper GPU, PyTorch 2.11 or newer and nvcc; nothing of the built library.
"""

from __future__ import annotations

import argparse
import ctypes
import math
import random
import statistics
import subprocess
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
from torch.nn.attention.varlen import varlen_attn

ROOT = Path(__file__).resolve().parents[2]
WORKLOADS = ROOT / "bench" / "workloads"

# One H200, bf16, D = 128, no mask: floor, FlashAttention-2 and FlashAttention-3 in ms, the two in
# one run. Floor: the larger of bytes (each input read once, each output written once) at 4.3 TB/s
# and valid FLOPs at 790 TFLOP/s.
ANCHORS: dict[str, tuple[float, float, float]] = {
    "full_256": (0.282, 0.662, 0.531),
    "half_256": (0.143, 0.485, 0.374),
    "full_512": (0.783, 1.951, 1.281),
    "half_512": (0.285, 0.991, 0.688),
    "full_1024": (3.132, 7.466, 4.724),
    "half_1024": (1.064, 2.938, 1.836),
    "full_2048": (12.526, 28.600, 18.064),
    "half_2048": (4.253, 11.239, 6.543),
    "sparse_2048": (0.226, 0.788, 0.537),
    "movies_200": (0.100, 0.332, 0.292),
    "movies_1000": (0.216, 0.867, 0.536),
    "movies_4096": (0.488, 1.507, 0.816),
    "reviews": (0.094, 0.950, 1.016),
    "zipf_4096": (10.792, 24.349, 14.131),
    "one_long": (0.697, 2.422, 0.983),
    "half_empty": (2.059, 5.038, 3.088),
    "llm_4k": (0.696, 1.607, 0.878),
    "llm_16k": (5.567, 12.364, 6.057),
}

DIM, KEYS, STAGES, ROWS, THREADS = 128, 128, 2, 128, 384
SHARED_BYTES = 2 * ROWS * DIM * 2 + 2 * STAGES * KEYS * DIM * 2 + ROWS * DIM * 2 + 1024
RAGGED_EXTENT = 1 << 30

INSTANCE = """
#include "attention/sm90/forward.cu"
using namespace jfa::kernels;
using namespace jfa::kernels::sm90;
template __global__ void jfa::kernels::sm90::forward<
    ForwardConfig<jfa::tlx::bf16, {dim}, {dim}, {keys}, {stages}, Activation::softmax, false>>(
    const __grid_constant__ ForwardParameters, const __grid_constant__ TensorMap,
    const __grid_constant__ TensorMap, const __grid_constant__ TensorMap,
    const __grid_constant__ TensorMap);
"""


class Parameters(ctypes.Structure):
    """ForwardParameters of kernels/attention/sm90/forward.h."""

    _fields_ = (
        ("tiles", ctypes.c_void_p),
        ("tile_count", ctypes.c_void_p),
        ("counters", ctypes.c_void_p),
        ("heads", ctypes.c_int),
        ("heads_per_section", ctypes.c_int),
        ("heads_per_kv_head", ctypes.c_int),
        ("q_offsets", ctypes.c_void_p),
        ("kv_offsets", ctypes.c_void_p),
        ("lse", ctypes.c_void_p),
        ("lse_rows", ctypes.c_longlong),
        ("scale", ctypes.c_float),
        ("out_scale", ctypes.c_float),
        ("leaky_slope", ctypes.c_float),
    )


class TensorMap(ctypes.Structure):
    _fields_ = (("opaque", ctypes.c_uint64 * 16),)


class Driver:
    def __init__(self) -> None:
        torch.zeros(1, device="cuda")  # makes the context current
        self._library = ctypes.CDLL("libcuda.so.1")

    def call(self, name: str, *arguments: object) -> None:
        status = getattr(self._library, name)(*arguments)
        if status:
            text = ctypes.c_char_p()
            self._library.cuGetErrorString(status, ctypes.byref(text))
            raise RuntimeError(f"{name}: {text.value.decode() if text.value else status}")

    def ragged_map(self, tensor: torch.Tensor, rows: int) -> TensorMap:
        """A map of [rows, heads, dim] whose row coordinate clips at any row (kernels/tlx/tma.h)."""
        row = tensor.stride(0) * 2
        extents = (ctypes.c_uint64 * 5)(DIM, RAGGED_EXTENT, tensor.shape[1], 1 << 31, 1 << 31)
        head = max(tensor.stride(1) * 2, 16)
        strides = (ctypes.c_uint64 * 4)(row, head, (1 << 35) - row, row)
        box = (ctypes.c_uint32 * 5)(64, rows, 1, 1, 1)
        steps = (ctypes.c_uint32 * 5)(1, 1, 1, 1, 1)
        storage = ctypes.create_string_buffer(192)
        aligned = (ctypes.addressof(storage) + 63) // 64 * 64
        bf16, swizzle_128, l2_128 = 9, 3, 2
        self.call(
            "cuTensorMapEncodeTiled",
            ctypes.c_void_p(aligned),
            bf16,
            5,
            ctypes.c_void_p(tensor.data_ptr()),
            extents,
            strides,
            box,
            steps,
            0,
            swizzle_128,
            l2_128,
            0,
        )
        result = TensorMap()
        ctypes.memmove(ctypes.byref(result), aligned, 128)
        return result


def compile_kernel(folder: Path) -> Path:
    source = folder / "forward.cu"
    source.write_text(INSTANCE.format(dim=DIM, keys=KEYS, stages=STAGES))
    cubin = folder / "forward.cubin"
    subprocess.run(
        [
            "nvcc",
            "-gencode=arch=compute_90a,code=sm_90a",
            "-std=c++20",
            "-O3",
            "-lineinfo",
            "-cubin",
            f"-I{ROOT / 'kernels'}",
            "-o",
            str(cubin),
            str(source),
        ],
        check=True,
    )
    return cubin


def plan(lengths: npt.NDArray[np.int64]) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int32]]:
    """Tiles (kernels/attention/work.h), longest first, and offsets; short neighbours share one."""
    packed_length, packed_sequences = 64, 31
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    tiles: list[tuple[int, ...]] = []
    sequence = 0
    while sequence < len(lengths):
        length, first = int(lengths[sequence]), int(offsets[sequence])
        end = sequence + 1
        if 0 < length <= packed_length:
            rows = length
            while (
                end < len(lengths)
                and end - sequence < packed_sequences
                and lengths[end] <= packed_length
                and rows + lengths[end] <= ROWS
            ):
                rows += int(lengths[end])
                end += 1
            full = length if end == sequence + 1 else 0
            tiles.append(
                (first, rows, first, 0, rows, sequence, end - sequence, 0, length, length, 0, full)
            )
        else:
            for row in range(0, length, ROWS):
                rows = min(ROWS, length - row)
                tiles.append(
                    (
                        first + row,
                        rows,
                        first,
                        0,
                        length,
                        sequence,
                        1,
                        row,
                        length,
                        length,
                        0,
                        length,
                    )
                )
        sequence = end
    table = np.array(tiles, dtype=np.int32).reshape(-1, 12)
    return table[np.argsort(-table[:, 4] * 1000 - table[:, 1], kind="stable")], offsets.astype(
        np.int32
    )


def heads_per_section(heads: int, longest: int) -> int:
    """As many heads as keep the keys and values of a sequence within 16 MB of L2."""
    share = max(1, min(heads, int(16e6 / (longest * DIM * 4))))
    while heads % share:
        share -= 1
    return share


class Forward:
    """One prepared launch."""

    def __init__(
        self,
        driver: Driver,
        kernel: ctypes.c_void_p,
        lengths: npt.NDArray[np.int64],
        heads: int,
        slack: int = 0,
    ) -> None:
        table, offsets = plan(lengths)
        self.total = int(offsets[-1])
        self.q, self.k, self.v = (
            torch.randn(self.total + slack, heads, DIM, device="cuda", dtype=torch.bfloat16)
            for _ in range(3)
        )
        for tensor in (self.q, self.k, self.v):
            tensor[self.total :] = math.nan
        self.out = torch.full_like(self.q, math.nan)
        self.lse = torch.full((heads, self.total), math.nan, device="cuda")
        self.offsets = torch.tensor(offsets, device="cuda")
        self._tiles = torch.tensor(table, device="cuda")
        self._count = torch.tensor([len(table)], dtype=torch.int32, device="cuda")
        self._counters = torch.zeros(2, dtype=torch.int32, device="cuda")
        self._driver, self._kernel = driver, kernel
        self._multiprocessors = torch.cuda.get_device_properties(0).multi_processor_count
        section = heads_per_section(heads, int(lengths.max(initial=1)))
        self._arguments = (
            Parameters(
                self._tiles.data_ptr(),
                self._count.data_ptr(),
                self._counters.data_ptr(),
                heads,
                section,
                1,
                self.offsets.data_ptr(),
                self.offsets.data_ptr(),
                self.lse.data_ptr(),
                self.total,
                math.log2(math.e) / math.sqrt(DIM),
                1.0,
                0.0,
            ),
            driver.ragged_map(self.q, ROWS),
            driver.ragged_map(self.k, KEYS),
            driver.ragged_map(self.v, KEYS),
            driver.ragged_map(self.out, 64),
        )
        self._pointers = (ctypes.c_void_p * len(self._arguments))(
            *(ctypes.addressof(argument) for argument in self._arguments)
        )

    def __call__(self) -> None:
        stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
        self._driver.call(
            "cuLaunchKernel",
            self._kernel,
            self._multiprocessors,
            1,
            1,
            THREADS,
            1,
            1,
            SHARED_BYTES,
            stream,
            self._pointers,
            None,
        )


def worst_error(
    forward: Forward, lengths: npt.NDArray[np.int64], sample: int = 100
) -> tuple[float, float]:
    """Largest relative error of a sequence's output, absolute error of its log-sum-exp."""
    forward()
    torch.cuda.synchronize()
    offsets = forward.offsets.tolist()
    chosen = (
        range(len(lengths))
        if len(lengths) <= sample
        else random.Random(1).sample(range(len(lengths)), sample)
    )
    worst, worst_lse = 0.0, 0.0
    for sequence in chosen:
        begin, end = offsets[sequence], offsets[sequence + 1]
        if begin == end:
            continue
        q, k, v, out = (
            tensor[begin:end].double().transpose(0, 1)
            for tensor in (forward.q, forward.k, forward.v, forward.out)
        )
        scores = q @ k.transpose(1, 2) / math.sqrt(DIM)
        expected = scores.softmax(-1) @ v
        worst = max(worst, float((out - expected).norm() / expected.norm()))
        worst_lse = max(
            worst_lse,
            float((forward.lse[:, begin:end].double() - scores.logsumexp(-1)).abs().max()),
        )
    if not torch.isnan(forward.out[forward.total :]).all():
        raise AssertionError("rows behind the last sequence were written")
    return worst, worst_lse


def milliseconds(call: Callable[[], object], repetitions: int = 15) -> float:
    """Median time of one call, after a warm-up."""
    times = []
    for repetition in range(repetitions + 3):
        begin, end = (
            torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
            for _ in range(2)
        )
        begin.record()
        call()
        end.record()
        torch.cuda.synchronize()
        if repetition >= 3:
            times.append(begin.elapsed_time(end))
    return float(statistics.median(times))


def flash_attention_2(f: Forward, longest: int) -> object:
    return varlen_attn(f.q, f.k, f.v, f.offsets, f.offsets, longest, longest)


def check(driver: Driver, kernel: ctypes.c_void_p) -> None:
    generator = np.random.default_rng()
    batches = [
        np.array([17]),
        np.array([128]),
        np.array([513, 129, 1, 64, 65, 700]),
        generator.integers(0, 60, 300),
        generator.integers(0, 900, 100),
        generator.integers(0, 130, 3000),
    ]
    for lengths in batches:
        error, lse_error = worst_error(Forward(driver, kernel, lengths, heads=4, slack=64), lengths)
        print(
            f"batch {len(lengths):5} longest {lengths.max():4}:"
            f" error {error:.1e}, log-sum-exp {lse_error:.1e}",
            flush=True,
        )
        if not (error < 5e-3 and lse_error < 1e-4):
            raise AssertionError("outside the contract's accuracy")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "workloads", nargs="*", metavar="workload", help=f"of {', '.join(ANCHORS)}; default all"
    )
    parser.add_argument("--check", action="store_true", help="compare with float64 first")
    parser.add_argument("--output", type=Path, help="write the table there as Markdown")
    options = parser.parse_args()
    unknown = sorted(set(options.workloads) - set(ANCHORS))
    if unknown:
        parser.error(f"unknown workload {', '.join(unknown)}; known are {', '.join(ANCHORS)}")

    driver = Driver()
    module, kernel = ctypes.c_void_p(), (ctypes.c_void_p * 1)()
    with tempfile.TemporaryDirectory() as folder:
        driver.call(
            "cuModuleLoad", ctypes.byref(module), str(compile_kernel(Path(folder))).encode()
        )
    driver.call("cuModuleEnumerateFunctions", kernel, 1, module)
    function = ctypes.c_void_p(kernel[0])
    max_dynamic_shared_bytes = 8
    driver.call("cuFuncSetAttribute", function, max_dynamic_shared_bytes, SHARED_BYTES)
    if options.check:
        check(driver, function)

    lines = [
        "| workload | floor ms | ours ms | FA2 ms | ours / FA2 | FA3 / ours | % of floor |",
        "|---|---|---|---|---|---|---|",
    ]
    for name in options.workloads or ANCHORS:
        lengths = np.array([int(line) for line in (WORKLOADS / f"{name}.txt").read_text().split()])
        forward = Forward(driver, function, lengths, heads=16 if name.startswith("llm") else 4)
        longest = int(lengths.max())
        ours = milliseconds(forward)
        fa2 = milliseconds(partial(flash_attention_2, forward, longest), 7)
        floor, anchor_fa2, anchor_fa3 = ANCHORS[name]
        fa3 = fa2 * anchor_fa3 / anchor_fa2
        lines.append(
            f"| {name} | {floor:.3f} | {ours:.3f} | {fa2:.3f} | {ours / fa2:.2f} "
            f"| {fa3 / ours:.2f} | {100 * floor / ours:.0f} |"
        )
        print(lines[-1], flush=True)
    print("\n".join(lines))
    if options.output:
        options.output.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
