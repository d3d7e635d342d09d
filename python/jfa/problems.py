"""One-line problems: reproducible attention problems in one line of text, and their check."""

from __future__ import annotations

from jfa._core import CheckReport, Problem, parse_problem, problem_notation
from jfa._core import check as _check
from jfa._devices import execution_named

__all__ = ["CheckReport", "Problem", "check", "parse_problem", "problem_notation"]


def check(
    problem: str | Problem, *, device: str = "cpu", threads: int | None = None
) -> CheckReport:
    """Runs ``problem`` on ``device`` and compares every result with the float64 reference.

    ``problem`` is a line such as "bwd bf16 d=64 h=4 mask=causal q=17,0,513"; ``problem_notation()``
    lists its keys. The report is true when everything passed; ``str()`` of it names the first bad
    coordinate. Raises ValueError that marks the place in a line that cannot be read.
    """
    parsed = parse_problem(problem) if isinstance(problem, str) else problem
    return _check(parsed, execution_named(device, threads or 0))
