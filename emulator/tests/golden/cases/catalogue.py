"""All groups of cases, less the candidates that do not exist on sm_90a.

Thanks to the list of rejected names the groups may simply be products of modifiers.
"""

from __future__ import annotations

from pathlib import Path

from . import alu, barrier, control, convert, matrix, memory, tma, warp
from .case import Case

GROUPS = {
    **alu.GROUPS,
    **convert.GROUPS,
    **warp.GROUPS,
    **memory.GROUPS,
    **matrix.GROUPS,
    **tma.GROUPS,
    **barrier.GROUPS,
    **control.GROUPS,
}
REJECTED = Path(__file__).parent.parent / "rejected.txt"


def rejected() -> frozenset[str]:
    """Names of cases that ptxas does not assemble for sm_90a (see record.py --check)."""
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
