"""Jagged Flash Attention: attention over sequences of different lengths without padding.

``jagged_attention`` is the call; ``causal`` … ``intervals`` make masks, ``dense_bias`` …
``time_bias`` make biases, ``plan`` shares the work list between layers. ``reference_attention`` is
the float64 definition that every engine is compared with; ``check`` compares for a one-line
problem.
"""

from jfa._core import (
    DeviceError,
    Error,
    InvalidArgument,
    InvalidType,
    PlanStatistics,
    Unsupported,
)
from jfa._core import version as __version__
from jfa._devices import emulated
from jfa._operators import offsets_from_lengths
from jfa._plan import Plan
from jfa.attention import jagged_attention, plan, reference_attention
from jfa.biases import Bias, alibi_bias, dense_bias, position_bias, time_bias
from jfa.masks import (
    Mask,
    blocks,
    causal,
    full,
    hstu,
    intervals,
    prefix_local,
    window,
)
from jfa.problems import CheckReport, Problem, check, parse_problem, problem_notation
from jfa.scales import OutScale, per_sequence, per_token

__all__ = [
    "Bias",
    "CheckReport",
    "DeviceError",
    "Error",
    "InvalidArgument",
    "InvalidType",
    "Mask",
    "OutScale",
    "Plan",
    "PlanStatistics",
    "Problem",
    "Unsupported",
    "__version__",
    "alibi_bias",
    "blocks",
    "causal",
    "check",
    "dense_bias",
    "emulated",
    "full",
    "hstu",
    "intervals",
    "jagged_attention",
    "offsets_from_lengths",
    "parse_problem",
    "per_sequence",
    "per_token",
    "plan",
    "position_bias",
    "prefix_local",
    "problem_notation",
    "reference_attention",
    "time_bias",
    "window",
]
