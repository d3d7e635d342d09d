"""All groups of cases, and the candidates that the assembler rejects for sm_90a (so that the lists above may simply be products)."""

from __future__ import annotations

from pathlib import Path

from . import alu, barrier, control, convert, matrix, memory, tma, warp
from .case import Case

GROUPS = {**alu.GROUPS, **convert.GROUPS, **warp.GROUPS, **memory.GROUPS, **matrix.GROUPS, **tma.GROUPS, **barrier.GROUPS, **control.GROUPS}
REJECTED = Path(__file__).parent.parent / "rejected.txt"


def rejected() -> frozenset[str]:
    """Names of cases whose instruction does not exist on sm_90a (checked with ptxas, see record.py --check)."""
    return frozenset(REJECTED.read_text().splitlines()) if REJECTED.exists() else frozenset()


def candidates(group: str) -> list[Case]:
    cases = list(GROUPS[group]())
    names = [case.name for case in cases]
    repeated = {name for name in names if names.count(name) > 1}
    if repeated:
        raise ValueError(f"group {group} has two cases with one name: {sorted(repeated)[:5]}")
    kernels: dict[str, str] = {}
    for case in cases:
        if kernels.setdefault(case.kernel, case.ptx) != case.ptx:
            raise ValueError(f"group {group}: two different kernels are called {case.kernel}")
    return cases


def accepted(group: str) -> list[Case]:
    out = rejected()
    return [case for case in candidates(group) if f"{group}: {case.name}" not in out]
