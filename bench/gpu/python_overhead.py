"""What a call of jfa.jagged_attention with a plan costs the calling thread.

    python3 bench/gpu/python_overhead.py          on a GPU: the goal is 15 µs
    python3 bench/gpu/python_overhead.py --host   without one: the Python part of the same path

With --host the launch itself is left out, so that what remains is what this package adds to it.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from contextlib import nullcontext

import torch

import jfa
from jfa import _devices, _plan

CALLS = 200  # fewer than the driver queues before it waits
REPEATS = 41


def microseconds(call: Callable[[], object], wait: Callable[[], object]) -> float:
    """Median time of one call, the queue drained outside."""
    times = []
    for _ in range(REPEATS):
        wait()
        start = time.perf_counter()
        for _ in range(CALLS):
            call()
        times.append((time.perf_counter() - start) / CALLS * 1e6)
    wait()
    return statistics.median(times)


class NoLaunch:
    """Stands for a prepared call."""

    def run(self, *addresses: int) -> None:
        pass


def measure(device: torch.device, host: bool) -> None:
    q, k, v = (torch.randn(64, 4, 128, dtype=torch.bfloat16, device=device) for _ in range(3))
    offsets = torch.tensor([0, 20, 64], device=device)
    wait: Callable[[], object] = (lambda: None) if host else torch.cuda.synchronize
    plan = jfa.plan(q, k, v, offsets, mask=jfa.causal())

    def with_plan() -> object:
        return jfa.jagged_attention(q, k, v, offsets, mask=jfa.causal(), plan=plan)

    with_plan()
    if host:
        prepared = _plan.entry_of(plan).prepared
        for key, value in prepared.items():
            prepared[key] = value._replace(call=NoLaunch())
        _plan.entry_of(plan).last = None
        # Nothing is registered with the PTX machine.
        _devices.reachable = lambda *_: nullcontext()  # type: ignore[assignment]
        _devices.execution_on = lambda *_: None  # type: ignore[assignment]
    print(f"jagged_attention, with a plan     {microseconds(with_plan, wait):8.2f} µs")
    if host:
        return

    def without_plan() -> object:
        return jfa.jagged_attention(q, k, v, offsets)

    def make_plan() -> object:
        return jfa.plan(q, k, v, offsets)

    empty = torch.empty_like(q)

    def add() -> object:
        return torch.add(q, k, out=empty)

    print(f"jagged_attention, without         {microseconds(without_plan, wait):8.2f} µs")
    print(f"plan                              {microseconds(make_plan, wait):8.2f} µs")
    print(f"torch.add, for comparison         {microseconds(add, wait):8.2f} µs")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--host", action="store_true", help="without a GPU, without the launch")
    if parser.parse_args().host:
        with jfa.emulated():
            measure(torch.device("cpu"), host=True)
    else:
        measure(torch.device("cuda", 0), host=False)


if __name__ == "__main__":
    main()
