"""What all tests of the package share."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
import torch
from hypothesis import settings
from torch import Tensor

import jfa

settings.register_profile("default", deadline=None, derandomize=True, max_examples=60)
settings.load_profile("default")

# Everything that computes the contract: the float64 reference, and the engine in each type.
COMPUTATIONS = ["reference", "float32", "float16", "bfloat16"]


@pytest.fixture(autouse=True)
def _seed() -> Iterator[None]:
    """Fresh but reproducible random numbers; compiled graphs do not leak into the next test."""
    torch.manual_seed(20240916)
    yield
    torch._dynamo.reset()


class Computation:
    """One way to compute, called like ``jfa.jagged_attention`` with return_lse=True."""

    def __init__(self, name: str) -> None:
        self.is_reference = name == "reference"
        self.dtype: torch.dtype = torch.float64 if self.is_reference else getattr(torch, name)
        self.call: Callable[..., tuple[Tensor, Tensor]] = jfa.reference_attention

    def __call__(self, *args: object, **options: object) -> tuple[Tensor, Tensor]:
        if self.is_reference:
            return jfa.reference_attention(*args, **options)  # type: ignore[arg-type]
        return jfa.jagged_attention(*args, **options, return_lse=True)  # type: ignore[call-overload]


@pytest.fixture(params=COMPUTATIONS)
def compute(request: pytest.FixtureRequest) -> Computation:
    return Computation(request.param)
