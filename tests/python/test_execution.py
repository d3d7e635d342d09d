"""Threads, the GIL, determinism, autocast, plans."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import torch
from torch import Tensor

import jfa
from jfa import _plan
from support import TOLERANCE, assert_close, offsets_of, random_rows


def batch_of(lengths: list[int], heads: int = 2, dim: int = 32) -> tuple[Tensor, ...]:
    return (*(random_rows(sum(lengths), heads, dim) for _ in range(3)), offsets_of(lengths))


def forward_and_backward(batch: tuple[Tensor, ...], **options: object) -> list[Tensor]:
    q, k, v, offsets = batch
    out = jfa.jagged_attention(q, k, v, offsets, mask=jfa.causal(), **options)  # type: ignore[call-overload]
    gradient = torch.linspace(-1, 1, out.numel()).view_as(out)
    return [out.detach(), *torch.autograd.grad(out, [q, k, v], gradient)]


def test_thread_count_does_not_change_bits() -> None:
    batch = batch_of([300, 1, 0, 77, 129])
    one = forward_and_backward(batch, threads=1, deterministic=True)
    for threads in (2, 3, 8):
        many = forward_and_backward(batch, threads=threads, deterministic=True)
        assert all(torch.equal(a, b) for a, b in zip(one, many, strict=True))


def test_interrupted_work_ends_and_the_next_call_works() -> None:
    """Ctrl-C during attention calls: KeyboardInterrupt after the call at hand, nothing hangs."""
    program = """
import torch, jfa
rows = torch.randn(8000, 4, 64).requires_grad_()
offsets = torch.tensor([0, 8000])
small = torch.randn(5, 2, 16)
jfa.jagged_attention(small, small, small, torch.tensor([0, 5]))
print("ready", flush=True)
try:
    while True:
        jfa.jagged_attention(rows, rows, rows, offsets).sum().backward()
except KeyboardInterrupt:
    out = jfa.jagged_attention(small, small, small, torch.tensor([0, 5]))
    print(out.isfinite().all().item(), flush=True)
    raise
"""
    environment = os.environ | {"PYTHONPATH": str(Path(jfa.__file__).parents[1])}
    # A shell starts background jobs with Ctrl-C ignored; the child must not inherit that.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    child = subprocess.Popen(
        [sys.executable, "-c", program],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
    )
    signal.signal(signal.SIGINT, before)
    with child as python:
        assert python.stdout is not None
        assert python.stdout.readline() == "ready\n"
        time.sleep(0.5)
        python.send_signal(signal.SIGINT)
        output, error = python.communicate(timeout=120)
    assert output == "True\n", error
    assert "KeyboardInterrupt" in error
    assert python.returncode == -signal.SIGINT  # a shell says 130


def test_forked_process_computes() -> None:
    """Its OpenMP threads are gone (a parallel operation of PyTorch itself would hang there)."""
    program = """
import os, torch, jfa
q, k, v = (torch.randn(3000, 2, 32).requires_grad_() for _ in range(3))
offsets = torch.tensor([0, 900, 3000])
torch.set_num_threads(3)
def results():
    out = jfa.jagged_attention(q, k, v, offsets)
    gradients = torch.autograd.grad(out, (q, k, v), out)
    return [x.detach().numpy().tobytes() for x in (out, *gradients)]
before = results()
child = os.fork()
if child == 0:
    os._exit(0 if results() == before else 1)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
    environment = os.environ | {"PYTHONPATH": str(Path(jfa.__file__).parents[1])}
    run = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        check=True,
        env=environment,
        timeout=120,
    )
    assert run.stdout.split() == [b"0"]


def test_threads_are_those_of_torch() -> None:
    """PyTorch's threads spin after each call; those of a second pool would wait for them."""
    program = """
import os, torch, jfa
rows = torch.randn(2000, 2, 32)
offsets = torch.arange(0, 2001, 100)
torch.set_num_threads(3)
(torch.randn(500, 500) @ torch.randn(500, 500)).exp()
before = len(os.listdir("/proc/self/task"))
jfa.jagged_attention(rows, rows, rows, offsets)
print(before, len(os.listdir("/proc/self/task")))
"""
    environment = os.environ | {"PYTHONPATH": str(Path(jfa.__file__).parents[1])}
    run = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, check=True, env=environment
    )
    before, after = run.stdout.split()
    assert before == after


def test_more_threads_than_anybody_has() -> None:
    """They are tasks of a few workers, not threads: OpenMP would end the process."""
    batch = batch_of([65, 3])
    assert torch.equal(
        forward_and_backward(batch, threads=10**9)[0], forward_and_backward(batch, threads=1)[0]
    )


def test_default_thread_count_is_that_of_torch() -> None:
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(1)
        batch = batch_of([65, 3])
        assert torch.equal(
            forward_and_backward(batch)[0], forward_and_backward(batch, threads=2)[0]
        )
    finally:
        torch.set_num_threads(before)


def test_deterministic_backward_repeats() -> None:
    """Broadcast queries: gradients of the whole batch meet in one block."""
    q = random_rows(8, 2, 32)
    lengths = torch.randint(0, 200, (40,)).tolist()
    k, v = (random_rows(sum(lengths), 2, 32) for _ in range(2))
    offsets = offsets_of(lengths)
    results = []
    for _ in range(20):
        out = jfa.jagged_attention(q, k, v, None, offsets, deterministic=True)
        results.append(torch.autograd.grad(out.sin().sum(), [q, k, v]))
    for result in results[1:]:
        assert all(torch.equal(a, b) for a, b in zip(result, results[0], strict=True))


def test_global_deterministic_switch() -> None:
    batch = batch_of([70, 3])
    wanted = forward_and_backward(batch, deterministic=True)
    torch.use_deterministic_algorithms(True)
    try:
        actual = forward_and_backward(batch)
    finally:
        torch.use_deterministic_algorithms(False)
    assert all(torch.equal(a, b) for a, b in zip(actual, wanted, strict=True))


def test_two_python_threads_at_once() -> None:
    batches = [batch_of([n, 50, 0, 3 * n]) for n in (20, 33, 47, 64)]
    alone = [forward_and_backward(batch, deterministic=True) for batch in batches]
    with ThreadPoolExecutor(4) as pool:
        for _ in range(5):
            together = list(
                pool.map(lambda batch: forward_and_backward(batch, deterministic=True), batches)
            )
            for wanted, actual in zip(alone, together, strict=True):
                assert all(torch.equal(a, b) for a, b in zip(wanted, actual, strict=True))


def test_other_python_threads_run_during_a_call() -> None:
    """The float64 reference takes long enough here for another thread to be seen running."""
    q = torch.randn(1500, 1, 32)
    finished = threading.Event()

    def attend() -> None:
        jfa.reference_attention(q, q, q, offsets_of([1500]))
        finished.set()

    thread = threading.Thread(target=attend)
    thread.start()
    ticks = 0
    while not finished.is_set():
        time.sleep(0.001)
        ticks += 1
    thread.join()
    assert ticks >= 5


@pytest.mark.parametrize("given", [torch.float32, torch.float16])
def test_autocast(given: torch.dtype) -> None:
    """q, k and v take autocast's type, whatever mixture the layers before left."""
    q, k, v = (torch.randn(8, 2, 32) for _ in range(3))
    offsets = offsets_of([3, 5])
    with torch.autocast("cpu", torch.bfloat16):
        out = jfa.jagged_attention(q, k.to(given), v.bfloat16(), offsets)
    assert out.dtype == torch.bfloat16
    expected, _ = jfa.reference_attention(q.double(), k.double(), v.double(), offsets)
    assert_close(out, expected, 4 * TOLERANCE[torch.bfloat16])


def test_plan_gives_the_same_bits_and_outlives_its_owner() -> None:
    q, k, v, offsets = batch_of([300, 1, 0, 5, 5, 5, 77])
    mask = jfa.window(20, 0)
    plan = jfa.plan(q, k, v, offsets, mask=mask)
    with_plan = jfa.jagged_attention(q, k, v, offsets, mask=mask, plan=plan, deterministic=True)
    without = jfa.jagged_attention(q, k, v, offsets, mask=mask, deterministic=True)
    assert torch.equal(with_plan, without)
    count = len(_plan._plans)
    del plan
    gc.collect()
    assert len(_plan._plans) == count  # the graph of with_plan holds it
    a = torch.autograd.grad(with_plan.sum(), [q, k, v])
    b = torch.autograd.grad(without.sum(), [q, k, v])
    assert all(torch.equal(x, y) for x, y in zip(a, b, strict=True))
    gc.collect()
    assert len(_plan._plans) == count - 1


def test_plan_statistics() -> None:
    q, k, v, offsets = batch_of([300, 1, 0, 5, 5, 5, 77])
    plan = jfa.plan(q, k, v, offsets, mask=jfa.causal())
    statistics = plan.statistics
    assert statistics.batch == 7
    assert statistics.empty_sequences == 1
    assert statistics.query_rows == statistics.key_rows == 393
    assert statistics.visible_pairs == sum(n * (n + 1) // 2 for n in (300, 1, 0, 5, 5, 5, 77))
    assert statistics.padded_pairs == 7 * 300 * 300
    assert statistics.visible_pairs <= statistics.computed_pairs < statistics.padded_pairs
    assert 0 < statistics.row_fill <= 1
    assert 0 < statistics.largest_tile_share <= 1
    assert str(statistics) in repr(plan) or str(statistics).strip() in repr(plan)


def test_plan_of_other_offsets_is_refused() -> None:
    q, k, v, offsets = batch_of([3, 5])
    plan = jfa.plan(q, k, v, offsets)
    with pytest.raises(ValueError, match=r"plan"):
        jfa.jagged_attention(q, k, v, offsets_of([4, 4]), plan=plan)


def test_copied_handle_of_a_dead_plan_is_refused() -> None:
    q, k, v, offsets = batch_of([3, 5])
    plan = jfa.plan(q, k, v, offsets)
    copy = jfa.Plan(plan.handle.clone())
    del plan
    gc.collect()
    with pytest.raises(ValueError, match=r"plan: its memory is gone"):
        jfa.jagged_attention(q, k, v, offsets, plan=copy)


def test_memory_of_a_call_is_returned() -> None:
    """No growth over many calls: handles, gradients and saved tensors die with their graph."""
    count = len(_plan._plans)
    for _ in range(200):
        batch = batch_of([3, 5], dim=8)
        plan = jfa.plan(*batch, mask=jfa.causal())
        forward_and_backward(batch, plan=plan)
    del plan
    gc.collect()
    assert len(_plan._plans) == count
