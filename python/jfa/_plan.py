"""Plans as PyTorch sees them.

An operator takes tensors, not objects, so a plan travels as a handle: an int64 tensor [1] that
holds a key of the table below. The entry lives as long as the handle's memory, so a handle that
autograd saved for the backward pass keeps its plan.
"""

from __future__ import annotations

import itertools
import weakref
from array import array
from dataclasses import dataclass

import torch
from torch import Tensor

from jfa import _core

_plans: dict[int, _core.Plan] = {}
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
        return resolve(self.handle).statistics()

    def __repr__(self) -> str:
        return f"jfa.Plan({str(self.statistics).strip()})"


def register(plan: _core.Plan) -> Tensor:
    """The handle of ``plan``."""
    key = next(_keys)
    memory = array("q", [key])
    _plans[key] = plan
    weakref.finalize(memory, _plans.pop, key, None).atexit = False
    return torch.frombuffer(memory, dtype=torch.int64)


def resolve(handle: Tensor) -> _core.Plan:
    """The plan behind ``handle``."""
    plan = _plans.get(int(handle))
    if plan is None:
        raise _core.InvalidArgument(
            "plan: its memory is gone, this is a copy of the handle; keep the jfa.Plan that "
            "jfa.plan returned alive and pass that"
        )
    return plan
