"""Plans as PyTorch sees them.

An operator takes tensors, not objects, so a plan travels as a handle: an int64 tensor [1] that
holds a key of the table below. The entry lives as long as the handle's memory, so a handle that
autograd saved for the backward pass keeps its plan.
"""

from __future__ import annotations

import itertools
import weakref
from array import array
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from jfa import _core


@dataclass
class Entry:
    """A plan, and on devices the memory that it lies in and the stream that it was made on."""

    plan: _core.Plan
    memory: Tensor | None
    stream: int
    prepared: dict[Any, Any] = field(default_factory=dict)  # calls, see jfa._prepared
    last: tuple[Any, Any] | None = None  # of them

    def used_on(self, stream: int) -> Tensor | None:
        """The memory, kept until the work that is now in ``stream`` has been done."""
        if self.memory is not None and self.memory.is_cuda and stream != self.stream:
            self.memory.record_stream(torch.cuda.current_stream(self.memory.device))
        return self.memory


_plans: dict[int, Entry] = {}
_keys = itertools.count(1)


@dataclass(frozen=True, eq=False)
class Plan:
    """The work list of one batch of offsets, made by ``jfa.plan`` and shared by layers and
    backward.
    """

    handle: Tensor

    @property
    def statistics(self) -> _core.PlanStatistics:
        """Tiles, packing, fill and skipped work; ``str()`` of it is for people."""
        return entry(self.handle).plan.statistics()

    def __repr__(self) -> str:
        return f"jfa.Plan({str(self.statistics).strip()})"


def entry_of(plan: Plan) -> Entry:
    """The same as ``entry(plan.handle)``, which reads a tensor, but for the first time."""
    found: Entry | None = plan.__dict__.get("_entry")
    if found is None:
        found = plan.__dict__["_entry"] = entry(plan.handle)
    return found


def register(plan: _core.Plan, memory: Tensor | None, stream: int) -> Tensor:
    """The handle of ``plan``."""
    key = next(_keys)
    numbers = array("q", [key])
    _plans[key] = Entry(plan, memory, stream)
    weakref.finalize(numbers, _plans.pop, key, None).atexit = False
    return torch.frombuffer(numbers, dtype=torch.int64)


def entry(handle: Tensor) -> Entry:
    """What ``handle`` stands for."""
    found = _plans.get(int(handle))
    if found is None:
        raise _core.InvalidArgument(
            "plan: its memory is gone, this is a copy of the handle; keep the jfa.Plan that "
            "jfa.plan returned alive and pass that"
        )
    return found
