"""A seeded bug, and the kinds of report that name it.

Where several kinds name a bug, the schedule decides which comes first: without a wait, for example,
a tile is read before it has arrived, or before it was ever written.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Mutation:
    name: str
    kernel: str
    old: str  #: occurs exactly once in the kernel's text
    new: str
    kinds: tuple[str, ...]  #: name the bug: every run must report at least one of these
    also: tuple[str, ...] = ()  #: consequences that may be reported besides
    #: Besides the text: other boxes of the host's tensor maps.
    boxes: tuple[tuple[str, tuple[int, ...]], ...] = ()


RACE, FENCE, UNINITIALISED = "data race", "missing fence", "uninitialised data"
BOUNDS, MISALIGNED, BARRIER = "out of bounds", "misaligned", "barrier protocol"
DEADLOCK, REUSE, DESCRIPTOR = "deadlock", "in-flight reuse", "bad descriptor"
BUDGET, PENDING, DIVERGENCE = "register budget", "left pending", "divergence"
