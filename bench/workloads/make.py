"""Writes the length files of the benchmarks: one sequence length a line, 1,152 sequences mostly.

The lengths follow what recommendation models see: equal lengths, uniform ones at a given fill (the
setting of published attention benchmarks), and fits of real user histories. Python's ``random`` is
specified to give the same numbers everywhere, so the files never differ.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator
from pathlib import Path

BATCH = 1152


def uniform(seed: int, longest: int, fill: float, batch: int = BATCH) -> list[int]:
    """Lengths with a mean of about ``fill * longest``; all ``longest`` with a fill of 1."""
    if fill >= 1:
        return [longest] * batch
    if fill >= 0.5:
        low, high = max(1, int((2 * fill - 1) * longest)), longest
    else:
        low, high = 1, int(2 * fill * longest)
    draw = random.Random(seed)
    return [draw.randint(low, high) for _ in range(batch)]


def skewed(
    seed: int, batch: int, low: int, high: int, length: Callable[[float], float]
) -> list[int]:
    """``length`` of a standard normal number, cut to [low, high]."""
    draw = random.Random(seed)
    return [min(high, max(low, int(length(draw.gauss(0, 1))))) for _ in range(batch)]


def movies(high: int) -> list[int]:
    """The log-normal fit of MovieLens-20M histories that LensKit publishes."""
    return skewed(4, BATCH, 1, high, lambda z: 19.07 + 43.16 * math.exp(1.608 * z))


def zipf(seed: int, high: int, exponent: float) -> list[int]:
    """P(length >= n) = n ** (1 - exponent), cut to [1, high]."""
    draw = random.Random(seed)
    return [
        min(high, max(1, int((1 - draw.random()) ** (-1 / (exponent - 1))))) for _ in range(BATCH)
    ]


def workloads() -> Iterator[tuple[str, list[int]]]:
    """Every file's name and lengths."""
    for longest in (256, 512, 1024, 2048):
        yield f"full_{longest}", uniform(1, longest, 1.0)
        yield f"half_{longest}", uniform(2, longest, 0.5)
    yield "sparse_2048", uniform(3, 2048, 0.1)
    for high in (200, 1000, 4096):
        yield f"movies_{high}", movies(high)
    # Product reviews, users with at least five: median 7.
    yield "reviews", skewed(5, 8192, 5, 773, lambda z: 7 * math.exp(z))
    yield "zipf_4096", zipf(6, 4096, 1.2)
    yield "one_long", [16384] + [16] * (BATCH - 1)
    half = uniform(7, 2048, 0.5)
    yield "half_empty", [0 if i % 2 else n for i, n in enumerate(half)]
    yield "llm_4k", [4096] * 4
    yield "llm_16k", [16384] * 2


def main() -> None:
    folder = Path(__file__).parent
    for name, lengths in workloads():
        (folder / f"{name}.txt").write_text("\n".join(map(str, lengths)) + "\n")


if __name__ == "__main__":
    main()
