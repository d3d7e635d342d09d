"""Measures the CPU engine against PyTorch's padded attention: one process, equal thread counts.

    python bench/cpu_vs_torch.py [--threads N] [--seconds S] [--only NAME] [--no-write]

Both sides compute forward and backward of the same sequences. PyTorch gets them padded to the
longest one, in its native layout and without a mask, which is the fastest it can do. The two are
timed in turn, so that both see the same machine; a ratio is the median over the turns. Floor: the
valid FLOPs (4 forward, 10 backward, a pair, head and head dimension) at the multiply-add peak
that ``cpu_peak`` measures. Memory: what a call adds to the resident set beyond its outputs and
gradients.

Results go to bench/results/cpu_<date>.md and .json.
"""

from __future__ import annotations

import argparse
import ctypes
import dataclasses
import gc
import json
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch
from torch.nn.functional import scaled_dot_product_attention

ROOT = Path(__file__).resolve().parent.parent
if (ROOT / "build" / "python").is_dir():
    sys.path.insert(0, str(ROOT / "build" / "python"))
import jfa  # noqa: E402

HEADS = 4
# What the engine promises, forward and backward together: at least so many times PyTorch's speed.
PROMISED = {"equal": 1.0, "movies_1000": 6.0, "sparse_2048": 2.2, "reviews": 15.0}


@dataclasses.dataclass
class Case:
    name: str
    sequences: int
    dtype: torch.dtype
    dim: int

    def lengths(self) -> list[int]:
        if self.name == "equal":
            return [1024] * self.sequences
        lines = (ROOT / "bench" / "workloads" / f"{self.name}.txt").read_text().split()
        return [int(line) for line in lines[: self.sequences]]


@dataclasses.dataclass
class Times:
    forward: list[float] = dataclasses.field(default_factory=list)
    backward: list[float] = dataclasses.field(default_factory=list)

    def both(self) -> list[float]:
        return [f + b for f, b in zip(self.forward, self.backward, strict=True)]


class Side:
    """One of the two: leaves, and a forward pass that makes the output from them."""

    def __init__(self, shape: tuple[int, ...], dtype: torch.dtype, attention: Callable[..., Any]):
        self.leaves = [torch.randn(shape).to(dtype).requires_grad_() for _ in range(3)]
        self.d_out = torch.randn(shape).to(dtype)
        self.attention = attention

    def run(self, times: Times | None = None) -> None:
        start = time.perf_counter()
        out = self.attention(*self.leaves)
        middle = time.perf_counter()
        torch.autograd.grad(out, self.leaves, self.d_out)
        end = time.perf_counter()
        if times is not None:
            times.forward.append(middle - start)
            times.backward.append(end - middle)


def jfa_side(lengths: list[int], case: Case, threads: int) -> Side:
    offsets = torch.tensor([0, *torch.tensor(lengths).cumsum(0).tolist()], dtype=torch.int32)
    leaf = torch.empty(int(offsets[-1]), HEADS, case.dim, dtype=case.dtype)
    plan = jfa.plan(leaf, leaf, leaf, offsets)
    return Side(
        (int(offsets[-1]), HEADS, case.dim),
        case.dtype,
        lambda q, k, v: jfa.jagged_attention(q, k, v, offsets, plan=plan, threads=threads),
    )


def torch_side(lengths: list[int], case: Case) -> Side:
    return Side(
        (len(lengths), HEADS, max(lengths), case.dim), case.dtype, scaled_dot_product_attention
    )


def status_bytes(key: str) -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(key + ":"):
            return int(line.split()[1]) * 1024
    return 0


def extra_memory(side: Side) -> int:
    """Bytes that forward and backward hold at once beyond inputs, output and gradients."""
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)  # or the call would get memory that earlier ones touched
    Path("/proc/self/clear_refs").write_text("5")  # resets the high-water mark
    before = status_bytes("VmRSS")
    side.run()
    kept = side.d_out.nbytes * 4  # the output, three gradients
    return max(0, status_bytes("VmHWM") - before - kept)


def measure_peak(threads: int) -> float:
    """GFLOP/s of float32 multiply-adds; 0 when bench/cpu_peak is not built beside the package."""
    for build in (Path(jfa.__file__).parents[2], ROOT / "build"):
        tool = build / "bench" / "cpu_peak"
        if tool.exists():
            run = subprocess.run([tool, str(threads)], capture_output=True, check=True)
            return float(run.stdout)
    return 0.0


def measure(case: Case, threads: int, seconds: float) -> dict[str, Any]:
    lengths = case.lengths()
    ours, theirs = jfa_side(lengths, case, threads), torch_side(lengths, case)
    extra = extra_memory(ours)
    theirs.run()
    our_times, their_times, peaks = Times(), Times(), []
    start = time.perf_counter()
    while len(peaks) < 3 or (time.perf_counter() - start < seconds and len(peaks) < 100):
        peaks.append(measure_peak(threads))
        ours.run(our_times)
        theirs.run(their_times)

    def ratio(a: list[float], b: list[float]) -> float:
        return statistics.median(y / x for x, y in zip(a, b, strict=True))

    flops = 4.0 * HEADS * case.dim * sum(n * n for n in lengths)
    # A noisy machine only ever takes time away: the fastest turn says what the code can do.
    forward, backward = min(our_times.forward), min(our_times.backward)
    peak = max(peaks) * 1e9
    return {
        "workload": case.name,
        "sequences": len(lengths),
        "longest": max(lengths),
        "dtype": str(case.dtype).removeprefix("torch."),
        "dim": case.dim,
        "jfa_forward_ms": forward * 1e3,
        "jfa_backward_ms": backward * 1e3,
        "torch_forward_ms": min(their_times.forward) * 1e3,
        "torch_backward_ms": min(their_times.backward) * 1e3,
        "ratio_forward": ratio(our_times.forward, their_times.forward),
        "ratio_backward": ratio(our_times.backward, their_times.backward),
        "ratio": ratio(our_times.both(), their_times.both()),
        "promised": PROMISED[case.name],
        "gflops_forward": flops / forward / 1e9,
        "gflops_backward": 2.5 * flops / backward / 1e9,
        "floor_share_forward": flops / forward / peak if peak else 0.0,
        "floor_share_backward": 2.5 * flops / backward / peak if peak else 0.0,
        "extra_mib": extra / 2**20,
        "turns": len(peaks),
    }


def cases() -> list[Case]:
    equal = [
        Case("equal", 16, dtype, dim)
        for dtype in (torch.float32, torch.bfloat16)
        for dim in (64, 128)
    ]
    jagged = [("movies_1000", 64), ("sparse_2048", 64), ("reviews", 1024)]
    return equal + [Case(name, n, torch.float32, dim) for name, n in jagged for dim in (64, 128)]


def machine(threads: int) -> dict[str, Any]:
    cpu = next(
        (
            line.split(":")[1].strip()
            for line in Path("/proc/cpuinfo").read_text().splitlines()
            if line.startswith("model name")
        ),
        platform.processor(),
    )
    return {
        "date": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "processor": cpu,
        "threads": threads,
        "torch": torch.__version__,
        "torch_capability": torch.backends.cpu.get_cpu_capability(),
        "peak_gflops": measure_peak(threads),
        "load": Path("/proc/loadavg").read_text().split()[0],
        "system": platform.platform(),
    }


HEADER = (
    "| workload | type | D | jfa fwd / bwd ms | PyTorch fwd / bwd ms | ratio fwd | bwd | both "
    "| promised | of the floor fwd / bwd | extra MiB |\n" + "|---" * 11 + "|"
)


def table_row(r: dict[str, Any]) -> str:
    return (
        f"| {r['workload']} {r['sequences']}×≤{r['longest']} | {r['dtype']} | {r['dim']} "
        f"| {r['jfa_forward_ms']:.1f} / {r['jfa_backward_ms']:.1f} "
        f"| {r['torch_forward_ms']:.1f} / {r['torch_backward_ms']:.1f} "
        f"| {r['ratio_forward']:.2f} | {r['ratio_backward']:.2f} | {r['ratio']:.2f} "
        f"| {r['promised']:.1f} "
        f"| {100 * r['floor_share_forward']:.0f} % / {100 * r['floor_share_backward']:.0f} % "
        f"| {r['extra_mib']:.1f} |"
    )


def write(about: dict[str, Any], rows: list[dict[str, Any]]) -> None:
    folder = ROOT / "bench" / "results"
    folder.mkdir(exist_ok=True)
    name = f"cpu_{about['date'][:10]}"
    (folder / f"{name}.json").write_text(
        json.dumps({"machine": about, "results": rows}, indent=1) + "\n"
    )
    lines = [
        "# CPU engine against PyTorch's padded attention",
        "",
        "`python bench/cpu_vs_torch.py` wrote this. Ratios are PyTorch's time over ours, medians "
        "over turns; milliseconds are",
        "the fastest turn. H = 4, forward and backward, no mask on PyTorch's side.",
        "",
        *(f"- {key}: {value}" for key, value in about.items()),
        "",
        HEADER,
        *(table_row(row) for row in rows),
    ]
    (folder / f"{name}.md").write_text("\n".join(lines) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--seconds", type=float, default=15, help="time for one case")
    parser.add_argument("--only", help="one workload: " + ", ".join(PROMISED))
    parser.add_argument("--no-write", action="store_true")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    torch.manual_seed(1)

    about = machine(options.threads)
    print("\n".join(f"{key}: {value}" for key, value in about.items()))
    print(HEADER, flush=True)
    rows = []
    for case in cases():
        if options.only not in (None, case.name):
            continue
        rows.append(measure(case, options.threads, options.seconds))
        print(table_row(rows[-1]), flush=True)
    if not options.no_write:
        write(about, rows)
    missed = [r for r in rows if r["ratio"] < r["promised"]]
    sys.exit(1 if missed else 0)


if __name__ == "__main__":
    main()
