"""Good kernels stay clean under every schedule; seeded bugs are reported with the right kind."""

from __future__ import annotations

import os
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import nvrtc
import pytest
from cases import CASES, Case
from emulated import SCHEDULES, Run, TensorMap, run_kernel, settings_for
from mutation import Mutation
from mutations import MUTATIONS

# On CI the compiler must be there: without it every mutation fails instead of being skipped.
pytestmark = pytest.mark.skipif(
    nvrtc.library() is None and "CI" not in os.environ, reason="NVRTC is not installed"
)

KERNELS = Path(__file__).parent / "kernels"


@cache
def _text(kernel: str) -> str:
    return (KERNELS / f"{kernel}.cu").read_text()


@cache
def _case(kernel: str) -> Case:
    return CASES[kernel]()


@cache
def _compile(kernel: str, old: str, new: str) -> str:
    source = _text(kernel)
    if old:
        assert source.count(old) == 1, (
            f"{kernel}: the text to change occurs {source.count(old)} times"
        )
        source = source.replace(old, new)
    return nvrtc.compile_ptx(
        source, f"{kernel}.cu", {"sm90.cuh": (KERNELS / "sm90.cuh").read_text()}
    )


def _run(
    kernel: str,
    ptx: str,
    schedule: tuple[str, int],
    boxes: tuple[tuple[str, tuple[int, ...]], ...] = (),
) -> Run:
    case = _case(kernel)
    arguments = dict(case.arguments)
    for name, box in boxes:
        tensor_map = arguments[name]
        assert isinstance(tensor_map, TensorMap), name
        arguments[name] = replace(tensor_map, box=box)
    return run_kernel(
        ptx,
        kernel,
        arguments,
        grid=case.grid,
        block=case.block,
        cluster=case.cluster,
        shared_bytes=case.shared_bytes,
        parameters=case.parameters,
        settings=settings_for(schedule),
        name=f"{kernel}.ptx",
    )


@pytest.mark.parametrize("schedule", SCHEDULES, ids=lambda s: f"{s[0]}{s[1]}")
@pytest.mark.parametrize("kernel", CASES)
def test_good_kernel_is_clean(kernel: str, schedule: tuple[str, int]) -> None:
    run = _run(kernel, _compile(kernel, "", ""), schedule)
    assert run.result.clean, run.reports()
    for name, expected in _case(kernel).expected.items():
        np.testing.assert_allclose(run.arrays[name], expected, rtol=0, atol=_case(kernel).tolerance)


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda m: m.name.replace(" ", "_"))
def test_mutation_is_found(mutation: Mutation) -> None:
    ptx = _compile(mutation.kernel, mutation.old, mutation.new)
    for schedule in SCHEDULES:
        run = _run(mutation.kernel, ptx, schedule, mutation.boxes)
        found = sorted({report.kind for report in run.result.reports})
        line = (
            f"{mutation.name}: expected {mutation.kinds}, {schedule[0]}{schedule[1]} found {found}"
        )
        print(line)
        assert set(found) & set(mutation.kinds), f"not named: {line}\n{run.reports()}"
        assert set(found) <= {*mutation.kinds, *mutation.also}, f"{line}\n{run.reports()}"


def test_there_are_enough_mutations() -> None:
    assert len({mutation.name for mutation in MUTATIONS}) == len(MUTATIONS) >= 30
    for mutation in MUTATIONS:
        if not mutation.boxes:
            assert _text(mutation.kernel).count(mutation.old) == 1, mutation.name
