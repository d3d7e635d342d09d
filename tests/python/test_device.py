"""Calls on a device: a GPU where there is one, and always the PTX emulator, on the same code."""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from torch import Tensor

import jfa
from jfa import _plan

DEVICES = ["emulated", "cuda"]
LENGTHS = [5, 0, 130, 64, 1, 33, 12]
needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")


@pytest.fixture(params=DEVICES)
def device(request: pytest.FixtureRequest) -> Iterator[torch.device]:
    """Tensors of this device are computed by kernels."""
    if request.param == "cuda":
        if not torch.cuda.is_available():
            pytest.skip("needs a GPU")
        yield torch.device("cuda", 0)
        return
    with jfa.emulated("sm_90a"):
        yield torch.device("cpu")


def batch_of(
    lengths: list[int], device: torch.device, heads: int = 2, dim: int = 64
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    rows = sum(lengths)
    q, k, v = (torch.randn(rows, heads, dim, dtype=torch.bfloat16).to(device) for _ in range(3))
    offsets = torch.tensor([0, *lengths]).cumsum(0).to(device)
    return q, k, v, offsets


def assert_right(out: Tensor, q: Tensor, k: Tensor, v: Tensor, offsets: Tensor) -> None:
    assert_close_to_reference(out, q, k, v, offsets, None)


def assert_close_to_reference(
    out: Tensor, q: Tensor, k: Tensor, v: Tensor, offsets: Tensor, mask: jfa.Mask | None
) -> None:
    q, k, v = (tensor.detach().cpu().double() for tensor in (q, k, v))
    wanted, _ = jfa.reference_attention(q, k, v, offsets.cpu(), mask=mask)
    error = (out.detach().cpu().double() - wanted).norm() / wanted.norm()
    assert error < 6e-3


@pytest.mark.parametrize("mask", [None, jfa.causal(), jfa.window(10, 0)])
def test_without_and_with_a_plan(device: torch.device, mask: jfa.Mask | None) -> None:
    q, k, v, offsets = batch_of(LENGTHS, device)
    out = jfa.jagged_attention(q, k, v, offsets, mask=mask)
    assert_close_to_reference(out, q, k, v, offsets, mask)
    plan = jfa.plan(q, k, v, offsets, mask=mask)
    for _ in range(3):  # the long way, then the short one
        again, lse = jfa.jagged_attention(q, k, v, offsets, mask=mask, plan=plan, return_lse=True)
        assert torch.equal(out, again)
        assert lse.shape == (2, sum(LENGTHS))
    assert len(_plan.entry_of(plan).prepared) == 1


def test_the_short_way_takes_other_tensors(device: torch.device) -> None:
    q, k, v, offsets = batch_of(LENGTHS, device)
    plan = jfa.plan(q, k, v, offsets)
    jfa.jagged_attention(q, k, v, offsets, plan=plan)
    for _ in range(2):
        q, k, v, _unused = batch_of(LENGTHS, device)
        out = jfa.jagged_attention(q, k, v, offsets, plan=plan)
        assert_right(out, q, k, v, offsets)


def test_the_short_way_refuses_what_the_long_one_refuses(device: torch.device) -> None:
    q, k, v, offsets = batch_of(LENGTHS, device)
    plan = jfa.plan(q, k, v, offsets)
    jfa.jagged_attention(q, k, v, offsets, plan=plan)
    with pytest.raises(ValueError, match="plan"):
        jfa.jagged_attention(q, k, v, offsets, plan=plan, mask=jfa.causal())
    with pytest.raises(ValueError, match="plan"):
        jfa.jagged_attention(q, k, v, offsets[:-1], plan=plan)
    with pytest.raises(ValueError, match="k: "):
        jfa.jagged_attention(q, k[:, :, :32], v, offsets, plan=plan)


def test_unaligned_rows_go_through_a_copy(device: torch.device) -> None:
    q, k, v, offsets = batch_of(LENGTHS, device)
    wide = torch.randn(sum(LENGTHS), 2, 65, dtype=torch.bfloat16).to(device)
    q = wide[:, :, 1:]
    plan = jfa.plan(q, k, v, offsets)
    for _ in range(2):
        assert_right(jfa.jagged_attention(q, k, v, offsets, plan=plan), q, k, v, offsets)


def test_backward_is_refused_when_it_runs(device: torch.device) -> None:
    q, k, v, offsets = batch_of(LENGTHS, device)
    q.requires_grad_()
    out = jfa.jagged_attention(q, k, v, offsets)
    assert_right(out, q, k, v, offsets)
    with pytest.raises(NotImplementedError, match="backward"):
        torch.autograd.grad(out.float().sum(), q)


def test_compiled_once_for_all_offsets(device: torch.device) -> None:
    compiled = 0

    def count(graph: torch.fx.GraphModule, _inputs: list[Tensor]) -> object:
        nonlocal compiled
        compiled += 1
        return graph.forward

    @torch.compile(fullgraph=True, backend=count)
    def call(q: Tensor, k: Tensor, v: Tensor, offsets: Tensor) -> Tensor:
        return jfa.jagged_attention(q, k, v, offsets, mask=jfa.causal())

    for lengths in (LENGTHS, LENGTHS[::-1], [30, 60, 90, 20, 0, 40, 5]):
        q, k, v, offsets = batch_of(lengths, device)
        with torch.no_grad():
            out = call(q, k, v, offsets)
        assert_close_to_reference(out, q, k, v, offsets, jfa.causal())
    assert compiled == 1


def test_many_threads(device: torch.device) -> None:
    def work(_index: int) -> None:
        # A new thread has no emulated device of its own.
        q, k, v, offsets = batch_of(LENGTHS, device)
        plan = jfa.plan(q, k, v, offsets)
        for _ in range(3):
            assert_right(jfa.jagged_attention(q, k, v, offsets, plan=plan), q, k, v, offsets)

    def emulated_or_not(index: int) -> None:
        if device.type == "cpu":
            with jfa.emulated("sm_90a"):
                work(index)
        else:
            work(index)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(emulated_or_not, range(16)))


@needs_gpu
def test_nothing_waits_for_the_gpu() -> None:
    q, k, v, offsets = batch_of(LENGTHS, torch.device("cuda", 0))
    jfa.jagged_attention(q, k, v, offsets)  # compiles
    torch.cuda.set_sync_debug_mode("error")
    try:
        plan = jfa.plan(q, k, v, offsets)
        outs = [jfa.jagged_attention(q, k, v, offsets, plan=plan) for _ in range(3)]
        outs.append(jfa.jagged_attention(q, k, v, offsets))
        jfa.jagged_attention(q, k, v, q_lengths=offsets.diff())
    finally:
        torch.cuda.set_sync_debug_mode("default")
    for out in outs:
        assert_right(out, q, k, v, offsets)


@needs_gpu
def test_runs_on_the_current_stream() -> None:
    q, k, v, offsets = batch_of(LENGTHS, torch.device("cuda", 0))
    plan = jfa.plan(q, k, v, offsets)
    torch.cuda.synchronize()
    side = torch.cuda.Stream()  # type: ignore[no-untyped-call]
    with torch.cuda.stream(side):
        torch.cuda._sleep(10_000_000)  # type: ignore[no-untyped-call]
        late = q + 1  # done long after the default stream could have begun
        for _ in range(2):
            out = jfa.jagged_attention(late, k, v, offsets, plan=plan)
    side.synchronize()
    assert_right(out, late, k, v, offsets)


@needs_gpu
@pytest.mark.parametrize("planned", [False, True])
def test_a_graph_follows_offsets_that_change_in_place(planned: bool) -> None:
    q, k, v, offsets = batch_of(LENGTHS, torch.device("cuda", 0))

    def call() -> Tensor:
        plan = jfa.plan(q, k, v, offsets) if planned else None
        return jfa.jagged_attention(q, k, v, offsets, plan=plan)

    call()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = call()
    for lengths in (LENGTHS, LENGTHS[::-1], [0, 0, sum(LENGTHS), 0, 0, 0, 0]):
        offsets.copy_(torch.tensor([0, *lengths]).cumsum(0))
        q.normal_()
        graph.replay()
        torch.cuda.synchronize()
        assert_right(out, q, k, v, offsets)


def test_emulated_devices_have_a_name() -> None:
    q, k, v, offsets = batch_of([3], torch.device("cpu"))
    with pytest.raises(NotImplementedError, match="sm_1"), jfa.emulated("sm_1"):
        jfa.jagged_attention(q, k, v, offsets)


if os.environ.get("CI") is None:  # without NVRTC nothing can run on the PTX machine
    try:
        with jfa.emulated():
            jfa.jagged_attention(*batch_of([3], torch.device("cpu")))
    except jfa.Error as error:
        pytest.skip(f"no PTX machine: {error}", allow_module_level=True)
