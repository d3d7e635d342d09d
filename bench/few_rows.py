"""Few query rows (decoding, candidates, pooling) against PyTorch's padded attention.

    python bench/few_rows.py [--threads N] [--turns N] [--rows 1 2 4 8]

Keys: the first 64 histories of movies_1000, and 64 histories of 500 events, where PyTorch has no
padding to compute. float32, H = 4. The two sides are timed in turn; a ratio is the median over the
turns of PyTorch's time over ours, milliseconds are the fastest turn. malloc keeps its memory, so
that no side is timed with the page faults of new gradients, nor one case with another's leftovers.
"""

from __future__ import annotations

import argparse
import ctypes
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

ROOT = Path(__file__).resolve().parent.parent
if (ROOT / "build" / "python").is_dir():
    sys.path.insert(0, str(ROOT / "build" / "python"))
import jfa  # noqa: E402

HEADS = 4
SEQUENCES = 64


def lengths_of(name: str) -> list[int]:
    if name == "equal 500":
        return [500] * SEQUENCES
    lines = (ROOT / "bench" / "workloads" / f"{name}.txt").read_text().split()
    return [int(line) for line in lines[:SEQUENCES]]


def leaves(*shapes: tuple[int, ...]) -> list[Tensor]:
    return [torch.randn(shape).requires_grad_() for shape in shapes]


def seconds(run: Callable[[], object]) -> float:
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


def measure(name: str, rows: int, dim: int, turns: int) -> str:
    lengths = lengths_of(name)
    kv_offsets = torch.tensor([0, *lengths]).cumsum(0)
    q_offsets = torch.arange(0, SEQUENCES * rows + 1, rows)
    events = int(kv_offsets[-1])
    q, k, v = leaves((SEQUENCES * rows, HEADS, dim), *[(events, HEADS, dim)] * 2)
    longest = max(lengths)
    padded = leaves((SEQUENCES, HEADS, rows, dim), *[(SEQUENCES, HEADS, longest, dim)] * 2)
    d_out, d_padded = torch.randn_like(q), torch.randn_like(padded[0])

    times: list[list[float]] = [[], [], [], []]
    ours = theirs = torch.empty(0)

    def our_forward() -> None:
        nonlocal ours
        ours = jfa.jagged_attention(q, k, v, q_offsets, kv_offsets)

    def their_forward() -> None:
        nonlocal theirs
        theirs = scaled_dot_product_attention(*padded)

    runs = [
        our_forward,
        lambda: torch.autograd.grad(ours, (q, k, v), d_out),
        their_forward,
        lambda: torch.autograd.grad(theirs, padded, d_padded),
    ]
    for turn in range(turns + 1):
        for run, taken in zip(runs, times, strict=True):
            once = seconds(run)
            if turn > 0:
                taken.append(once)

    def ratio(a: list[float], b: list[float]) -> float:
        return statistics.median(y / x for x, y in zip(a, b, strict=True))

    forward, backward, their_fwd, their_bwd = times
    return (
        f"| {name} | {dim} | {rows} "
        f"| {min(forward) * 1e3:.2f} / {min(backward) * 1e3:.2f} "
        f"| {min(their_fwd) * 1e3:.2f} / {min(their_bwd) * 1e3:.2f} "
        f"| {ratio(forward, their_fwd):.2f} | {ratio(backward, their_bwd):.2f} |"
    )


def keep_memory() -> None:
    m_trim_threshold, m_mmap_max = -1, -4  # of malloc.h
    libc = ctypes.CDLL(None)
    libc.mallopt(m_mmap_max, 0)
    libc.mallopt(m_trim_threshold, 2**31 - 1)


def main() -> None:
    keep_memory()
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--turns", type=int, default=30)
    parser.add_argument("--rows", type=int, nargs="+", default=[1, 2, 4, 8])
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    torch.manual_seed(1)
    print("| keys | D | rows | jfa fwd / bwd ms | PyTorch fwd / bwd ms | ratio fwd | bwd |")
    print("|---" * 7 + "|")
    for name in ("equal 500", "movies_1000"):
        for dim in (64, 128):
            for rows in options.rows:
                print(measure(name, rows, dim, options.turns), flush=True)


if __name__ == "__main__":
    main()
