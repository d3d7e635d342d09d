"""Times the Hopper forward kernel against PyTorch's variable-length attention on one GPU.

    python3 bench/gpu/hopper_forward.py [--check] [--output results.md] [row ...]

Compiles the instances it needs from kernels/ with nvcc, checks them against float64, and prints a
row each: our time, the time of FlashAttention-2 (PyTorch's) in this run, how we stand to
FlashAttention-3 (through the ratio of the two measured once on an H200, see ROWS), and the share of
the floor. Needs a Hopper GPU, PyTorch 2.11 or newer, nvcc and g++; nothing of the built library.
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
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from driver import ROOT, Driver, TensorMap, compile_cubin, event_milliseconds
from torch.nn.attention.varlen import varlen_attn

WORKLOADS = ROOT / "bench" / "workloads"


class Row(NamedTuple):
    """A workload, and what was once measured for it on an H200, bf16, in ms: the floor (the larger
    of bytes, each input read once and each output written once, at 4.3 TB/s and valid FLOPs at 790
    TFLOP/s), FlashAttention-2 and FlashAttention-3 in one run."""

    lengths: str
    heads: int
    dim: int
    mask: str
    floor: float
    fa2: float
    fa3: float

    @property
    def sequence_lengths(self) -> npt.NDArray[np.int64]:
        text = (WORKLOADS / f"{self.lengths}.txt").read_text()
        return np.array([int(line) for line in text.split()])

    @property
    def kind(self) -> tuple[int, str, bool]:
        """Head dimension, mask, and whether the keys are long on average (forward_shape.h)."""
        return self.dim, self.mask, self.sequence_lengths.mean() >= LONG_KEYS

    @property
    def name(self) -> str:
        name = self.lengths
        if self.dim != 128:
            name += f"_d{self.dim}"
        return name if self.mask == "full" else f"{name}_{self.mask}"


ROWS = [
    Row("full_256", 4, 128, "full", 0.282, 0.662, 0.531),
    Row("half_256", 4, 128, "full", 0.143, 0.485, 0.374),
    Row("full_512", 4, 128, "full", 0.783, 1.951, 1.281),
    Row("half_512", 4, 128, "full", 0.285, 0.991, 0.688),
    Row("full_1024", 4, 128, "full", 3.132, 7.466, 4.724),
    Row("half_1024", 4, 128, "full", 1.064, 2.938, 1.836),
    Row("full_2048", 4, 128, "full", 12.526, 28.600, 18.064),
    Row("half_2048", 4, 128, "full", 4.253, 11.239, 6.543),
    Row("sparse_2048", 4, 128, "full", 0.226, 0.788, 0.537),
    Row("movies_200", 4, 128, "full", 0.100, 0.332, 0.292),
    Row("movies_1000", 4, 128, "full", 0.216, 0.867, 0.536),
    Row("movies_4096", 4, 128, "full", 0.488, 1.507, 0.816),
    Row("reviews", 4, 128, "full", 0.094, 0.950, 1.016),
    Row("zipf_4096", 4, 128, "full", 10.792, 24.349, 14.131),
    Row("one_long", 4, 128, "full", 0.697, 2.422, 0.983),
    Row("half_empty", 4, 128, "full", 2.059, 5.038, 3.088),
    Row("llm_4k", 16, 128, "full", 0.696, 1.607, 0.878),
    Row("llm_16k", 16, 128, "full", 5.567, 12.364, 6.057),
    Row("movies_1000", 4, 128, "causal", 0.167, 0.808, 0.404),
    Row("half_1024", 4, 128, "causal", 0.570, 2.634, 1.292),
    Row("sparse_2048", 4, 128, "causal", 0.226, 1.004, 0.465),
    Row("reviews", 4, 128, "causal", 0.094, 0.909, 0.927),
    Row("llm_4k", 16, 128, "causal", 0.348, 0.966, 0.459),
    Row("llm_16k", 16, 128, "causal", 2.784, 6.587, 3.228),
    Row("movies_1000", 4, 64, "full", 0.108, 0.633, 0.487),
    Row("half_1024", 4, 64, "full", 0.532, 1.918, 1.312),
    Row("llm_4k", 32, 64, "full", 0.696, 2.352, 1.150),
    Row("llm_4k", 32, 64, "causal", 0.348, 1.152, 0.614),
]

ROWS_OF_GROUP, KEY_BLOCK, LONG_KEYS = 64, 128, 1536
RAGGED_EXTENT = 1 << 30

INSTANCE = """
#include "attention/sm90/forward.cu"
using namespace jfa::kernels;
using namespace jfa::kernels::sm90;
template __global__ void jfa::kernels::sm90::forward<
    ForwardConfig<jfa::tlx::bf16, {dim}, {dim}, Activation::softmax, MaskParameters::{mask}, 1,
                  false, {long_keys}>>(
    const __grid_constant__ ForwardArguments, const __grid_constant__ TensorMap,
    const __grid_constant__ TensorMap, const __grid_constant__ TensorMap,
    const __grid_constant__ TensorMap);
"""

SHAPE = """
#include "attention/sm90/forward_shape.h"
#include <cstdio>
int main() {{
  constexpr auto shape = jfa::kernels::sm90::forward_shape({dim}, {dim}, {long_keys});
  std::printf("%d %d %d", shape.keys, shape.groups, forward_shared_bytes(shape));
}}
"""


class MaskArgument(ctypes.Structure):
    _fields_ = (
        ("value", ctypes.c_longlong),
        ("per_sequence", ctypes.c_void_p),
        ("stride", ctypes.c_longlong),
        ("wide", ctypes.c_int),
    )


class MaskArguments(ctypes.Structure):
    """kernels/attention/mask.h."""

    _fields_ = (
        ("bottom_right", ctypes.c_int),
        ("hstu_causal", ctypes.c_int),
        ("parameters", MaskArgument * 10),
        ("intervals", ctypes.c_void_p),
        ("interval_row_stride", ctypes.c_longlong),
        ("interval_stride", ctypes.c_longlong),
        ("interval_bounds", ctypes.c_int),
    )


class Arguments(ctypes.Structure):
    """ForwardArguments of kernels/attention/forward_arguments.h."""

    _fields_ = (
        ("plan", ctypes.c_void_p),
        ("tiles", ctypes.c_void_p),
        ("sequences", ctypes.c_void_p),
        ("gaps", ctypes.c_void_p),
        ("counters", ctypes.c_void_p),
        ("heads", ctypes.c_int),
        ("heads_per_kv_head", ctypes.c_int),
        ("out", ctypes.c_void_p),
        ("out_row_stride", ctypes.c_longlong),
        ("out_head_stride", ctypes.c_longlong),
        ("query_heads", ctypes.c_int),
        ("value_dim", ctypes.c_int),
        ("lse_head_stride", ctypes.c_longlong),
        ("lse", ctypes.c_void_p),
        ("scale", ctypes.c_float),
        ("out_scale", ctypes.c_float),
        ("leaky_slope", ctypes.c_float),
        ("out_scale_per_token", ctypes.c_int),
        ("out_scales", ctypes.c_void_p),
        ("out_scales_stride", ctypes.c_longlong),
        ("mask", MaskArguments),
    )


def ragged_map(driver: Driver, tensor: torch.Tensor, rows: int) -> TensorMap:
    """A map of [rows, heads, dim] whose row coordinate clips at any row (kernels/tlx/tma.h)."""
    row, head = tensor.stride(0) * 2, max(tensor.stride(1) * 2, 16)
    heads, dim = tensor.shape[1:]
    return driver.encode(
        tensor,
        (dim, RAGGED_EXTENT, heads, 1 << 31, 1 << 31),
        (row, head, (1 << 35) - row, row),
        (64, rows, 1, 1, 1),
    )


class Instance:
    """The kernel for one head dimension and mask."""

    def __init__(self, driver: Driver, kernels: Path, dim: int, mask: str, long_keys: bool) -> None:
        self.dim, self.mask, self.driver = dim, mask, driver
        flag = str(long_keys).lower()
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            (folder / "shape.cpp").write_text(SHAPE.format(dim=dim, long_keys=flag))
            (folder / "forward.cu").write_text(INSTANCE.format(dim=dim, mask=mask, long_keys=flag))
            shape = [str(folder / "shape.cpp"), "-o", str(folder / "shape")]
            subprocess.run(["g++", "-std=c++20", f"-I{kernels}", *shape], check=True)
            numbers = subprocess.run([folder / "shape"], check=True, capture_output=True)
            self.keys, self.groups, self.shared_bytes = map(int, numbers.stdout.split())
            self.cubin = compile_cubin(folder / "forward.cu", kernels)

    def load(self) -> None:
        """In the thread that launches: contexts belong to threads."""
        self.kernel = self.driver.load(self.cubin, self.shared_bytes)


def few_long(lengths: npt.NDArray[np.int64], tiles: int) -> bool:
    """Whether tiles are sorted each by itself: src/gpu/plan_launch.cpp."""
    return bool(lengths.mean() >= LONG_KEYS and tiles <= 512)


def key_blocks(tiles: npt.NDArray[np.int32], block: int) -> npt.NDArray[np.int64]:
    """Blocks of the sequence of each tile, or of the sequences that share it."""
    keys = np.where(tiles[:, 11] > 1, tiles[:, 5], tiles[:, 14])
    return -(-keys.astype(np.int64) // block)


def plan(
    lengths: npt.NDArray[np.int64], mask: str, tile: int
) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int32], npt.NDArray[np.int32]]:
    """Tiles (kernels/attention/work.h), longest first; rows of sequences; offsets.

    Short neighbours share a tile.
    """
    packed_length, packed_sequences = 64, 32
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    tiles: list[list[int]] = []
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
                and rows + lengths[end] <= tile
            ):
                rows += int(lengths[end])
                end += 1
            full = length if end == sequence + 1 and mask == "full" else 0
            tiles.append(
                [
                    *(first, first, rows, first, 0, rows, rows, rows, 0, full),
                    *(sequence, end - sequence, 0, length, length, 0),
                ]
            )
        else:
            rows_of_tiles = range(0, length, tile)
            for row in rows_of_tiles if mask == "full" else reversed(rows_of_tiles):
                rows = min(tile, length - row)
                seen = length if mask == "full" else row + rows
                full = length if mask == "full" else row + 1
                tiles.append(
                    [
                        *(first + row, first + row, rows, first, 0, seen, seen, seen, 0, full),
                        *(sequence, 1, row, length, length, 0),
                    ]
                )
        sequence = end
    table = np.array(tiles, dtype=np.int32).reshape(-1, 16)
    zeros = np.zeros_like(lengths)
    sequences = np.stack(
        [offsets[:-1], lengths, offsets[:-1], lengths, offsets[:-1], zeros, zeros, zeros], axis=1
    )
    work = key_blocks(table, KEY_BLOCK)
    if few_long(lengths, len(tiles)):
        work = table[:, 2].astype(np.int64) * (table[:, 5] - table[:, 4])
    order = np.argsort(-work, kind="stable")
    return table[order], sequences.astype(np.int32), offsets.astype(np.int32)


class Forward:
    """One prepared launch."""

    def __init__(
        self, instance: Instance, lengths: npt.NDArray[np.int64], heads: int, slack: int = 0
    ) -> None:
        tiles, sequences, offsets = plan(lengths, instance.mask, instance.groups * ROWS_OF_GROUP)
        self.instance, self.total, self.longest = instance, int(offsets[-1]), int(lengths.max())
        self.q, self.k, self.v = (
            torch.randn(
                self.total + slack, heads, instance.dim, device="cuda", dtype=torch.bfloat16
            )
            for _ in range(3)
        )
        for tensor in (self.q, self.k, self.v):
            tensor[self.total :] = math.nan
        self.out = torch.full_like(self.q, math.nan)
        self.lse = torch.full((heads, self.total), math.nan, device="cuda")
        self.offsets = torch.tensor(offsets, device="cuda")
        blocks = key_blocks(tiles, KEY_BLOCK)
        if few_long(lengths, len(tiles)):
            blocks = tiles[:, 2].astype(np.int64) * (tiles[:, 5] - tiles[:, 4])
        long_tiles = int((2 * blocks >= blocks.max(initial=0)).sum())
        header = torch.tensor([len(tiles), 0, self.longest, long_tiles], dtype=torch.int32)
        self._plan = [
            tensor.cuda()
            for tensor in (
                header,
                torch.tensor(tiles),
                torch.tensor(sequences),
                torch.zeros(4, dtype=torch.int32),
            )
        ]
        self._grid = torch.cuda.get_device_properties(0).multi_processor_count
        arguments = Arguments(
            plan=self._plan[0].data_ptr(),
            tiles=self._plan[1].data_ptr(),
            sequences=self._plan[2].data_ptr(),
            counters=self._plan[3].data_ptr(),
            heads=heads,
            heads_per_kv_head=1,
            query_heads=heads,
            value_dim=instance.dim,
            lse_head_stride=self.total,
            lse=self.lse.data_ptr(),
            scale=math.log2(math.e) / math.sqrt(instance.dim),
            out_scale=1.0,
        )
        arguments.mask.bottom_right = 1
        ragged = partial(ragged_map, instance.driver)
        self._arguments = (
            arguments,
            ragged(self.q, ROWS_OF_GROUP),
            ragged(self.k, instance.keys),
            ragged(self.v, instance.keys),
            ragged(self.out, ROWS_OF_GROUP),
        )
        self._pointers = (ctypes.c_void_p * len(self._arguments))(
            *(ctypes.addressof(argument) for argument in self._arguments)
        )

    def __call__(self) -> None:
        stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
        shared = self.instance.shared_bytes
        threads = 128 * (1 + self.instance.groups)
        size = (self._grid, 1, 1, threads, 1, 1, shared, stream)
        self.instance.driver.call(
            "cuLaunchKernel", self.instance.kernel, *size, self._pointers, None
        )

    def flash_attention_2(self) -> object:
        window = (-1, -1) if self.instance.mask == "full" else (-1, 0)
        return varlen_attn(
            *(self.q, self.k, self.v, self.offsets, self.offsets, self.longest, self.longest),
            window_size=window,
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
        scores = q @ k.transpose(1, 2) / math.sqrt(forward.instance.dim)
        if forward.instance.mask == "causal":
            hidden = torch.ones(scores.shape[1:], dtype=torch.bool, device="cuda").triu(1)
            scores.masked_fill_(hidden, -math.inf)
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
    times = [event_milliseconds(call) for _ in range(repetitions + 3)]
    return statistics.median(times[3:])


def check(instance: Instance) -> None:
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
        error, lse_error = worst_error(Forward(instance, lengths, heads=4, slack=64), lengths)
        print(
            f"d={instance.dim} {instance.mask} batch {len(lengths):5} longest {lengths.max():4}:"
            f" error {error:.1e}, log-sum-exp {lse_error:.1e}",
            flush=True,
        )
        if not (error < 5e-3 and lse_error < 1e-4):
            raise AssertionError("outside the contract's accuracy")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    names = [row.name for row in ROWS]
    parser.add_argument("rows", nargs="*", metavar="row", help=f"of {', '.join(names)}")
    parser.add_argument("--check", action="store_true", help="compare with float64 first")
    parser.add_argument("--output", type=Path, help="write the table there as Markdown")
    parser.add_argument(
        "--kernels", type=Path, default=ROOT / "kernels", help="another version of kernels/"
    )
    options = parser.parse_args()
    unknown = sorted(set(options.rows) - set(names))
    if unknown:
        parser.error(f"unknown row {', '.join(unknown)}; known are {', '.join(names)}")
    rows = [row for row in ROWS if not options.rows or row.name in options.rows]

    driver = Driver()
    kinds = sorted({row.kind for row in rows})
    with ThreadPoolExecutor() as pool:
        built = pool.map(lambda kind: Instance(driver, options.kernels, *kind), kinds)
        instances = dict(zip(kinds, built, strict=True))
    for instance in instances.values():
        instance.load()
    if options.check:
        for instance in instances.values():
            check(instance)

    lines = [
        "| workload | heads | floor ms | ours ms | FA2 ms | ours / FA2 | FA3 / ours | % of floor |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        forward = Forward(instances[row.kind], row.sequence_lengths, row.heads)
        ours = milliseconds(forward)
        fa2 = milliseconds(forward.flash_attention_2, 7)
        fa3 = fa2 * row.fa3 / row.fa2
        lines.append(
            f"| {row.name} | {row.heads} | {row.floor:.3f} | {ours:.3f} | {fa2:.3f} "
            f"| {ours / fa2:.2f} | {fa3 / ours:.2f} | {100 * row.floor / ours:.0f} |"
        )
        print(lines[-1], flush=True)
    print("\n".join(lines))
    if options.output:
        options.output.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
